"""Errors that cpms raises deliberately, each with the exit code of the command line."""

from __future__ import annotations


class CpmsError(Exception):
    """Base of all deliberate errors; the text is one sentence that says what to do."""

    exit_code = 1


class InputError(CpmsError, ValueError):
    """A file, an argument or a configuration is invalid; the text names it and the remedy."""

    exit_code = 2


class UnsupportedError(CpmsError, NotImplementedError):
    """An engine or a layout does not implement the requested combination."""

    exit_code = 2


class UnavailableError(CpmsError, RuntimeError):
    """An engine or optional library cannot run on this machine."""

    exit_code = 3
