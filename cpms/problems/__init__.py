"""Equations to solve: PageRank with its teleport distribution and initial guess, and linear systems."""
