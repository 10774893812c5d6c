"""Execution over the ranks of an MPI program."""
