"""Figures of any experiment: each template draws observations, whatever the kind of their rows."""
