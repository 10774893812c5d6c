"""The errors that cpms raises on purpose; each carries the exit code of the command line."""

from __future__ import annotations


class CpmsError(Exception):
    """Base of every error raised on purpose; its text is one sentence a user can act on."""

    exit_code = 1


class InputError(CpmsError, ValueError):
    """A file, an argument or a configuration is wrong; the text names the place and the mend."""

    exit_code = 2


class UnsupportedError(CpmsError, NotImplementedError):
    """The combination asked for is not implemented by this engine or layout."""

    exit_code = 2


class UnavailableError(CpmsError, RuntimeError):
    """An engine or optional library cannot run on this machine."""

    exit_code = 3
