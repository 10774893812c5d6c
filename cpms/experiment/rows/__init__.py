"""Rows of experiments: what they hold, whether they still stand, and which commit explains them."""
