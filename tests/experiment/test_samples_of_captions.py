"""The samples that a caption counts are those of the results that its figure draws, of all kinds of rows."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from recorded_rows import recorded

from cpms.base.package_data import show_programs
from cpms.experiment.report import output, show
from cpms.experiment.report.captions import provenance
from cpms.experiment.report.show import table_of
from cpms.experiment.rows.series import RESULTS, results_of

PROGRAMS = ["cg_kernels", "coo", "fig4", "fig5", "fig6", "refine", "roofline", "scaling", "thrust", "tolerance", "topk"]
"""Programs whose experiments hold results that a figure does not draw."""
EVERY = {"fig4": 6, "thrust": 6}
"""Programs that take long, and the distance of the rows that are drawn."""
COUNTED = re.compile(r"(Samples|Runs) of each result:.*")
SAMPLED = {"samples": 11, "contestants": [{"median_ms": 2.0, "least_ms": 1.9, "most_ms": 2.1}]}
WHOLE = {"results": [{"solve_samples_s": [1.0, 1.0, 1.1]}]}


@pytest.fixture
def drawn(monkeypatch, tmp_path):
    """Return a function that draws a program from rows, and returns what its figures show, and their captions."""
    kept = {}
    monkeypatch.setattr(output.Output, "table", lambda *_, **__: None)
    monkeypatch.setattr(
        output.Output, "_save", lambda _, figure, name, texts: kept.update({name: (seen(figure), texts["caption"])})
    )

    def of(program, rows):
        kept.clear()
        module = show._program(show_programs()[program])
        needs, beside = ([row for row in rows if row["experiment"] in names] for names in experiments_of(module))
        out = output.Output(tmp_path, program, str, rows=[*needs, *beside], endings=())
        with show.styled():
            module.show(table_of(needs), out, *([table_of(beside)] if hasattr(module, "BESIDE") else []))
        return dict(kept)

    return of


def experiments_of(module):
    return module.NEEDS, getattr(module, "BESIDE", [])


def seen(figure):
    """Return places, texts and ticks of all that a figure draws."""
    found = []
    for axes in [*figure.axes, *(child for each in figure.axes for child in each.child_axes)]:
        found += [line.get_xydata() for line in axes.lines]
        found += [path.vertices for each in axes.collections for path in each.get_paths()]
        found += [each.get_offsets() for each in axes.collections]
        found += [
            patch.get_path().vertices @ patch.get_patch_transform().get_matrix()[:2, :2] for patch in axes.patches
        ]
        found += [[each.get_text() for each in (*axes.texts, axes.title, *axes.get_yticklabels())]]
    return json.dumps([np.round(each, 9).tolist() if isinstance(each, np.ndarray) else each for each in found])


def group_of(row, result):
    return (row["experiment"], *(str(result.get(key)) for key in ("engine", "contestant", "name", "stage", "local")))


def slower(row, group):
    """Return a row in which the results of a group have other times, more samples and a larger spread."""
    key = next((key for key in RESULTS if isinstance(row.get(key), list)), None)
    if key is None or not any(group_of(row, result) == group for result in row[key]):
        return row
    held = enumerate(row[key])
    return {**row, key: [changed(each, 1.3 + 0.1 * k) if group_of(row, each) == group else each for k, each in held]}


def changed(result, factor):
    """Return a result with times of its own."""
    made = dict(result)
    for name, value in result.items():
        if not re.search("_(s|ms|us|gbps)$", name) or isinstance(value, (bool, str)) or not value:
            continue
        if isinstance(value, list):
            more = [100 * factor * each for each in value] if name.endswith("_samples_s") else []
            made[name] = [*(factor * each for each in value), *more]
        elif isinstance(value, (int, float)):
            made[name] = (9 if name.startswith("most_") else factor) * value
    return made


@pytest.mark.representatives(program=("fig6", "topk"))
@pytest.mark.parametrize("program", PROGRAMS)
def test_results_that_a_figure_does_not_draw_are_not_counted(drawn, program):
    module = show._program(show_programs()[program])
    needs = [name for names in experiments_of(module) for name in names]
    rows = [row for row in recorded().rows if row["experiment"] in needs and row["status"] == "ok"]
    rows = rows[:: EVERY.get(program, 1)]
    if not rows:
        pytest.skip("no rows are recorded")
    first = drawn(program, rows)
    groups = dict.fromkeys(group_of(row, result) for row in rows for result in results_of(row) if result is not row)
    hidden = []
    for group in groups:
        now = drawn(program, [slower(row, group) for row in rows])
        for name, (figure, caption) in first.items():
            same_text = COUNTED.sub("", now[name][1]) == COUNTED.sub("", caption)
            if now[name][0] == figure and same_text:
                hidden.append(group)
                assert now[name][1] == caption, (name, group)
    assert hidden


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([WHOLE], "Samples of each result: 3; median interquartile range 5 % of the median."),
        ([SAMPLED], "Samples of each result: 11; median range 10 % of the median."),
        (
            [WHOLE, SAMPLED],
            "Samples of each result: 3; median interquartile range 5 % of the median, or 11; median range 10 % of the "
            "median.",
        ),
    ],
)
def test_rows_with_all_samples_do_not_hide_those_with_ends(rows, expected):
    assert provenance(rows).endswith(expected)


@pytest.mark.parametrize("program", ["cg_time", "regret"])
def test_of_several_times_the_one_that_is_drawn_is_counted(drawn, program):
    module = show._program(show_programs()[program])
    needs = [name for names in experiments_of(module) for name in names]
    rows = [row for row in recorded().rows if row["experiment"] in needs and row["status"] == "ok"]
    if not rows:
        pytest.skip("no rows are recorded")
    more = [
        {**row, "ways_found": [{**way, "solve_samples_s": [1.0] * 40} for way in row["ways_found"]]} for row in rows
    ]
    assert drawn(program, more) == drawn(program, rows)
