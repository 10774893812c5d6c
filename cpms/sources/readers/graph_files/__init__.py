"""Graph files of other programs and collections, one kind a module."""
