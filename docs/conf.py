"""Sphinx configuration: pages in Markdown (MyST), docstrings in numpydoc's form (napoleon), no network.

``sphinx-build -W -b html docs OUT`` builds the pages; install ``.[docs]`` first.
"""

from __future__ import annotations

import re
from typing import Any

import cpms

project = "cpms"
author = copyright = "the cpms developers"
release = version = cpms.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
smartquotes = False
default_role = "py:obj"
root_doc = "index"
suppress_warnings = ["ref.python"]
"""Words of a type, such as ``nodes`` in a shape, may be names of several attributes."""

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_type_aliases = {"npt.ArrayLike": "ArrayLike"}
autosummary_generate = False
napoleon_google_docstring = False
napoleon_use_param = napoleon_use_rtype = False
python_maximum_signature_line_length = 100

html_theme = "furo"
html_title = f"cpms {release}"
html_copy_source = False
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["tables.css"]

_LITERAL = re.compile(r"(``.*?``)")
_BAR = re.compile(r"(?<!\\)\|")
_NO_VALUE = re.compile(r"<factory>|<function <lambda>( at 0x\w+)?>")


def escape_bars(_app: Any, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    """Escape the bars of absolute values, |x|, which reStructuredText takes for substitutions."""
    for number, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            parts = _LITERAL.split(line)
            parts[::2] = [_BAR.sub(r"\|", part) for part in parts[::2]]
            lines[number] = "".join(parts)


def keep_colons(_app: Any, what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    """Begin attributes with an empty comment: napoleon takes what precedes a colon in their first line for a type."""
    if what in ("attribute", "property"):
        lines[:0] = ["..", ""]


def shorten_defaults(
    _app: Any, _what: str, _name: str, _obj: Any, _options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Write dots for defaults that Python shows as no value; summaries cut such signatures at the wrong place."""
    return (None if signature is None else _NO_VALUE.sub("...", signature)), returns


def setup(app: Any) -> None:
    """Connect the hooks; the second one before napoleon."""
    app.connect("autodoc-process-signature", shorten_defaults)
    app.connect("autodoc-process-docstring", escape_bars)
    app.connect("autodoc-process-docstring", keep_colons, priority=400)
