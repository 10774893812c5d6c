"""Number formats as frozen data, their quantisation, and a slow oracle in Python integers."""
