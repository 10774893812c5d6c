"""Generated pages of the documentation: numbers from recorded rows, keys of configurations from their models."""
