"""Tables in LaTeX that fit a page, with every text escaped; no other module writes LaTeX.

A table is upright in the largest type size in which it fits. A wider one is in landscape, and one that is wider still
is split by columns into parts of like widths. Each part repeats the columns that make rows unique, the first of the
table that do; where these take more than half a page, or rows are alike, rows are numbered in each part. A table that
is longer than a page continues on further pages (``longtable``). Heads are stacked, and long texts wrapped. Numbers are
aligned at the decimal point by invisible digits behind them, without a package, and the best ones are bold. The page is
that of LaTeX's class ``article``, and widths are estimated from the number of characters. The first line lists the
packages to load.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpms.base.text import escape
from cpms.base.text.tables import LONGEST_WORD, Best, apart, is_best, numeric, shortened_caption, texts

if TYPE_CHECKING:
    import pandas as pd

_WIDTH_PT, _HEIGHT_PT = 345.0, 550.0
"""Size of the text area of a page."""
_HEAD_CHARACTERS = 8
"""Width of a stacked head, unless cells are wider."""
_WRAPPED_CHARACTERS = 30
"""Width from which texts are wrapped."""


@dataclass(frozen=True)
class _Setting:
    """A type size with the width of two digits, the height of a line, and half the space between columns."""

    size: str
    two_digits_pt: float
    line_pt: float
    separation_pt: float
    turned: bool

    @property
    def width_pt(self) -> float:
        return _HEIGHT_PT if self.turned else _WIDTH_PT

    @property
    def height_pt(self) -> float:
        return _WIDTH_PT if self.turned else _HEIGHT_PT


_SETTINGS = [
    _Setting("normalsize", 10, 12, 6, turned=False),
    _Setting("footnotesize", 8.5, 9.5, 4, turned=False),
    _Setting("scriptsize", 8.1, 8, 3, turned=False),
    _Setting("footnotesize", 8.5, 9.5, 4, turned=True),
    _Setting("scriptsize", 8.1, 8, 3, turned=True),
]
"""Settings in the order of preference; tables that fit none are split in the last."""


class _Column:
    """A column of text, its head in lines, and its width."""

    def __init__(self, head: str, cells: list[str], bold: list[bool], *, right: bool) -> None:
        self.cells, self.right, self._bold = cells, right, bold
        parts = [apart(cell) for cell in cells] if right else []
        self._tail = max((tail for _, tail in parts), key=_em, default="")
        widest = max((_em(head) for head, _ in parts), default=0.0) + _em(self._tail)
        widest = max([widest, *map(_em, cells)])
        longest_word = max((_em(word) for cell in cells for word in cell.split()), default=0.0)
        self.wraps = not right and widest > _em("x" * _WRAPPED_CHARACTERS)
        self.cell_em = max(longest_word, _em("x" * _WRAPPED_CHARACTERS)) if self.wraps else widest
        characters = max(_HEAD_CHARACTERS, int(self.cell_em / _em("x")))
        self.head = textwrap.wrap(head, characters, break_long_words=False, break_on_hyphens=False) or [""]
        self.em = max(self.cell_em, *map(_em, self.head))

    @property
    def has_fractions(self) -> bool:
        """Whether the column is one of numbers that are not all whole."""
        return self.right and self._tail != ""

    def lines(self, row: int) -> int:
        """Return an estimate of the lines of a cell; words rarely fill a line."""
        return 1 + int(1.2 * _em(self.cells[row]) / self.em) if self.wraps else 1

    def format(self, two_digits_pt: float) -> str:
        if self.wraps:
            return f">{{\\raggedright\\arraybackslash}}p{{{self.em * two_digits_pt:.0f}pt}}"
        return "r" if self.right else "l"

    def written(self, row: int) -> str:
        """Return a cell; a number that ends before others of the column has invisible digits behind it."""
        head, tail = apart(self.cells[row]) if self.right else (self.cells[row], "")
        if not self._bold[row] and _shape(tail) == _shape(self._tail):
            return escape.latex(self.cells[row])
        head, tail = (
            rf"\textbf{{{text}}}" if text and self._bold[row] else text for text in map(escape.latex, (head, tail))
        )
        behind = rf"\phantom{{{escape.latex(self._tail)}}}" if self._tail and head else ""
        return head + (rf"\rlap{{{tail}}}" if tail else "") + behind

    def stacked(self) -> str:
        lines = [escape.latex(line) for line in self.head]
        if len(lines) == 1:
            return lines[0]
        side = "r" if self.right else "l"
        return f"\\begin{{tabular}}[b]{{@{{}}{side}@{{}}}}" + r" \\ ".join(lines) + r"\end{tabular}"


def latex_table(
    table: pd.DataFrame, *, caption: str, label: str, best: Best | None = None, among: Sequence[bool] | None = None
) -> str:
    r"""Return a table in LaTeX, or several if it is too wide for one.

    Parameters
    ----------
    table : DataFrame
    caption : str
        Plain text.
    label : str
        Label in the document; further parts append ``-2`` and so on, and their captions refer to the first part.
    best : dict, optional
        Rules of the cells in bold, see `cpms.base.text.tables.is_best`.
    among : sequence of bool, optional
        Whether each line may have the best.

    Examples
    --------
    >>> import pandas as pd
    >>> print(latex_table(pd.DataFrame({"graph": ["a_b"], "nodes": [3]}), caption="100%", label="tab:a"))
    % packages: array, booktabs, longtable, pdflscape
    \begin{table}
    \centering\normalsize\setlength{\tabcolsep}{6pt}
    \caption{100\%}\label{tab:a}
    \begin{tabular}{lr}
    \toprule
    graph & nodes \\
    \midrule
    a\_b & 3 \\
    \bottomrule
    \end{tabular}
    \end{table}
    <BLANKLINE>
    """
    cells, bold = texts(table), is_best(table, best, among)
    columns = [
        _Column(escape.abbreviate_words(str(head), LONGEST_WORD), [line[k] for line in cells], bold[k], right=right)
        for k, (head, right) in enumerate(zip(table.columns, numeric(table), strict=True))
    ]
    setting = next((each for each in _SETTINGS if _width_pt(columns, each) <= each.width_pt), _SETTINGS[-1])
    parts = _split(columns, setting)
    written = []
    first = escape.latex_label(label)
    for number, part in enumerate(parts, 1):
        suffix = f"part {number} of {len(parts)}" if len(parts) > 1 else ""
        if number == 1:
            texts_of = [shortened_caption(caption), f"({suffix})" if suffix else ""]
            name, title = first, escape.latex(" ".join(filter(None, texts_of)))
        else:
            name, title = escape.latex_label(f"{label}-{number}"), rf"Table \ref{{{first}}}, continued ({suffix})"
        written.append(_environment(part, len(table), setting, title, name))
    return "% packages: array, booktabs, longtable, pdflscape\n" + "\n".join(written)


def _environment(columns: list[_Column], rows: int, setting: _Setting, title: str, name: str) -> str:
    form = "".join(column.format(setting.two_digits_pt) for column in columns)
    head = " & ".join(column.stacked() for column in columns) + r" \\"
    body = [" & ".join(column.written(k) for column in columns) + r" \\" for k in range(rows)]
    begin = f"\\{setting.size}\\setlength{{\\tabcolsep}}{{{setting.separation_pt:g}pt}}"
    titles = [f"\\caption{{{title}}}\\label{{{name}}}"] if title else []
    lines: float = sum(max(column.lines(k) for column in columns) for k in range(rows))
    lines += (
        max(len(column.head) for column in columns) + 4 + 1.2 * _em(title) * setting.two_digits_pt / setting.width_pt
    )
    if setting.turned or lines * setting.line_pt > setting.height_pt:
        text = [
            r"\begingroup" + begin + r"\setlength{\LTcapwidth}{\linewidth}",
            f"\\begin{{longtable}}{{{form}}}",
            *(f"{line} \\\\" for line in titles),
            *(r"\toprule", head, r"\midrule", r"\endfirsthead"),
            *(r"\toprule", head, r"\midrule", r"\endhead"),
            *(r"\bottomrule", r"\endfoot"),
            *body,
            r"\end{longtable}",
            r"\endgroup",
        ]
        text = [r"\begin{landscape}", *text, r"\end{landscape}"] if setting.turned else text
    else:
        text = [
            r"\begin{table}",
            r"\centering" + begin,
            *titles,
            f"\\begin{{tabular}}{{{form}}}",
            *(r"\toprule", head, r"\midrule"),
            *body,
            *(r"\bottomrule", r"\end{tabular}", r"\end{table}"),
        ]
    return "\n".join(text) + "\n"


def _split(columns: list[_Column], setting: _Setting) -> list[list[_Column]]:
    """Return the columns in parts that fit, each with the columns that make rows unique or with numbers of rows."""
    if _width_pt(columns, setting) <= setting.width_pt:
        return [columns]
    found, keys, rows = _keys(columns), [], len(columns[0].cells)
    if _distinct(found) < rows or _width_pt(found, setting) > setting.width_pt / 2:
        keys = [_Column("row", [str(row) for row in range(1, rows + 1)], [False] * rows, right=True)]
        columns = [*keys, *columns]
    for key in found:
        if _width_pt([*keys, key], setting) > setting.width_pt / 2:
            break
        keys.append(key)
    others = [column for column in columns if column not in keys]
    parts = _filled(keys, others, setting, setting.width_pt)
    for width_pt in range(int(setting.width_pt), int(setting.width_pt / 2), -5):
        narrower = _filled(keys, others, setting, width_pt)
        parts = narrower if len(narrower) == len(parts) else parts
    return [sorted(part, key=columns.index) for part in parts]


def _filled(keys: list[_Column], others: list[_Column], setting: _Setting, width_pt: float) -> list[list[_Column]]:
    """Return parts that each begin with the keys and are no wider than a width, if a column is not wider alone."""
    parts = [list(keys)]
    for column in others:
        if len(parts[-1]) > len(keys) and _width_pt([*parts[-1], column], setting) > width_pt:
            parts.append(list(keys))
        parts[-1].append(column)
    return parts


def _keys(columns: list[_Column]) -> list[_Column]:
    """Return the first columns that make most rows unique; measured values are none, and counts where they must be."""
    keys: list[_Column] = []
    for column in columns:
        if not column.has_fractions and _distinct([*keys, column]) > _distinct(keys):
            keys.append(column)
    for column in list(keys):
        others = [each for each in keys if each is not column]
        if column.right and _distinct(others) == _distinct(keys):
            keys = others
    return keys


def _distinct(columns: list[_Column]) -> int:
    return len(set(zip(*(column.cells for column in columns), strict=True)))


def _width_pt(columns: list[_Column], setting: _Setting) -> float:
    return sum(column.em * setting.two_digits_pt + 2 * setting.separation_pt for column in columns)


def _shape(tail: str) -> str:
    """Return the rest of a number with all digits alike, which have one width."""
    return re.sub(r"\d", "0", tail)


def _em(text: str) -> float:
    """Return the estimated width of a text in em: more for capitals and wide letters, most for code points."""
    return sum(_character_em(character) for character in text)


def _character_em(character: str) -> float:
    if not character.isascii():
        return 4.5
    return 0.78 if character.isupper() or character in "mw%@&+=<>~^\\" else 0.5
