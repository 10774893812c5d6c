"""Sparse layouts, one a file: each builds its arrays from a graph and knows its bytes."""
