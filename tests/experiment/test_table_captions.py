"""Captions of tables have machine, commit, samples and spread, as those of figures do; names are those of figures."""

import json

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from recorded_rows import recorded
from table_laws import table_faults

from cpms.base.text import escape
from cpms.experiment.report import output, show
from cpms.experiment.report.page.names import shorter, with_short_names

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


@given(
    st.lists(
        st.builds("{}:{}={},{}={}".format, *(st.sampled_from(each) for each in (
            ["rmat", "stencil", "models"], ["nodes", "scale", "family"], ["20", "1000000"], ["seed", "side"], "12",
        ))) | st.sampled_from(["wiki-Vote", "rmat 20", "a.mtx", "standin:road_usa"]),
        min_size=1, max_size=8,
    )
)  # fmt: skip
@example(["rmat:scale=20,seed=1", "rmat 20"])
@example(["models:nodes=1000000,family=2", "models:nodes=1000000,family=2,degree=8"])
@example(["rmat:nodes=20,seed=1", "rmat:nodes=20,seed=2"])
def test_names_that_differ_differ_when_they_are_short(names):
    table = pd.DataFrame({"graph": names, f"{names[0]}, ms": 1.0})
    in_words = shorter(table)
    short = with_short_names(table, in_words)
    assert len(set(short.graph)) == len(set(names))
    assert list(short.columns) == ["graph", f"{short.graph[0]}, ms"]
    assert all(len(one) <= len(other) for one, other in zip(short.graph, names, strict=True))
    assert list(table.graph) == names


def test_data_have_whole_names_and_the_best_of_a_short_head_is_bold(tmp_path):
    out = output.Output(tmp_path, "x", print)
    spec = "weblike:nodes=10000000,edges=52000000,seed=1"
    out.table(pd.DataFrame({"p": [1, 2], f"{spec}, ms": [2.5, 1.5]}), best={f"{spec}, ms": "least"})
    assert spec in (tmp_path / "x.csv").read_text()
    text = (tmp_path / "x.md").read_text()
    assert "weblike, 52M edges, ms" in text
    assert "**1.5**" in text


@pytest.mark.parametrize(
    ("given", "best", "said"),
    [
        ("Times", {"ms": "least by graph"}, "Times. Bold: the least 'ms' of each graph."),
        ("Times; bold: the fastest", {"ms": "least by graph"}, "Times; bold: the fastest."),
        ("Times", {"s": "least"}, "Times."),
    ],
)
def test_a_caption_says_what_bold_numbers_are_where_there_are_some(tmp_path, given, best, said):
    table = pd.DataFrame({"graph": ["rmat:scale=20,seed=1"] * 2, "ms": [1.0, 2.0]})
    output.Output(tmp_path, "x", print).table(table, caption=given, best=best, of=())
    assert (tmp_path / "x.md").read_text().partition("\n")[0] == said
    assert f"\\caption{{{said}}}" in (tmp_path / "x.tex").read_text()


def test_a_long_caption_is_not_cut(tmp_path):
    out = output.Output(tmp_path, "x", print, rows=ROWS)
    out.table(pd.DataFrame({"ms": [1.0]}), caption="many words " * 150)
    for ending in ("md", "tex"):
        text = (tmp_path / f"x.{ending}").read_text()
        assert "Machines: a CPU; another. Commit: cccccccccc." in text
        assert "many words " * 149 in text


@pytest.mark.parametrize("program", ["thrust", "ppr"])
def test_every_shipped_table_names_its_machine_and_commit(tmp_path, monkeypatch, program):
    """Those of all programs are tried where their figures are."""
    monkeypatch.setattr(output.Output, "figure", lambda *_, **__: None)
    if not show.has_rows(program, recorded()):
        pytest.skip("no rows are recorded")
    written = show.show(program, results=recorded(), output=tmp_path)
    assert any(path.suffix == ".md" for path in written)
    assert list(table_faults(written)) == []
