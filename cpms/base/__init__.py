"""Foundations that know nothing of the field: errors, validation, threads, atomic files, array types."""
