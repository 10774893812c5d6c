"""Sparse matrices in main memory and their layouts, one a file: each builds its arrays and counts its bytes."""
