"""Kernel templates, their sources and launch shapes."""
