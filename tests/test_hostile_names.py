"""Hostile names through ``rank``, ``run`` and ``show``; every shipped table compiles and every figure is drawn."""

import csv
import json
from pathlib import Path

import hostile_names
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from latex_check import check_latex, faults
from matplotlib.figure import Figure
from recorded_rows import RECORDED, ReadOnce, recorded

from cpms import Graph
from cpms.api import given_graph
from cpms.cli import main
from cpms.experiment.report import figures, output, show

FILES = [f"{name}.txt" for name in hostile_names.NAMES if not set("/\0") & set(name) and len(name) < 200]
CASES = ["web & co_100%#1.txt", "cost_$a_$.txt", "pipe|name.txt", "グラフ_é.txt"]


@pytest.fixture
def drawn(monkeypatch):
    """Figures that are laid out and drawn, without a file of pixels."""
    found, save = {}, figures.save

    def titled(figure, stem, *_):
        written = save(figure, stem, (".png",))
        if written:
            found[written[0].name] = [axes.get_title() for axes in figure.axes if axes.axison]
        return written

    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: figure.draw_without_rendering())
    monkeypatch.setattr(figures, "save", titled)
    return found


def safe(text):
    return all(c.isprintable() or c in "\n\u200c\u200d\u3000" for c in text)


def experiment(path, name, kind, graphs, more=""):
    listed = json.dumps(graphs, ensure_ascii=False).replace("\x7f", "\\u007f")
    path.write_text(f'name = "{name}"\nkind = "{kind}"\ngraphs = {listed}\n{more}', encoding="utf-8")
    return str(path)


def triangles(folder, names):
    for name in names:
        (folder / name).write_text("0 1\n1 2\n2 0\n2 1\n")
    return names


def test_a_shipped_table_compiles_and_fits_its_page(tmp_path, monkeypatch):
    """Those of all programs are tried where their figures are."""
    monkeypatch.setattr(figures, "save", lambda figure, *_: plt.close(figure) or [Path("drawn")])
    written = show.show("table2", results=recorded(), output=tmp_path)
    tables = [path for path in written if path.suffix == ".tex"]
    assert len(tables) >= 2
    check_latex(tables, tmp_path)


@pytest.mark.parametrize(("which", "least"), [("tolerance", 1), pytest.param("all", 34, marks=pytest.mark.slow)])
def test_every_figure_and_table_of_hostile_names_is_made(tmp_path, drawn, which, least):
    hostile_names.renamed(RECORDED, tmp_path)
    said = []
    written = show.show(which, results=ReadOnce(tmp_path), output=tmp_path / "out", echo=said.append)
    assert len([path for path in written if path.suffix == ".png"]) == len(drawn) >= least
    assert all(map(safe, said))
    for path in written:
        if path.suffix == ".tex":
            assert faults(path.read_text()) == [], path.name
        if path.suffix == ".csv":
            lines = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
            cells = [cell for line in lines for cell in line if cell[:1] in ("=", "@", "+", "-")]
            assert [cell for cell in cells if not _number(cell)] == [], path.name
    if which == "all":
        assert any("long" * 1250 in path.read_text(encoding="utf-8") for path in written if path.suffix == ".csv")


def _number(cell):
    return bool(np.isfinite(pd.to_numeric(cell.rstrip("%"), errors="coerce"))) or cell == "-inf"


def test_rank_prints_hostile_names_on_their_lines(tmp_path, capsys, monkeypatch):
    nodes = len(hostile_names.NAMES)
    ring = np.arange(nodes)
    names = np.array(hostile_names.NAMES, dtype=object)
    graph = Graph.from_edges(ring, np.roll(ring, 1), nodes=nodes, names=names, name="web\n\x1b[2Jconverged")
    monkeypatch.setattr(given_graph, "loaded_graph", lambda *_, **__: graph)
    assert main.main(["rank", "mine", "--top", str(nodes), "--output", str(tmp_path / "ranks.csv")]) == 0
    printed = capsys.readouterr().out
    assert safe(printed)
    lines = printed.rstrip("\n").split("\n")
    assert len(lines) == 4 + 2 + nodes
    assert lines[0].startswith(r"web\n\x1b[2Jconverged: 40 nodes")
    assert max(map(len, lines[4:])) < 150
    written = pd.read_csv(tmp_path / "ranks.csv")
    assert written["rank"].to_numpy() == pytest.approx(1 / nodes)
    assert "'=HYPERLINK" in "".join(written.node)
    assert "long" * 1250 in set(written.node)
    assert main.main(["rank", "mine", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["graph"] == graph.name


def test_files_with_hostile_names_are_run_and_shown_without_options(tmp_path, capsys, monkeypatch, drawn):
    monkeypatch.chdir(tmp_path)
    path = experiment(tmp_path / "x.toml", "table1", "graphs", triangles(tmp_path, FILES))
    assert main.main(["run", path]) == 0
    for name in ("table1", "fig3"):
        assert main.main(["show", name]) == 0
        printed = capsys.readouterr().out
        assert safe(printed)
        assert "Rows of folder out are shown" in printed
    assert len(pd.read_csv("out/table1.csv")) == len(FILES)
    assert faults(Path("out/table1.tex").read_text()) == []


def test_errors_name_hostile_files_in_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in hostile_names.NAMES:
        for arguments in (["rank", name], ["run", name], ["show", name], ["run", "quickstart", name]):
            try:
                code = main.main(arguments)
            except SystemExit as end:
                code = end.code
            said = capsys.readouterr().err
            assert code == 2, arguments
            assert safe(said)
            assert said.count("cpms: error: ") + said.count(f"cpms {arguments[0]}: error: ") <= 2
            assert said.rstrip("\n").split("\n")[-1].startswith("cpms")
    path = experiment(tmp_path / "x.toml", "x", "graphs", hostile_names.NAMES)
    assert main.main(["run", path]) == 2
    ended = capsys.readouterr()
    assert safe(ended.out)
    assert safe(ended.err)
    assert ended.err.count("\n") == 1


def test_recorded_rows_are_shown_where_the_folder_holds_none(tmp_path, capsys, monkeypatch, drawn):
    monkeypatch.chdir(tmp_path)
    assert main.main(["show", "road"]) == 0
    assert f"those that come with cpms are shown, of {RECORDED}" in capsys.readouterr().out
    assert "road.png" in drawn
    assert main.main(["show", "quickstart"]) == 2
    assert "cpms run quickstart" in capsys.readouterr().err


def test_ones_own_graphs_are_drawn(tmp_path, monkeypatch, drawn):
    monkeypatch.chdir(tmp_path)
    more = 'storages = ["fp64", "cpms2"]\nrecord_history = true\nreference_tol = 1e-14\n'
    for name, shown in (("table2", "convergence"), ("quickstart", "quickstart"), ("table2", "table2")):
        path = experiment(tmp_path / "x.toml", name, "pagerank", triangles(tmp_path, CASES), more)
        assert main.main(["run", path]) == 0
        assert main.main(["show", shown]) == 0
    assert len(drawn["convergence.png"]) == 4
    assert r"cost_\$a_\$" in drawn["convergence.png"]
    assert len(drawn["quickstart.png"]) == 8
    assert len(pd.read_csv("out/table2.csv")) == 4
    assert r"| pipe\|name " in Path("out/quickstart.md").read_text()
    for table in ("quickstart", "quickstart_ranking", "table2"):
        assert faults(Path(f"out/{table}.tex").read_text()) == []


@pytest.mark.parametrize("limits", [True, False], ids=["limits alone", "nothing"])
def test_a_figure_with_an_empty_panel_is_left_out_and_said(tmp_path, limits):
    said = []
    out = output.Output(tmp_path, "mine", said.append)
    figure, (left, right) = plt.subplots(1, 2)
    left.plot([1, 2], [3, 4])
    if limits:
        right.axhline(1)
        right.plot([1, 2], [np.nan, np.nan])
    out.figure(figure)
    assert out.written == []
    assert "left out: figure mine" in said[0]


def test_a_program_of_which_nothing_can_be_made_is_refused(tmp_path, capsys):
    (tmp_path / "rows.jsonl").write_text(
        json.dumps({"cell": "a", "experiment": "mine", "status": "ok", "results": [{}]}) + "\n"
    )
    program = tmp_path / "mine.py"
    program.write_text("import pandas as pd\nNEEDS = ['mine']\ndef show(rows, out):\n    out.table(pd.DataFrame())\n")
    arguments = ["show", str(program), "--results", str(tmp_path), "--output", str(tmp_path / "out")]
    assert main.main(arguments) == 2
    assert "the rows hold nothing of it" in capsys.readouterr().err
