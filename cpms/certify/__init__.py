"""Residual and error bound of an answer, by code that no backend shares."""
