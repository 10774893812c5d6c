"""Figures within a page are those of Matplotlib: the same lines at the same places, in the same styles."""

from __future__ import annotations

import math
import re
from collections import Counter
from xml.etree import ElementTree

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from cpms.experiment.report import figures
from cpms.experiment.report.html.inline_svg import InlineFigures
from cpms.experiment.report.show import styled

PLACES = st.floats(-5, 5, width=32)


def drawn(points, marker, hatch, alpha):
    """Return the SVG of a figure with every kind of element that our figures have."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2)
    left.errorbar([x for x, _ in points], [y for _, y in points], yerr=0.5, marker=marker)
    left.axhline(1, linestyle="--")
    left.set_title("a <b> & $c")
    right.bar(range(len(points)), [abs(y) for _, y in points], hatch=hatch)
    right.fill_between([0, 1], [0, 1], alpha=alpha)
    right.set_yscale("symlog")
    return figures.svg(figure)


def _plain(name):
    return name.rpartition("}")[2]


def style_of(element, rules):
    named = element.get("class")
    text = rules[named] if named else element.get("style", "")
    held = dict(re.split(r":\s*", part, maxsplit=1) for part in re.split(r";\s*", text) if part)
    return {name: value for name, value in held.items() if name != "font-family" and not value.startswith("url")}


def shapes_of(text, rules, shared):
    """Return every line, area and text that an SVG shows, with its place and style, counted."""
    root = ElementTree.fromstring(text)  # noqa: S314 The figures are our own.
    shared |= {each.get("id"): each for each in root.iter() if each.get("id")}
    found = Counter()

    def walk(element, clip):
        tag = _plain(element.tag)
        if tag in ("defs", "metadata", "style"):
            return
        clip = element.get("clip-path", clip)
        window = () if clip is None else numbers_of(shared[clip[5:-1]][0])
        if tag == "text":
            words = "".join(element.itertext()).split()
            found[("text", "".join(words), tuple(style_of(element, rules).items()))] += 1
            return
        if tag in ("use", "path"):
            reference = next((value for name, value in element.attrib.items() if _plain(name) == "href"), None)
            path = element if reference is None else shared[reference[1:]]
            style = tuple(sorted((style_of(element, rules) | style_of(path, rules)).items()))
            x, y = float(element.get("x", 0)), float(element.get("y", 0))
            for line in lines_of(path.get("d"), x, y):
                found[(window, style, line)] += 1
        for child in element:
            walk(child, clip)

    walk(root, None)
    return found


def numbers_of(rectangle):
    return tuple(float(rectangle.get(name)) for name in ("x", "y", "width", "height"))


def lines_of(path, x, y):
    """Yield the parts of a path that begin with a move, as commands with absolute places."""
    part, last = [], (0.0, 0.0)
    for command, text in re.findall(r"([A-Za-z])([^A-Za-z]*)", path):
        values = [float(each) for each in text.split()]
        if command in "HhVv":
            along, from_last = command in "Hh", command in "hv"
            moved = values[0] + (last[0 if along else 1] if from_last else (x if along else y))
            places, command = [(moved, last[1]) if along else (last[0], moved)], "L"
        elif command == "l":
            places = [(last[0] + values[0], last[1] + values[1])]
        else:
            places = [(px + x, py + y) for px, py in zip(values[::2], values[1::2], strict=True)]
        if command == "M" and part:
            yield tuple(part)
            part = []
        part += [(command.upper(), *places)]
        last = places[-1] if places else last
    yield tuple(part)


def matched(found, expected):
    """Assert that two counts of shapes are the same but for places that differ by rounding."""
    assert sum(found.values()) == sum(expected.values())
    rest = list(found.elements())
    for shape in expected.elements():
        place = next((k for k, other in enumerate(rest) if alike(shape, other)), None)
        assert place is not None, shape
        del rest[place]


def alike(one, other):
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, abs_tol=0.021)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    return one == other


@settings(max_examples=5, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(
    st.lists(st.lists(st.tuples(PLACES, PLACES), min_size=1, max_size=4), min_size=1, max_size=2),
    st.sampled_from("os^x+"),
    st.sampled_from(["//", "..", None]),
    st.sampled_from([0.3, 1.0]),
)
def test_a_page_shows_what_the_files_show(curves, marker, hatch, alpha):
    inline, shared = InlineFigures(), {}
    with styled():
        pictures = [drawn(points, marker, hatch, alpha) for points in [*curves, curves[0]]]
    shown = [inline.inlined(picture) for picture in pictures]
    rules = dict(re.findall(r"\.(\w+) \{(.*)\}", inline.rules()))
    for picture, short in zip(pictures, shown, strict=True):
        matched(shapes_of(short, rules, shared), shapes_of(picture, {}, {}))


def test_a_figure_of_the_same_shapes_adds_no_definition():
    inline = InlineFigures()
    with styled():
        first, second = (inline.inlined(drawn([(0, 1), (1, 2)], "o", "//", 0.3)) for _ in range(2))
    assert "<defs>" in first
    assert "<defs>" not in second
    assert "id=" not in second


@pytest.mark.parametrize("style", ["fill: red", "fill: none; stroke-opacity: 0.5"])
def test_areas_and_lines_that_shine_through_are_not_joined(style):
    path = f'<path d="M 0 0 L 1 1 L 2 0" style="{style}"/>'
    assert InlineFigures().inlined(f"<svg>{path}{path}</svg>").count("<path") == 2
