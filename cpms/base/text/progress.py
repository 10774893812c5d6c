"""Progress bars (tqdm) whose names are escaped and abbreviated; no other module draws them."""

from __future__ import annotations

from typing import Any

from tqdm import tqdm

from cpms.base.text import escape

_LONGEST_NAME = 40
"""Characters of a name in a bar."""


class Bar(tqdm):  # type: ignore[type-arg]
    """A progress bar; the names in it are escaped and abbreviated."""

    def __init__(self, *given: Any, desc: str | None = None, **options: Any) -> None:
        options["desc"] = None if desc is None else _name(desc)
        super().__init__(*given, **options)

    def set_description(self, desc: str | None = None, refresh: bool | None = True) -> None:
        """Show text in front of the bar."""
        super().set_description(None if desc is None else _name(desc), refresh)

    def set_postfix_str(self, s: str = "", refresh: bool = True) -> None:
        """Show text behind the bar."""
        super().set_postfix_str(_name(s), refresh)


def _name(text: str) -> str:
    return escape.terminal(" ".join(escape.abbreviate(word, _LONGEST_NAME) for word in text.split(" ")))
