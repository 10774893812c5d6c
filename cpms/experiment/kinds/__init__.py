"""Kinds of experiments, one a file: each has a ``Config`` that makes cells and a ``Context`` that measures one."""
