"""Captions of tables have machine, commit, samples and spread of their rows, as those of figures do."""

import json

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from recorded_rows import recorded

from cpms.base.package_data import show_programs
from cpms.base.text import escape
from cpms.experiment.report import output, show

ROW = {"cell": "1", "cpu": "a CPU", "git_commit": "c" * 40, "git_dirty": False}
ROWS = [
    {**ROW, "experiment": "x", "results": [{"solve_samples_s": [1.0, 2.0, 3.0]}]},
    {**ROW, "cell": "2", "experiment": "y", "cpu": "another", "results": [{"solve_samples_s": [1.0, 1.0]}]},
]
ENDINGS = {
    None: "Machines: a CPU; another. Commit: cccccccccc. Samples of each result: 2 to 3",
    ("x",): "Machine: a CPU. Commit: cccccccccc. Samples of each result: 3; median interquartile range 50 %",
    (): "Times.",
}
PRINTED = {"ppr_table1_printed", "ppr_table2_printed", "scaling_table2"}
"""Tables of values of others alone."""


@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize("of", ENDINGS)
def test_a_table_has_the_provenance_that_a_figure_of_the_same_rows_has(tmp_path, of, timed):
    out = output.Output(tmp_path, "x", print, rows=ROWS)
    figure, axes = plt.subplots()
    axes.plot([1], [1])
    out.figure(figure, caption="Times", of=of, timed=timed)
    out.table(pd.DataFrame({"graph": ["g"], "ms": [1.0]}), caption="Times", of=of, timed=timed)
    plt.close(figure)
    caption = json.loads((tmp_path / "x.json").read_text())["caption"]
    assert (tmp_path / "x.md").read_text().startswith(f"{escape.markdown_paragraph(caption)}\n")
    assert f"\\caption{{{escape.latex(caption)}}}" in (tmp_path / "x.tex").read_text()
    assert ENDINGS[of] in caption or not timed
    assert caption.endswith("Counts, which have no spread.") is (of != () and not timed)


def test_a_long_caption_is_not_cut(tmp_path):
    out = output.Output(tmp_path, "x", print, rows=ROWS)
    out.table(pd.DataFrame({"ms": [1.0]}), caption="many words " * 150)
    for ending in ("md", "tex"):
        text = (tmp_path / f"x.{ending}").read_text()
        assert "Machines: a CPU; another. Commit: cccccccccc." in text
        assert "many words " * 149 in text


@pytest.mark.parametrize(
    "program", ["thrust", "ppr", *(pytest.param(name, marks=pytest.mark.slow) for name in show_programs())]
)
def test_every_shipped_table_names_its_machine_and_commit(tmp_path, monkeypatch, program):
    monkeypatch.setattr(output.Output, "figure", lambda *_, **__: None)
    if not show.has_rows(program, recorded()):
        pytest.skip("no rows are recorded")
    for path in show.show(program, results=recorded(), output=tmp_path):
        if path.suffix == ".md":
            caption = path.read_text().partition("\n")[0]
            assert ("Machine" in caption and "Commit" in caption) is (path.stem not in PRINTED), path.stem
