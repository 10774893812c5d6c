"""Escaping of untrusted text: one function each for terminals, LaTeX, Markdown, CSV, HTML and figures.

Names of graphs, nodes and files, captions and reasons are plain text: none of their characters is markup. A writer
escapes each text once, as the last step (output encoding, OWASP). Invisible characters appear as Python's escapes in
every format: line breaks, control sequences, and marks that reorder adjacent text. Printable text costs one test.
"""

from __future__ import annotations

import html as _html
import re
import unicodedata
from functools import cache

_UNESCAPED = "\u200c\u200d\u3000"
"""Joiners, which shape letters and emoji, and the space of Chinese and Japanese."""
_ELLIPSIS = "…"
_FORMULA = tuple("=+-@\t\r\n＝＋－＠")  # noqa: RUF001
"""First characters of formulas in spreadsheets."""
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?%?|[+-]?(inf|nan)", re.IGNORECASE | re.ASCII)
_MARKDOWN = re.compile(r"[\\`*|<>\[\]&~$]|(?<![^\W_])_|_(?![^\W_])")
"""Markup of Markdown; an underscore within a word is none."""
_MARKDOWN_BLOCK = re.compile(r"(#|[-+=]|\d{1,9}(?=[.)]))")
"""Beginnings of a paragraph that make it a heading, a list or a rule."""
_LATEX_ACCENTS = {
    chr(0x300 + mark): accent
    for mark, accent in zip((0, 1, 2, 3, 8, 4, 7, 6, 12, 11, 39, 10), "`'^~\"=.uvHcr", strict=True)
}
"""Accents of combining marks."""
_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\char34{}", "[": "{[}", "]": "{]}", "*": "{*}",
    "ß": r"\ss{}", "æ": r"\ae{}", "Æ": r"\AE{}", "œ": r"\oe{}", "Œ": r"\OE{}", "ø": r"\o{}", "Ø": r"\O{}",
    "ł": r"\l{}", "Ł": r"\L{}", "\u2013": "--", "\u2014": "---", _ELLIPSIS: r"\ldots{}",
    "\u00d7": r"$\times$", "\u00b7": r"$\cdot$",
}  # fmt: skip
"""Brackets and stars are in braces: after the end of a table's line they would be its options."""
_LATEX_LIGATURE = re.compile(r"(?<=[-'`?!,])(?=[-'`,])")


def terminal(text: str) -> str:
    r"""Return one line for a terminal, in which no character moves the cursor, colours, breaks or reorders the line.

    Examples
    --------
    >>> print(terminal("web\x1b[2J\nconverged\u202e"))
    web\x1b[2J\nconverged\u202e
    >>> terminal("グラフ é 👩\u200d💻")
    'グラフ é 👩\u200d💻'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in _UNESCAPED else c.encode("unicode_escape").decode() for c in text)


def latex(text: str) -> str:
    r"""Return text for LaTeX that compiles with any engine, without packages and in every font encoding.

    Latin letters are written with LaTeX's accents. Any other character is replaced by its code point, ``[U+30B0]``,
    since the fonts of pdflatex lack it.

    Examples
    --------
    >>> print(latex("cost_$a_$ & 100%"), latex("é"), latex("グ"))
    cost\_\$a\_\$ \& 100\% \'{e} {[}U+30B0{]}
    """
    apart = _LATEX_LIGATURE.sub("\0", terminal(unicodedata.normalize("NFC", text)))
    return "".join("{}" if character == "\0" else _latex_character(character) for character in apart)


def latex_label(text: str) -> str:
    r"""Return text for a ``\label`` of LaTeX, which has no escapes: characters not permitted become hyphens.

    Examples
    --------
    >>> latex_label("tab:100%_{mine}")
    'tab:100-_-mine-'
    """
    return re.sub(r"[^A-Za-z0-9:._-]", "-", text)


def markdown(text: str) -> str:
    r"""Return text for a cell or within a paragraph of Markdown, free of markup, HTML and mathematics.

    Examples
    --------
    >>> print(markdown("pipe|name <b> rgg_n_2"))
    pipe\|name \<b\> rgg_n_2
    """
    return _MARKDOWN.sub(r"\\\g<0>", terminal(text))


def markdown_paragraph(text: str) -> str:
    r"""Return text for a paragraph of Markdown that is no heading, list or rule.

    Examples
    --------
    >>> print(markdown_paragraph("# a"), markdown_paragraph("10. b"))
    \# a 10\. b
    """
    escaped = markdown(text.strip())
    begin = _MARKDOWN_BLOCK.match(escaped)
    if begin is None:
        return escaped
    position = 0 if not begin[0][0].isdigit() else begin.end()
    return escaped[:position] + "\\" + escaped[position:]


def csv(text: str) -> str:
    r"""Return a cell of a CSV file that spreadsheets read as text and not as a formula; numbers are unchanged.

    A text that begins like a formula is prefixed by ``'``, the mark of spreadsheets for text. Line breaks and other
    control characters are escaped, so each record is one line.

    Examples
    --------
    >>> csv("=1+1"), csv("-1.5e3"), csv("+2.50%"), csv("web-Google")
    ("'=1+1", '-1.5e3', '+2.50%', 'web-Google')
    """
    if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text):
        text = "'" + text
    if text.isprintable():
        return text
    return "".join(
        c.encode("unicode_escape").decode() if unicodedata.category(c) in _ESCAPED_CATEGORIES else c for c in text
    )


_ESCAPED_CATEGORIES = ("Cc", "Cs", "Zl", "Zp")
"""Categories of characters that end a line, control a device, or have no encoding in UTF-8."""


def html(text: str) -> str:
    r"""Return text for HTML, within an element or a quoted attribute.

    Examples
    --------
    >>> html('<b title="x">')
    '&lt;b title=&quot;x&quot;&gt;'
    """
    return _html.escape(terminal(text))


def mathtext(text: str, most: int | None = None) -> str:
    r"""Return text for a figure of matplotlib without mathematics; characters that its font lacks become code points.

    A text of more than ``most`` characters is abbreviated.

    Examples
    --------
    >>> print(mathtext("cost_$a_$"), mathtext("グ"))
    cost_\$a_\$ [U+30B0]
    """
    shown = drawn(text)
    return (shown if most is None else abbreviate(shown, most)).replace("$", r"\$")


def drawn(text: str) -> str:
    """Return text as figures draw it: characters that their font lacks are written as ``[U+1F578]``."""
    glyphs = _glyphs()
    return "".join(c if ord(c) in glyphs else f"[U+{ord(c):04X}]" for c in terminal(text))


def abbreviate(text: str, most: int) -> str:
    """Return text of at most ``most`` characters: the beginning and the end of a longer one, since names differ there.

    Examples
    --------
    >>> abbreviate("standin:adaptive,size=3", 12)
    'standin…ze=3'
    """
    if len(text) <= most:
        return text
    end = most // 3
    return text[: most - end - 1] + _ELLIPSIS + text[-end:]


def abbreviate_words(text: str, most: int, words: int = 10) -> str:
    """Return text whose words have at most ``most`` characters, and which has at most ``words`` times as many.

    Examples
    --------
    >>> abbreviate_words("Highest ranks of abcdefghijklmnopqrstuvwxyz", 12)
    'Highest ranks of abcdefg…wxyz'
    """
    return abbreviate(re.sub(r"\S+", lambda word: abbreviate(word[0], most), text), words * most)


def width(text: str) -> int:
    """Return the width of a text in columns of a terminal: two for wide characters, none for combining marks.

    Examples
    --------
    >>> width("ab"), width("グラ"), width("e\u0301")
    (2, 4, 1)
    """
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def _latex_character(character: str) -> str:
    if character in _LATEX:
        return _LATEX[character]
    if character.isascii():
        return character
    letter = unicodedata.normalize("NFD", character)
    base, mark = letter[0], letter[1:]
    if mark in _LATEX_ACCENTS and base.isascii() and base.isalpha():
        return f"\\{_LATEX_ACCENTS[mark]}{{{base}}}"
    return f"{{[}}U+{ord(character):04X}{{]}}"


@cache
def _glyphs() -> frozenset[int]:
    """Return the code points in the font of figures."""
    from matplotlib import font_manager

    font = font_manager.get_font(font_manager.findfont("DejaVu Sans"))
    return frozenset(font.get_charmap())
