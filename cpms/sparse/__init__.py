"""Sparse matrix layouts for processors, one a file: each builds its arrays from a graph and counts its bytes."""
