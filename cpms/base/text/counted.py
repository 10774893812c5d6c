"""Numbers of things in sentences."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a number, with commas between thousands, and a noun, in the plural unless the number is 1.

    Examples
    --------
    >>> counted(1, "row"), counted(0, "row"), counted(2000, "entry", "entries")
    ('1 row', '0 rows', '2,000 entries')
    """
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
