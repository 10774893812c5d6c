"""Output of the command line, with each line escaped; no other module prints."""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from cpms.base.text import escape


def say(*lines: object) -> None:
    r"""Print lines on standard output; line breaks within a line are escaped.

    Examples
    --------
    >>> say("web\nconverged", 3)
    web\nconverged
    3
    """
    with _without_bars():
        for line in lines:
            print(escape.terminal(str(line)), flush=True)


def say_json(report: Any) -> None:
    r"""Print one line of JSON, in ASCII and without control characters.

    Examples
    --------
    >>> say_json({"graph": "グ\x1b\x7f"})
    {"graph": "\u30b0\u001b\u007f"}
    """
    print(json.dumps(report).replace("\x7f", "\\u007f"), flush=True)


def complain(sentence: str) -> None:
    """Print an error on standard error, in one line."""
    print(f"cpms: error: {error_line(sentence)}", file=sys.stderr, flush=True)


def note(sentence: str) -> None:
    """Print a note on standard error, in one line."""
    print(f"cpms: {error_line(sentence)}", file=sys.stderr, flush=True)


def _without_bars() -> AbstractContextManager[None]:
    """Return a context in which no bar is on the terminal's last line; without bars nothing is loaded for it."""
    progress = sys.modules.get("cpms.base.text.progress")
    return nullcontext() if progress is None else progress.Bar.external_write_mode(file=sys.stdout)


def error_line(sentence: str) -> str:
    r"""Return an error's sentence in one line, with the line breaks of other libraries' errors as spaces.

    Examples
    --------
    >>> print(error_line("a:\n  no number \x1b[31m"))
    a: no number \x1b[31m
    """
    return escape.terminal(" ".join(sentence.split()))
