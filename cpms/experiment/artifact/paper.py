"""The paper of an artifact, compiled by pdflatex: its figures lie in ``figures``, its numbers in ``numbers.tex``.

The date in the file is that of the rows, so that the same rows give the same paper. Two passes resolve references.
"""

from __future__ import annotations

import datetime
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
    where = {"cwd": source.parent, "env": {**os.environ, "SOURCE_DATE_EPOCH": str(epoch), "FORCE_SOURCE_DATE": "1"}}
    for _ in range(2):
        command = [program, *options, source.name]
        done = subprocess.run(command, **where, capture_output=True, check=False, timeout=_LIMIT_S)  # type: ignore[call-overload]  # noqa: S603
        if done.returncode:
            log = done.stdout.decode(errors="replace")
            errors = re.findall(r"^(?:.+:\d+: |! )(.+)$", log, re.MULTILINE)
            raise InputError(f"{source.name}: LaTeX stops: {errors[0] if errors else log[-300:]}")
    for ending in (".aux", ".out"):
        source.with_suffix(ending).unlink(missing_ok=True)
    return source.with_suffix(".pdf")
