"""Graphs that are built, validated and held in device memory."""
