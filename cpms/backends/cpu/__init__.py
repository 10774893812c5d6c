"""Execution on processors by Numba."""
