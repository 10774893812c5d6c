"""Top-k selection and agreement of rankings."""
