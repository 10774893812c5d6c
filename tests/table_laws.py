"""Laws of the shipped tables: they name machine and commit, have the words of people, and say what is bold."""

from __future__ import annotations

import re

RAW = re.compile(r"True|False|\b1 ranks|heirs\b|\w(_ms|_mb|_group|_name)\b|gpu_suite|nodes=\d+,|\bT_p\b")
"""What no table for people has: names of Python, and authors without theirs."""
PRINTED = {"ppr_table1_printed", "ppr_table2_printed", "scaling_table2"}
"""Tables of values of others alone."""


def table_faults(paths):
    """Yield what is wrong with the tables among the files that a program wrote."""
    for path in paths:
        if path.suffix != ".md":
            continue
        caption, _, table = path.read_text().partition("\n")
        if found := RAW.search(table):
            yield f"{path.stem} has {found[0]!r}, which is no word for people"
        if "**" in table and "bold" not in caption.lower():
            yield f"{path.stem} does not say what its bold numbers are"
        if ("Machine" in caption and "Commit" in caption) is (path.stem in PRINTED):
            yield f"{path.stem} has no machine or commit, or is of others and has one"
