"""Figures and tables from rows."""
