"""Distributed graphs: ranks read or generate parts of the edges, then redistribute them by target row."""
