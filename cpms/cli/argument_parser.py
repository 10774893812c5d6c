"""The parser of the command line's arguments."""

from __future__ import annotations

import argparse
from typing import NoReturn

from cpms.base.text.terminal import error_line


class Parser(argparse.ArgumentParser):
    """A parser whose errors are escaped: they name arguments, such as files that a shell found."""

    def error(self, message: str) -> NoReturn:
        """Print usage and the error, and exit with code 2."""
        super().error(error_line(message))
