"""Text is escaped for the place where it is read: laws of each of the six kinds, and tables of hostile names."""

import csv
import io
from html.parser import HTMLParser

import hostile_names
import matplotlib as mpl
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from latex_check import compile_all, faults
from matplotlib import cbook

from cpms.base.text import escape
from cpms.base.text.latex_table import latex_table
from cpms.base.text.tables import markdown, write_csv

HOSTILE = st.sampled_from(hostile_names.NAMES)
TEXTS = st.one_of(HOSTILE, st.text(), st.text(alphabet="\\$`*_[]<>|&#-=+@'\"\n\r\t\x1b 1.a"))


def test_there_are_forty_names():
    assert len(set(hostile_names.NAMES)) == 40


@given(TEXTS)
def test_a_terminal_gets_one_line_that_nothing_in_it_moves(text):
    line = escape.terminal(text)
    assert all(c.isprintable() or c in "\u200c\u200d\u3000" for c in line)
    assert escape.terminal(line) == line
    assert len(line.splitlines()) <= 1


@given(TEXTS)
def test_latex_has_no_markup_of_the_text(text):
    assert faults(escape.latex(text)) == []


@given(TEXTS)
def test_markdown_reads_as_the_text(text):
    read, rest = "", escape.markdown(text)
    while rest:
        assert rest[0] not in "|*<>[]`&~$"
        step = 2 if rest[0] == "\\" else 1
        read, rest = read + rest[step - 1 : step], rest[step:]
    assert read == escape.terminal(text)


@given(st.lists(st.tuples(TEXTS, st.floats(allow_nan=False)), min_size=1))
def test_csv_has_a_line_a_row_no_formula_and_numbers_as_they_are(rows):
    written = write_csv(pd.DataFrame(rows, columns=["name", "value"]))
    lines = list(csv.reader(io.StringIO(written)))
    assert written.count("\n") == len(lines) == len(rows) + 1
    for (name, number), (text, value) in zip(rows, lines[1:], strict=True):
        assert float(value) == number
        assert not text.startswith(("=", "@", "\t", "\r"))
        if text.startswith(("+", "-")):
            float(text.removesuffix("%"))
        if name.isprintable():
            assert text in (name, f"'{name}")


@given(TEXTS)
def test_html_has_one_text_and_no_element(text):
    seen = []
    parser = HTMLParser()
    parser.handle_data = seen.append
    parser.handle_starttag = parser.handle_comment = parser.handle_decl = lambda *_: pytest.fail(text)
    parser.feed(escape.html(text))
    parser.close()
    assert "".join(seen) == escape.terminal(text)


@given(TEXTS)
def test_figures_have_no_mathtext_and_glyphs_that_the_font_has(text):
    drawn = escape.mathtext(text)
    assert not cbook.is_math_text(drawn)
    assert all(ord(c) in escape._glyphs() for c in drawn)
    assert len(escape.mathtext(text, 20).replace(r"\$", "$")) <= 20


def test_glyphs_are_those_of_the_font_that_figures_have():
    assert mpl.rcParams["font.sans-serif"][0] == "DejaVu Sans"


@given(st.text(), st.integers(4, 30))
def test_abbreviated_texts_keep_begin_and_end(text, most):
    short = escape.abbreviate(text, most)
    assert len(short) == min(len(text), most)
    assert short == text or (text.startswith(short[0]) and text.endswith(short[-1]))


def test_a_row_of_markdown_keeps_its_cells():
    table = markdown(pd.DataFrame({"graph": hostile_names.NAMES, "nodes": 1}))
    lines = table.split("\n")
    assert len(lines) == 2 + len(hostile_names.NAMES)
    assert {line.replace("\\\\", "").replace("\\|", "").count("|") for line in lines} == {3}
    assert max(map(len, lines)) < 200


def test_hostile_names_compile(tmp_path):
    tables = {
        "names": pd.DataFrame({"graph": hostile_names.NAMES, "nodes": 1}),
        "wide": pd.DataFrame([range(40)], columns=hostile_names.NAMES),
        "prose": pd.DataFrame({"reason": [" ".join(hostile_names.NAMES[:39])] * 70}),
    }
    files = []
    for name, table in tables.items():
        captions = hostile_names.NAMES if name == "names" else [name]
        text = "\n".join(latex_table(table, caption=caption, label=f"tab:{caption}") for caption in captions)
        assert faults(text.replace("% packages: array, booktabs, longtable, pdflscape\n", "")) == []
        files.append(tmp_path / f"{name}.tex")
        files[-1].write_text(text)
    compile_all(files, tmp_path)


def test_tables_fit_their_page_by_turning_splitting_and_running_on():
    def columns(count):
        return pd.DataFrame({"graph": ["a"], **{f"column{k}": [1.25] for k in range(count)}})

    upright, turned, split = (latex_table(columns(count), caption="c", label="l") for count in (3, 12, 40))
    assert upright.count(r"\begin{table}") == 1
    assert (turned.count(r"\begin{landscape}"), turned.count("part 1")) == (1, 0)
    assert split.count(r"\begin{landscape}") == split.count("graph &") / 2 > 1
    assert all(f"column{k} " in split for k in range(40))
    long = latex_table(pd.concat([columns(2)] * 80), caption="c", label="l")
    assert r"\begin{longtable}" in long
    assert r"\begin{landscape}" not in long
