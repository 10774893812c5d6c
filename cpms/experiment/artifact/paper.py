"""The paper of an artifact, compiled by pdflatex: its figures lie in ``figures``, its numbers in ``numbers.tex``.

The date in the file is that of the rows, so that the same rows give the same paper. Two passes resolve references.
"""

from __future__ import annotations

import datetime
import difflib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from cpms.base.errors import InputError, UnavailableError
from cpms.experiment.rows.rows import Row

PACKAGES = ("texlive-latex-base", "texlive-latex-recommended", "lmodern")
"""Packages of Debian that have pdflatex and the usual classes and fonts."""
_LIMIT_S = 120


def compiled(source: Path, rows: Sequence[Row]) -> Path:
    """Compile a paper in its own folder and return the PDF.

    Raises
    ------
    UnavailableError
        If pdflatex is not installed.
    InputError
        If LaTeX stops: at an error, or at a number that the rows do not have.
    """
    program = shutil.which("pdflatex")
    if program is None:
        raise UnavailableError(f"pdflatex is not installed; 'apt-get install {' '.join(PACKAGES)}' installs it")
    moments = [datetime.datetime.fromisoformat(row["time_utc"]) for row in rows if "time_utc" in row]
    epoch = int(max(moments).timestamp()) if moments else 0
    options = ("-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "-file-line-error")
    dated = {"SOURCE_DATE_EPOCH": str(epoch), "FORCE_SOURCE_DATE": "1"}
    where = {"cwd": source.parent, "env": {**os.environ, **dated, "max_print_line": "1000"}}
    for _ in range(2):
        command = [program, *options, source.name]
        done = subprocess.run(command, **where, capture_output=True, check=False, timeout=_LIMIT_S)  # type: ignore[call-overload]  # noqa: S603
        if done.returncode:
            log = done.stdout.decode(errors="replace")
            errors = re.findall(r"^(?:.+:\d+: |! )(.+)$", log, re.MULTILINE)
            why = errors[0] + _remedy(errors[0], source.parent) if errors else log[-300:]
            raise InputError(f"{source.name}: LaTeX stops: {why}")
    for ending in (".aux", ".out"):
        source.with_suffix(ending).unlink(missing_ok=True)
    return source.with_suffix(".pdf")


def _remedy(error: str, folder: Path) -> str:
    """Return a text with the nearest number, or with where a table names its packages; empty for other errors.

    Examples
    --------
    >>> _remedy("LaTeX Error: Environment landscape undefined.", Path())
    ' The first line of a table, such as figures/NAME_table.tex, names the packages that the table needs.'
    """
    if re.search(r"Environment \w+ undefined", error):
        return " The first line of a table, such as figures/NAME_table.tex, names the packages that the table needs."
    missing = re.match(r"cpms has no number (.+?)\.?$", error)
    numbers = folder / "numbers.tex"
    if missing is None or not numbers.is_file():
        return ""
    known = re.findall(r"^\\cpmsdefine\{(.+?)\}\{", numbers.read_text(), re.MULTILINE)
    near = difflib.get_close_matches(missing[1].replace(" ", "-"), known, n=1)
    return f" Did you mean {near[0]}? numbers.tex lists all names." if near else " numbers.tex lists all names."
