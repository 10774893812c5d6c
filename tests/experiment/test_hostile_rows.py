"""Files of rows that are torn, foreign, nested or half-made: a sentence or a cut, and nothing counts as done."""

import json
import os

import pytest

from cpms.base.errors import InputError
from cpms.cli import main
from cpms.experiment.report import show
from cpms.experiment.rows import rows
from cpms.experiment.runner import run

CONFIG = 'name = "x"\nkind = "graphs"\ngraphs = ["grid:rows=2,columns=2"]\n'


def line(**changes):
    """Return the row of the only cell that `CONFIG` asks for, changed."""
    cell = {"graph": "grid:rows=2,columns=2", "symmetric": "lower"}
    row = {"cell": rows.cell_key(cell), "experiment": "x", "kind": "graphs", **cell, "status": "ok", **changes}
    return json.dumps({key: value for key, value in row.items() if value is not ...}).encode()


GOOD = line() + b"\n"
TORN = {
    "nothing": b"",
    "torn in its first key": b'{"ce',
    "torn in a text": line()[:60],
    "torn before its last brace": line()[:-1],
    "torn in a character": line(text="...")[:-3] + "é".encode()[:1],
    "torn and filled with zeros": line()[:50] + b"\0" * 300,
    "zeros alone": b"\0" * 4096,
    "torn in deep nesting": line()[:-1] + b', "x": ' + b"[" * 50,
    "torn in a number": line()[:-1] + b', "x": 1e',
}
NO_ROWS = {
    "an empty line": b"\n",
    "blanks": b"   \n",
    "blanks without an end": b"  \t ",
    "no JSON": b"my notes\n",
    "notes without an end": b"my notes",
    "an array": b"[1, 2]\n",
    "nested arrays": b"[[[{}]]]\n",
    "a text": b'"cell"\n',
    "a number": b"17\n",
    "null": b"null\n",
    "an empty object": b"{}\n",
    "no cell": line(cell=...) + b"\n",
    "no experiment": line(experiment=...) + b"\n",
    "no status": line(status=...) + b"\n",
    "a whole one without status and end": line(status=...),
    "a cell that is a number": line(cell=5) + b"\n",
    "a cell that is a list": line(cell=["a"]) + b"\n",
    "an experiment that is a number": line(experiment=1) + b"\n",
    "a status that is true": line(status=True) + b"\n",
    "a status that is null": line(status=None) + b"\n",
    "a reason that is an object": line(reason={"a": 1}) + b"\n",
    "results that are an object": line(results={}) + b"\n",
    "results that are numbers": line(results=[1, 2]) + b"\n",
    "a result whose status is a list": line(results=[{"status": []}]) + b"\n",
    "refusals that are a list": line(refused=["no"]) + b"\n",
    "not a number": line()[:-1] + b', "x": NaN}\n',
    "infinity": line()[:-1] + b', "x": Infinity}\n',
    "a number beyond float64": line()[:-1] + b', "x": 1e999}\n',
    "a number of 5000 digits": line()[:-1] + b', "x": ' + b"9" * 5000 + b"}\n",
    "a key twice": line()[:-1] + b', "status": "ok"}\n',
    "deep nesting": line()[:-1] + b', "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
    "deep nesting without an end": line()[:-1] + b', "x": ' + b"[" * 100_000,
    "two in a line": line() + line() + b"\n",
    "torn in the middle": line()[:60] + b"\n" + GOOD,
    "zeros in the middle": line()[:60] + b"\0\0\n" + GOOD,
    "old line ends and no others": line(status=...) + b"\r" + line() + b"\r",
    "Latin-1": line()[:-1] + b', "x": "\xe9"}\n',
    "UTF-16": line().decode().encode("utf-16") + b"\n",
    "a byte order mark in the middle": GOOD + b"\xef\xbb\xbf" + GOOD,
    "compressed": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03",
}
ROWS = {
    "one": (GOOD, 1),
    "one without a line end": (line(), 1),
    "line ends of Windows": (line() + b"\r\n", 1),
    "a byte order mark": (b"\xef\xbb\xbf" + GOOD, 1),
    "another experiment's": (line(experiment="y") + b"\n", 0),
    "a failure that may pass": (line(status="unavailable", reason="no GPU") + b"\n", 0),
    "a failure after a success": (GOOD + line(status="bad input", reason="?") + b"\n", 0),
    "another cell's": (line(cell="b" * 16) + b"\n", 0),
}


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "x.toml"
    path.write_text(CONFIG)
    return path


def measured_again(config):
    """Run, and return what was said."""
    said = []
    run(config, output=config.parent, echo=said.append)
    return said[-1]


@pytest.mark.parametrize("content", TORN.values(), ids=TORN)
@pytest.mark.parametrize("before", [b"", line(cell="b" * 16) + b"\n"], ids=["alone", "after a row"])
def test_what_a_killed_run_left_is_cut_and_does_not_count(config, before, content):
    path = config.parent / "x.jsonl"
    path.write_bytes(before + content)
    assert len(rows.read(path)) == bool(before)
    assert measured_again(config).startswith("1 cell run")
    kept = path.read_bytes()
    assert kept.startswith(before)
    assert len(rows.read(path)) == len(kept.splitlines()) == bool(before) + 1


@pytest.mark.representatives(before=("b''",))
@pytest.mark.parametrize("content", NO_ROWS.values(), ids=NO_ROWS)
@pytest.mark.parametrize("before", [b"", GOOD], ids=["alone", "after a row"])
def test_what_is_no_row_is_said_with_its_line_and_stays(config, before, content):
    path = config.parent / "x.jsonl"
    path.write_bytes(before + content)
    for attempt in (
        lambda: rows.read(path),
        lambda: measured_again(config),
        lambda: show.show("all", results=config.parent),
    ):
        with pytest.raises(InputError, match=r"x\.jsonl, line \d: is not a row"):
            attempt()
    assert path.read_bytes() == before + content


@pytest.mark.parametrize(("content", "held"), ROWS.values(), ids=ROWS)
def test_rows_count_where_they_are_of_this_cell_and_stand(config, content, held):
    path = config.parent / "x.jsonl"
    path.write_bytes(content)
    assert measured_again(config).endswith(f"{held} held already")
    assert path.read_bytes().startswith(content)
    assert measured_again(config) == "0 cells run; 1 held already"


def make_pipe(path):
    os.mkfifo(path)


@pytest.mark.parametrize("make", [make_pipe, os.mkdir, lambda path: path.symlink_to("/dev/null")])
def test_what_is_no_file_is_refused_and_does_not_wait(config, make):
    path = config.parent / "x.jsonl"
    make(path)
    with pytest.raises(InputError, match=r"x\.jsonl"):
        measured_again(config)
    with pytest.raises(InputError, match=r"x\.jsonl"):
        rows.read(path)
    with pytest.raises(InputError, match="holds no rows"):
        show.show("all", results=config.parent, output=config.parent / "out")


def test_a_pipe_in_place_of_a_graph_is_refused_and_does_not_wait(config, capsys):
    graph = config.parent / "g.txt"
    os.mkfifo(graph)
    config.write_text(CONFIG.replace("grid:rows=2,columns=2", str(graph)))
    assert main.main(["run", str(config), "--output", str(config.parent)]) == 2
    assert "g.txt: is a pipe" in capsys.readouterr().err
    assert [row["status"] for row in rows.read(config.parent / "x.jsonl")] == ["bad input"]


def test_a_graph_that_is_named_twice_is_measured_once(config):
    config.write_text(CONFIG.replace('["', '["grid:rows=2,columns=2", "'))
    assert measured_again(config) == "1 cell run: 1 ok; 0 held already"
    assert measured_again(config) == "0 cells run; 1 held already"


@pytest.mark.parametrize("name", ["quickstart", "table1", "refine", "topk"])
def test_half_made_rows_that_a_program_cannot_draw_are_said(tmp_path, name):
    with rows.opened(tmp_path / "rows.jsonl") as file:
        for experiment in show._program(show.show_programs()[name]).NEEDS:
            file.append({"cell": "a" * 16, "experiment": experiment, "status": "ok"})
    with pytest.raises(InputError, match="half-made"):
        show.show(name, results=tmp_path, output=tmp_path / "out")
    said = []
    with pytest.raises(InputError, match="no rows that anything draws"):
        show.show("all", results=tmp_path, output=tmp_path / "out", echo=said.append)
    assert any(text.startswith(f"left out: {name}: ") for text in said)
