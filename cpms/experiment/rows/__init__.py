"""Rows of experiments: their columns, whether they are up to date, and the commits of their code."""
