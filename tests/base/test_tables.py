"""Numbers of tables are aligned at the decimal point, and the best ones are bold, in Markdown and LaTeX alike."""

import re

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from latex_check import alike, faults

from cpms import InputError
from cpms.base.text.latex_table import latex_table
from cpms.base.text.tables import apart, is_best, markdown

NUMBERS = st.lists(st.floats(-1e12, 1e12) | st.sampled_from([0.0, 1.5, 1e-10, 12345.678, 2e20]), min_size=1, max_size=6)


@settings(max_examples=50)
@given(NUMBERS)
def test_points_are_below_each_other(numbers):
    lines = markdown(pd.DataFrame({"ms": numbers})).split("\n")[2:]
    texts = [line.removeprefix("| ").removesuffix(" |") for line in lines]
    assert len({len(text.rstrip()) - len(apart(text.strip())[1]) for text in texts}) == 1


@settings(max_examples=50)
@given(NUMBERS)
def test_latex_has_behind_each_number_what_the_longest_has(numbers):
    text = latex_table(pd.DataFrame({"ms": numbers}), caption="", label="t", best={"ms": "least"})
    assert faults(text) == []
    lines = text.split("\\midrule\n")[1].split("\\bottomrule")[0].strip().split("\n")
    ends = {re.search(r"\\phantom\{(.*)\} \\\\$", line)[1] for line in lines if "phantom" in line}
    assert len(ends) <= 1
    least = numbers.index(min(numbers))
    assert lines[least].startswith(r"\textbf{")
    if ends:
        tails = {apart(f"{value:.4g}")[1] for value in numbers}
        assert ends == {max(tails, key=lambda tail: (len(tail), tail))} or next(iter(ends)) in tails


@settings(max_examples=50, deadline=None)
@given(st.data(), st.integers(1, 6), st.integers(0, 8))
def test_rows_of_each_part_of_a_split_table_can_be_told_apart(data, rows, kept):
    texts, counts = st.sampled_from(["a", "b", "x" * 25, "y" * 60]), st.integers(0, 2)
    keys = {f"k{place}": data.draw(st.lists(data.draw(st.sampled_from([texts, counts, NUMBERS.map(max)])),
                                            min_size=rows, max_size=rows)) for place in range(kept)}  # fmt: skip
    table = pd.DataFrame(keys | {f"measured {place}": [0.12345] * rows for place in range(40)})
    text = latex_table(table, caption="Times", label="t")
    assert faults(text) == []
    assert alike(text) == []
    parts = text.count("\\label{")
    assert text.count("Table \\ref{t}, continued (part ") == parts - 1 > 0
    assert all(text.count(f"measured \\\\ {place}\\end{{tabular}}") == 2 for place in range(40))


def test_names_of_rows_stay_with_them_in_each_part_and_measured_values_are_no_names():
    columns = {f"column{place}": [1.25, 1.5] for place in range(30)}
    named = latex_table(pd.DataFrame({"graph": ["a", "b"], **columns}), caption="", label="t")
    parts = named.count("\\label{")
    assert named.count("graph & ") == 2 * parts > 2
    same = latex_table(pd.DataFrame({"graph": ["a", "a"], **columns}), caption="", label="t")
    assert same.count("row & graph & ") == 2 * parts
    assert alike(named.replace("b &", "a &")) != []


@given(st.lists(st.decimals(0, 10**6, places=3), min_size=1, max_size=5))
def test_numbers_that_are_texts_keep_their_digits_and_are_aligned_as_numbers(numbers):
    printed = [*map(str, numbers), ""]
    made = markdown(pd.DataFrame({"theirs": printed}))
    assert [line.strip("| ") for line in made.split("\n")[2:]] == printed
    assert made.split("\n")[1].endswith("-:|")
    assert latex_table(pd.DataFrame({"theirs": printed}), caption="", label="t").count(r"\begin{tabular}{r}") == 1


def test_truth_is_yes_or_no_for_people_and_text_beside_numbers_is_text():
    for column in ([True, False], [True, ""], ["a", "1"]):
        made = markdown(pd.DataFrame({"met": column})).split("\n")
        assert made[1].startswith("|:-")
        assert made[2].strip("| ") in ("yes", "a")


def test_the_best_are_of_a_column_of_a_group_or_of_a_row():
    table = pd.DataFrame({"graph": ["g", "g", "h"], "a": [1.0, 2.0, 5.0], "b": [3.0, 1.0, None]})
    assert is_best(table, {"a": "most"})[1] == [False, False, True]
    assert is_best(table, {"a": "least by graph"})[1] == [True, False, True]
    rows = is_best(table, {"a": "row least", "b": "row least"})
    assert rows[1:] == [[True, False, True], [False, True, False]]
    assert "**5**" in markdown(table, {"a": "most"})
    assert is_best(table, {"none": "most"}) == [[False] * 3] * 3
    with pytest.raises(InputError, match="'largest' is no rule"):
        is_best(table, {"a": "largest"})


@given(
    st.lists(st.tuples(st.sampled_from("gh"), st.integers(1, 3), st.integers(1, 3), st.booleans()), min_size=1),
    st.sampled_from(["least", "most", "least by graph", "row most"]),
)
def test_the_best_among_some_lines_are_those_of_these_lines_alone(lines, rule):
    table = pd.DataFrame(lines, columns=["graph", "a", "b", "right"])
    best = dict.fromkeys("ab", rule)
    found = list(zip(*is_best(table, best, [*table.right]), strict=True))
    alone = list(zip(*is_best(table[table.right], best), strict=True))
    assert [line for line, right in zip(found, table.right, strict=True) if right] == alone
    assert not any(any(line) for line, right in zip(found, table.right, strict=True) if not right)
    assert markdown(table, best, [*table.right]).count("**") == 2 * sum(map(sum, alone))
    text = latex_table(table, caption="", label="t", best=best, among=[*table.right])
    assert text.count(r"\textbf") == sum(map(sum, alone))
