"""Batches of personalised queries on a GPU."""
