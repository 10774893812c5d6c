"""Artifacts of papers: rows, figures, numbers and code in one folder, from which a stranger rebuilds all of it."""
