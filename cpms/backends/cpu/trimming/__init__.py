"""Trimming of small graphs."""
