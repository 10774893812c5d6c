"""Equations to be solved: PageRank, its teleport distribution and its first iterate."""
