"""Algorithms on contracts alone: power iteration, iterative refinement, batches of queries."""
