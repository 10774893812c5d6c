"""Figures as SVG within one HTML page: what many figures repeat is stored once.

Matplotlib writes each figure as a document of its own, with a group around each mark and a style in each tag. Within a
page, styles become classes, equal shapes of marks and equal clip paths have one definition, groups without attributes
are dissolved, and adjacent lines of one style become one path. Coordinates have two decimals, in points. The cost is
that of reading the SVG.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from xml.etree import ElementTree

from cpms.base.text import escape

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LEFT_OUT = ("metadata", "style", "defs")
"""Elements that are not copied: definitions are written apart, and the page has Matplotlib's one rule of style."""
_REFERENCE = re.compile(r"(?<=#)[\w-]+(?=[)\"']|$)")

_STRAIGHT = re.compile(r"(M[^A-Za-z]+([Ll]\S+ |[HVhv])[^A-Za-z\s]+)+")
_POINT = re.compile(r"([ML])(\S+) ([^A-Za-z\s]+)")


@dataclass
class _Element:
    """An element of SVG with the attributes that it has on the page."""

    tag: str
    attributes: dict[str, str]
    children: list[_Element] = field(default_factory=list)
    text: str = ""

    def __str__(self) -> str:
        inner = escape.html(self.text) + "".join(map(str, self.children))
        held = "".join(f' {name}="{escape.html(value)}"' for name, value in self.attributes.items())
        return f"<{self.tag}{held}>{inner}</{self.tag}>" if inner else f"<{self.tag}{held}/>"


class InlineFigures:
    """The figures of one page, with the styles and definitions that they share.

    Examples
    --------
    >>> figures = InlineFigures()
    >>> shape = '<defs><path id="m" d="M 0 0 L 2 0 z" style="fill: red"/></defs>'
    >>> picture = f'<svg><g id="axes">{shape}<use href="#m" x="1.234" y="2"/></g></svg>'
    >>> figures.inlined(picture)
    '<svg><defs><path d="M0 0H2z" class="s0" id="f0"/></defs><use href="#f0" x="1.23" y="2"/></svg>'
    >>> figures.inlined(picture)
    '<svg><use href="#f0" x="1.23" y="2"/></svg>'
    >>> figures.rules()
    '.s0 {fill:red}'
    """

    def __init__(self) -> None:
        self._classes: dict[str, str] = {}
        self._shapes: dict[str, str] = {}

    def rules(self) -> str:
        """Return the rules of CSS for the classes of the figures so far."""
        return "\n".join(f".{name} {{{style}}}" for style, name in self._classes.items())

    def inlined(self, picture: str) -> str:
        """Return an SVG document as an element of the page; the first figure with a shape has its definition."""
        root = ElementTree.fromstring(picture)  # noqa: S314 Matplotlib wrote the picture.
        groups = (group for group in root.iter() if _plain(group.tag) == "defs")
        sources = {each.attrib["id"]: each for group in groups for each in group if "id" in each.attrib}
        names, new, lines = dict[str, str](), list[_Element](), dict[str, str]()
        for own, source in sources.items():
            shape = self._element(source, {}, {})
            text = str(shape)
            if text not in self._shapes:
                self._shapes[text] = f"f{_number(len(self._shapes))}"
                new.append(_Element(shape.tag, {**shape.attributes, "id": self._shapes[text]}, shape.children))
            names[own] = self._shapes[text]
            if line := re.fullmatch(r"M0 0([LHV])([^A-Za-z]*)", shape.attributes.get("d", "")):
                lines[names[own]] = line[1].lower() + line[2]
        figure = self._element(root, names, lines)
        if new:
            figure.children.insert(0, _Element("defs", {}, new))
        return str(figure)

    def _element(self, source: ElementTree.Element, names: dict[str, str], lines: dict[str, str]) -> _Element:
        found = _Element(_plain(source.tag), {}, text=source.text or "")
        if found.tag != "tspan":
            found.text = found.text.strip()
        for name, value in source.attrib.items():
            renamed = _REFERENCE.sub(lambda own: names.get(own[0], own[0]), value)
            found.attributes |= self._attribute(_plain(name), renamed)
        children = (self._element(each, names, lines) for each in source if _plain(each.tag) not in _LEFT_OUT)
        found.children = self._joined(part for child in children for part in _dissolved(child))
        return _as_path(found, lines)

    def _attribute(self, name: str, value: str) -> dict[str, str]:
        """Return an attribute as the page has it, or nothing."""
        if name in ("id", "type", "version") or value.startswith("rotate(-0 "):
            return {}
        if name == "style":
            style = re.sub(r"([:;]) ", r"\1", re.sub(r"font-family: [^;]*", "font-family: sans-serif", value))
            return {"class": self._classes.setdefault(style, f"s{len(self._classes):x}")}
        value = re.sub(r"-?\d+\.\d+", _rounded, value)
        return {name: _short_path(re.sub(r"\s*([A-Za-z])\s*", r"\1", value).strip()) if name == "d" else value}

    def _joined(self, elements: Iterable[_Element]) -> list[_Element]:
        """Return elements of which adjacent groups, and adjacent lines, of the same attributes are one."""
        joined: list[_Element] = []
        for element in elements:
            last = joined[-1] if joined else element
            if element is last or element.tag != last.tag or _but_path(element) != _but_path(last):
                joined.append(element)
            elif element.tag == "g":
                last.children = self._joined([*last.children, *element.children])
            elif self._is_line(last) and self._is_line(element):
                last.attributes["d"] += element.attributes["d"]
            else:
                joined.append(element)
        return joined

    def _is_line(self, element: _Element) -> bool:
        """Return whether an element covers no area, and nothing shines through it, so that lines can be one path."""
        style = next((style for style, name in self._classes.items() if name == element.attributes.get("class")), "")
        straight = _STRAIGHT.fullmatch(element.attributes.get("d", ""))
        return element.tag == "path" and "opacity" not in style and bool(straight or "fill:none" in style)


def _dissolved(element: _Element) -> list[_Element]:
    """Return the children of a group without attributes, or the element."""
    return element.children if element.tag == "g" and not element.attributes else [element]


def _as_path(element: _Element, lines: dict[str, str]) -> _Element:
    """Return the use of a shape that is one line as that line, as far as adjacent ones can then be joined."""
    shape = lines.get(element.attributes.get("href", "")[1:])
    if element.tag != "use" or shape is None:
        return element
    place = f"M{element.attributes['x']} {element.attributes['y']}{shape}"
    return _Element("path", {"d": place, "class": element.attributes["class"]})


def _short_path(path: str) -> str:
    """Return a path whose lines along an axis have one coordinate.

    Examples
    --------
    >>> _short_path("M1 2L3 2L3 4z")
    'M1 2H3V4z'
    """
    last = ("", "")

    def shortened(point: re.Match[str]) -> str:
        nonlocal last
        command, x, y = point.groups()
        before, last = last, (x, y)
        if command == "L" and y == before[1]:
            return f"H{x}"
        return f"V{y}" if command == "L" and x == before[0] else point[0]

    return path if re.search("[CQ]", path) else _POINT.sub(shortened, path)


def _but_path(element: _Element) -> dict[str, str]:
    return {name: value for name, value in element.attributes.items() if name != "d"}


def _plain(name: str) -> str:
    """Return a name of XML without its namespace."""
    return name.rpartition("}")[2]


def _rounded(number: re.Match[str]) -> str:
    text = f"{float(number[0]):.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _number(number: int) -> str:
    """Return a number in base 62."""
    text = _DIGITS[number % 62]
    while number := number // 62:
        text = _DIGITS[number % 62] + text
    return text
