"""Small graphs, of which compiled loops would take longer to load than NumPy or Python takes to do their work."""
