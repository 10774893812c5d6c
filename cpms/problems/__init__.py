"""Equations to solve: PageRank, its teleport distribution and its initial guess."""
