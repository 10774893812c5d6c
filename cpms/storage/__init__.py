"""Arrays of numbers in a format: encoding, decoding, conversion in place, files."""
