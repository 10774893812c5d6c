"""Runs end to end, and show programs: from rows alone, to the same bytes every time."""

import io
import json
import os
import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from recorded_rows import ReadOnce

from cpms.base.errors import InputError
from cpms.base.package_data import experiments, folder, show_programs
from cpms.cli import main
from cpms.experiment.pages.numbers import all_numbers
from cpms.experiment.report import figures, show
from cpms.experiment.report import output as output_module
from cpms.experiment.rows import rows
from cpms.experiment.runner import run

PROVENANCE = ["git_commit", "git_dirty", "cpms_version", "version_numpy", "cpu", "threads", "config_sha256", "time_utc"]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Rows of every experiment that a show program needs, on tiny graphs."""
    output = tmp_path_factory.mktemp("rows")
    graphs = 'graphs = ["standin:adaptive,size=3", "rgg:scale=8", "weblike:nodes=500,edges=2000"]\n'
    solve = 'kind = "pagerank"\n' + graphs + "record_history = true\nreference_tol = 1e-14\n"
    three = 'storages = ["fp64", "cpms2", "cpms4"]\n'
    texts = {
        "quickstart": 'kind = "pagerank"\ngraphs = ["weblike:nodes=500,edges=2000"]\n' + three
        + "record_history = true\nreference_tol = 1e-14\n",
        "table2": solve + three,
        "table1": 'kind = "graphs"\n' + graphs,
        "cpu_speed": solve + 'layouts = ["pattern", "csr"]\nengines = ["scipy", "cpu"]\nrepetitions = 2\nwarmup = 1\n',
        "conversion_cpu": 'kind = "conversion"\nstorages = ["cpms4", "cpms2-planes", "fp16"]\n'
        + "sizes = [5000]\nsamples = 2\n",
        "topk": 'kind = "topk"\nsizes = [3000]\nks = [3, 50]\nsamples = 2\n',
    }  # fmt: skip
    for name, text in texts.items():
        path = output / f"{name}.toml"
        path.write_text(f'name = "{name}"\n{text}')
        run(path, output=output)
    return output


def test_rows_have_provenance_units_and_a_certifier(recorded):
    for row in rows.read(recorded / "table2.jsonl"):
        assert set(PROVENANCE) <= set(row)
        assert row["status"] == "ok"
        assert row["converged"]
        assert row["error_l1"] <= row["error_bound"] * (1 + 1e-3) + 1e-13
        assert sum(row["iterations_by_bits"].values()) == row["iterations"] == len(row["history"])
        assert sum(row["iterations_by_bits_written"].values()) == row["iterations"]


def test_unsupported_cells_are_recorded_with_their_reason(recorded):
    speed = pd.DataFrame(rows.read(recorded / "cpu_speed.jsonl"))
    refused = speed[(speed.engine == "scipy") & (speed.layout == "pattern")]
    assert (refused.status == "unsupported").all()
    assert refused.reason.str.contains("pattern").all()
    assert (speed[speed.engine == "cpu"].status == "ok").all()
    assert (
        "packed"
        in next(row for row in rows.read(recorded / "conversion_cpu.jsonl") if row["storage"] == "fp16")["reason"]
    )


@pytest.mark.representatives(name=("quickstart",))
@pytest.mark.parametrize("name", show_programs())
def test_show_writes_the_same_bytes_twice(recorded, tmp_path, name):
    needs = show._program(show_programs()[name]).NEEDS
    if not any((recorded / f"{need}.jsonl").exists() for need in needs):
        pytest.skip(f"{name} draws rows of {needs}, which need a GPU or real graphs")
    said = []
    first = show.show(name, results=recorded, output=tmp_path / "a", echo=said.append)
    second = show.show(name, results=recorded, output=tmp_path / "b")
    assert len(first) >= 3
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name
        assert one.stat().st_size > 100


NOT_HERE = {"status": "unsupported", "reason": "engine cuda cannot run here: there is no GPU"}


@pytest.mark.parametrize("failed", [NOT_HERE, {"status": "ok", "results": [NOT_HERE]}], ids=["cells", "contestants"])
@pytest.mark.parametrize("name", show_programs())
def test_rows_none_of_which_ran_are_refused_with_the_reason(tmp_path, name, failed):
    with rows.opened(tmp_path / "rows.jsonl") as file:
        for experiment in show._program(show_programs()[name]).NEEDS:
            file.append({"cell": "a" * 16, "experiment": experiment, **failed})
    with pytest.raises(InputError, match="there is no GPU"):
        show.show(name, results=tmp_path, output=tmp_path / "out")


def test_all_continues_past_rows_none_of_which_ran(recorded, tmp_path):
    (tmp_path / "topk.jsonl").write_bytes((recorded / "topk.jsonl").read_bytes())
    with rows.opened(tmp_path / "rows.jsonl") as file:
        file.append({"cell": "a" * 16, "experiment": "gpu_coo", **NOT_HERE})
    said = []
    written = show.show("all", results=tmp_path, output=tmp_path / "out", echo=said.append)
    assert {path.stem.split("_")[0] for path in written} == {"topk"}
    assert any(text.startswith("left out: coo") and "there is no GPU" in text for text in said)


@pytest.mark.parametrize("storage", ["fp64", "cpms4"])
def test_the_quick_start_is_drawn_of_one_storage(recorded, tmp_path, storage):
    run(recorded / "quickstart.toml", output=tmp_path, only=storage)
    assert (tmp_path / "quickstart.png") in show.show("quickstart", results=tmp_path, output=tmp_path)


@pytest.mark.parametrize("name", ["cpu_speed", pytest.param("opencl_stages", marks=pytest.mark.slow)])
def test_rows_of_some_cells_alone_are_drawn(tmp_path, name):
    recorded = rows.read(folder("experiments") / "results" / f"{name}.jsonl")
    for key in ("engine", "layout", "graph", "purpose"):
        values = dict.fromkeys(row[key] for row in recorded if key in row and row["status"] == "ok")
        for place, value in enumerate(values):
            source = tmp_path / f"{key}{place}"
            with rows.opened(source / "rows.jsonl") as file:
                for row in recorded:
                    if row.get(key) == value:
                        file.append(row)
            assert show.show(name, results=source, output=source)


@pytest.mark.slow
def test_all_shows_what_has_rows(recorded, tmp_path):
    written = {path.name for path in show.show("all", results=recorded, output=tmp_path)}
    assert {"table1.tex", "table2.md", "fig3.pdf", "convergence.svg", "quickstart.png"} <= written


def test_all_neither_counts_rows_of_other_experiments_nor_runs_their_plug_ins(tmp_path, monkeypatch):
    shipped = (folder("experiments") / "results" / "topk.jsonl").read_text()
    (tmp_path / "topk.jsonl").write_text(shipped)
    row = json.loads(shipped.splitlines()[0])
    (tmp_path / "own.jsonl").write_text(json.dumps({**row, "experiment": "own"}) + "\n")
    (tmp_path / "mine.py").write_text(f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\n")
    plug_in = f"{tmp_path / 'mine.py'}:FORMAT"
    (tmp_path / "own.toml").write_text(
        f'name = "own"\nkind = "pagerank"\ngraphs = ["path:nodes=5"]\nstorages = [{json.dumps(plug_in)}]\n'
    )
    monkeypatch.setattr(show, "show_programs", lambda: {"topk": show_programs()["topk"]})
    said = []
    show.show("all", results=tmp_path, output=tmp_path / "drawn", echo=said.append)
    assert said[-1].startswith(f"{len(shipped.splitlines())} rows: ")
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
@pytest.mark.parametrize("is_terminal", [False, True])
def test_all_shows_the_time_that_is_left_on_a_terminal_alone(tmp_path, monkeypatch, is_terminal):
    shipped = folder("experiments") / "results" / "table1.jsonl"
    (tmp_path / shipped.name).write_bytes(shipped.read_bytes())
    stream = io.StringIO()
    stream.isatty = lambda: is_terminal
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(show, "show_programs", lambda: {"table1": show_programs()["table1"]})
    show.show("all", results=tmp_path, output=tmp_path)
    assert bool(re.search(r"drawing: +\d+%.*/1 \[\d+:\d+<", stream.getvalue())) == is_terminal


@pytest.mark.slow
def test_rows_without_a_commit_are_drawn_by_every_program(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "save", lambda figure, *_: plt.close(figure) or [Path("drawn")])
    for path in (folder("experiments") / "results").glob("*.jsonl"):
        with rows.opened(tmp_path / path.name) as file:
            for row in rows.read(path):
                file.append({**row, "git_commit": None, "git_dirty": None})
    lines = []
    assert show.show("all", results=ReadOnce(tmp_path), output=tmp_path / "out", echo=lines.append)
    assert [line for line in lines if "cannot be drawn" in line] == []


def test_show_reads_each_file_once(recorded, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "topk.jsonl").write_bytes((recorded / "topk.jsonl").read_bytes())
    read, whole = [], rows.read
    monkeypatch.setattr(rows, "read", lambda path: read.append(path) or whole(path))
    assert main.main(["show", "all"]) == 0
    assert read == [Path("out/topk.jsonl")]
    assert "Rows of folder out are shown" in capsys.readouterr().out


def test_stand_ins_are_labelled(recorded, tmp_path):
    show.show("table1", results=recorded, output=tmp_path)
    assert "adaptive (stand-in)" in (tmp_path / "table1.md").read_text()


def test_impossible_totals_of_the_paper_are_marked():
    table2 = show._program(show_programs()["table2"])
    assert table2._parts([18, 34], 52) == "18+34 = 52"
    assert table2._parts([48, 64], 113) == "48+64 = 112 (printed 113)"


def test_unknown_program_missing_rows_and_bad_output_are_refused(recorded, tmp_path):
    with pytest.raises(InputError, match="table2"):
        show.show("table9", results=recorded, output=tmp_path)
    with pytest.raises(InputError, match="no rows"):
        show.show("table2", results=tmp_path, output=tmp_path / "out")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file"):
        show.show("table2", results=recorded, output=tmp_path / "file")


@pytest.mark.parametrize("name", ["honesty", "table2", "linear_cpu"])
def test_a_configuration_that_ships_is_drawn_as_its_experiment_is_by_name(name, monkeypatch):
    path = experiments()[name]
    monkeypatch.chdir(path.parent)
    assert show._chosen(path.name, path) == show._chosen(str(path), path) == show._chosen(name, path)
    assert show._chosen(name, path)[name] == show_programs().get(name, path)


def test_dry_run_lists_cells_and_writes_nothing(tmp_path):
    said = []
    run(experiments()["quickstart"], output=tmp_path / "out", dry_run=True, echo=said.append)
    assert len(said) == 3
    assert not (tmp_path / "out").exists()


def test_dry_run_names_cells_that_no_engine_has(tmp_path):
    said = []
    (tmp_path / "x.toml").write_text(
        'name = "x"\nkind = "pagerank"\ngraphs = ["grid:rows=2,columns=2"]\nmethods = ["power", "refine"]\n'
        'storages = ["fp64", "cpms2"]\nengines = ["scipy", "cpu"]\n'
    )
    run(tmp_path / "x.toml", output=tmp_path, dry_run=True, echo=said.append)
    reasons = sorted(line.strip() for line in said if line.startswith("  unsupported"))
    assert len(said) - len(reasons) == 8
    assert reasons[:3] == [
        "unsupported: engine scipy has no method 'refine'; it has power",
        "unsupported: engine scipy has no method 'refine'; it has power",
        "unsupported: engine scipy stores fp64, not cpms2; use engine cpu or cuda",
    ]
    assert "that of fp64 has 64" in reasons[3]


def test_only_keeps_matching_cells(tmp_path):
    path = tmp_path / "x.toml"
    path.write_text('name = "x"\nkind = "graphs"\ngraphs = ["grid:rows=2,columns=2", "grid:rows=3,columns=3"]\n')
    run(path, output=tmp_path, only="grid:rows=3,columns=3")
    assert [row["nodes"] for row in rows.read(tmp_path / "x.jsonl")] == [9]


def test_only_what_is_there_runs(tmp_path):
    with pytest.raises(InputError, match=r"'typo'.*storage 'fp64', 'cpms2', 'cpms4'; engine 'cpu'"):
        run(experiments()["quickstart"], output=tmp_path, only="typo")
    assert not list(tmp_path.iterdir())


def test_an_experiment_that_does_not_exist_names_those_that_do(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main.main(["run", "typo"]) == 2
    said = capsys.readouterr().err
    assert "'typo'" in said
    assert "quickstart" in said
    assert main.main(["run", "typo.toml"]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_a_graph_that_does_not_exist_is_said_at_the_end_and_tried_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "x.toml"
    path.write_text('name = "x"\nkind = "graphs"\ngraphs = ["atlantis.mtx", "grid:rows=2,columns=2"]\n')
    for _ in range(2):
        with pytest.raises(InputError, match=r"1 cell could not run: .*atlantis.*x\.jsonl has the rows of the other"):
            run(path, output=tmp_path)
    (tmp_path / "atlantis.mtx").write_text("%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n")
    run(path, output=tmp_path)
    statuses = [row["status"] for row in rows.read(tmp_path / "x.jsonl")]
    assert statuses == ["bad input", "ok", "bad input", "ok"]


def test_an_interrupted_run_says_what_is_left_and_the_next_one_does_it(tmp_path, monkeypatch):
    path, said, measured = tmp_path / "x.toml", [], []
    path.write_text('name = "x"\nkind = "graphs"\ngraphs = ["grid:rows=2,columns=2", "grid:rows=3,columns=2"]\n')

    def once(context, cell):
        if measured:
            raise KeyboardInterrupt
        measured.append(cell)
        return {"nodes": 4}

    monkeypatch.setattr("cpms.experiment.kinds.graphs.Context.measure", once)
    with pytest.raises(KeyboardInterrupt):
        run(path, output=tmp_path, echo=said.append)
    assert said == ["interrupted, with 1 of 2 cells not yet run; the same command runs these"]
    monkeypatch.undo()
    run(path, output=tmp_path, echo=said.append)
    assert said[1].startswith("1 cell run")
    assert said[1].endswith("1 held already")


def test_what_cannot_be_shown_names_what_can(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "links.toml").write_text('name = "links"\nkind = "graphs"\ngraphs = ["grid:rows=2,columns=2"]\n')
    run(tmp_path / "links.toml", output=tmp_path / "out")
    for name, advice in {
        "out/links.jsonl": "is a file of rows; 'cpms show links --results out' draws them",
        "linsk": "'linsk' cannot be shown; did you mean links? ",
    }.items():
        assert main.main(["show", name]) == 2
        assert advice in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "links.jsonl").touch()  # Of a run that was interrupted in its first cell.
    assert main.main(["show", "links", "--results", "empty"]) == 2
    assert "empty holds no rows of links; 'cpms run links' first" in capsys.readouterr().err
    main.main(["show", "links"])
    assert capsys.readouterr().out.startswith("Rows of folder out are shown\n")  # None of links come with cpms.


def test_of_cells_that_could_not_run_each_reason_is_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.txt").write_text("0 1 -1\n")
    (tmp_path / "x.toml").write_text('name = "x"\nkind = "graphs"\ngraphs = ["atlantis.mtx", "bad.txt"]\n')
    said = []
    with pytest.raises(InputError, match=r"2 cells could not run: .*atlantis.*; .*weight -1"):
        run(tmp_path / "x.toml", output=tmp_path, echo=said.append)
    assert "atlantis" in said[0]
    assert "weight -1" in said[0]


def test_a_program_that_draws_nothing_may_do_without(recorded, tmp_path, capsys):
    program = tmp_path / "mine.py"
    program.write_text("NEEDS = ['quickstart']\ndef show(rows, out):\n    print(len(rows))\n")
    assert show.show(str(program), results=recorded, output=tmp_path / "out") == []
    assert int(capsys.readouterr().out) > 0


def test_recorded_rows_that_ship_are_whole():
    for path in (folder("experiments") / "results").rglob("*.jsonl"):
        for line in path.read_bytes().splitlines():
            assert len(json.loads(line)["cell"]) == 16


@pytest.mark.slow
def test_the_ablation_draws_every_lever_of_every_graph(tmp_path):
    show.show("sweeps", output=tmp_path)
    bought = pd.read_csv(tmp_path / "sweeps_ablation.csv").set_index("graph")
    swept = pd.read_csv(tmp_path / "sweeps.csv")
    levers = ["reordering", "short warp ranges", "choice of warps", "tiled gather", "propagation blocking", "hub cache"]
    assert bought.loc[swept.graph.unique(), levers].notna().all(axis=None)
    part = swept[(swept.graph == "uniform, 67M edges") & (swept.storage == "fp16")].set_index("arrangement")["sweep us"]
    blocking = part["no propagation blocking"] / part["as chosen"]
    assert bought.loc["uniform, 67M edges", "propagation blocking"] == pytest.approx(blocking)
    fixed = swept[swept.storage == "fp16"].pivot_table(index="graph", columns="arrangement", values="sweep us")
    least = min(("16 warps", "24 warps"), key=lambda warps: np.log(fixed[warps]).mean())
    assert bought["choice of warps"].to_numpy() == pytest.approx((fixed[least] / fixed["as chosen"])[bought.index])
    cached = rows.read(folder("experiments") / "results" / "gpu_cached.jsonl")
    assert bought["in-cache sweeps"].notna().sum() == len(cached)
    of_web = {r["arrangement"]["cached"]: r for r in cached[0]["results"] if r["storage"] == "fp16"}
    without_us, with_us = (np.median(of_web[cached]["run_us"]) for cached in (False, True))
    assert bought.loc["web-Google-scc", "in-cache sweeps"] == pytest.approx(without_us / with_us)
    merged = rows.read(folder("experiments") / "results" / "gpu_merged.jsonl")
    assert bought["lumping"].notna().sum() == len(merged)
    assert bought.loc["web-Google-scc", "lumping"] > 1.05
    refined = rows.read(folder("experiments") / "results" / "gpu_refine.jsonl")
    assert bought["level solve (solve)"].notna().sum() == len({row["graph"] for row in refined})


@pytest.mark.parametrize(
    ("name", "rows_of"),
    [
        ("sweeps", "sweeps"),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in (("refine", "refine"), ("roofline", "spmv"))),
    ],
)
def test_what_is_drawn_beside_may_be_missing(tmp_path, name, rows_of):
    recorded = folder("experiments") / "results" / f"gpu_{rows_of}.jsonl"
    (tmp_path / recorded.name).write_bytes(recorded.read_bytes())
    assert show.show(name, results=tmp_path, output=tmp_path)


def _near_the_bound(results, output):
    """Return how near 16-bit sweeps of graphs over 10M edges come to their bounds."""
    show.show("sweeps", results=results, output=output)
    swept = pd.read_csv(output / "sweeps.csv")
    edges = dict(
        zip(swept.graph.unique(), [row["edges"] for row in rows.read(results / "gpu_sweeps.jsonl")], strict=True)
    )
    chosen = swept[(swept.storage == "fp16") & (swept.arrangement == "as chosen") & (swept.graph.map(edges) > 10**7)]
    assert len(chosen) == 11
    return chosen.set_index("graph")


@pytest.mark.slow
def test_numbers_say_how_near_sweeps_come_to_what_memory_allows(tmp_path):
    results = folder("experiments") / "results"
    chosen = _near_the_bound(results, tmp_path)
    own = chosen.reached.drop("rmat 22")
    numbers = all_numbers(results)
    assert numbers["limits.plain"].value == pytest.approx(100 * chosen["of plain"].min())
    moved = numbers["limits.moved"]
    assert (moved.low, moved.high) == pytest.approx((100 * own.min(), 100 * own.max()))
    assert chosen.reached["rmat 22"] > 1


@pytest.mark.slow
def test_the_roofline_has_fused_sweeps_beside_products(tmp_path):
    show.show("roofline", output=tmp_path)
    swept = pd.read_csv(tmp_path / "roofline_fused.csv")
    assert set(swept.bits) == {8, 16, 32, 64}
    assert swept["of copy"].between(0, 1.1).all()


def test_the_quick_start_is_shown_without_what_a_configuration_left_out(tmp_path):
    path = tmp_path / "quickstart.toml"
    path.write_text(
        'name = "quickstart"\nkind = "pagerank"\ngraphs = ["grid:rows=9,columns=9"]\nstorages = ["cpms2"]\n'
    )
    run(path, output=tmp_path)
    names = {written.name for written in show.show("quickstart", results=tmp_path, output=tmp_path / "out")}
    assert {"quickstart.md", "quickstart_ranking.md"} <= names


@pytest.mark.parametrize("ending", [".csv", ".md", ".tex"])
def test_small_numbers_and_gaps_survive_in_every_table(tmp_path, ending):
    output = output_module.Output(tmp_path, "mine", lambda _: None)
    output.table(pd.DataFrame({"name": ["a", "b"], "error": [5e-10, float("nan")]}))
    text = (tmp_path / f"mine{ending}").read_text()
    assert "5e-10" in text
    assert "nan" not in text.lower()


def test_programs_of_ones_own_are_shown_by_their_path(recorded, tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text('NEEDS = ["topk"]\ndef show(rows, out):\n    out.table(rows[["values", "dtype"]])\n')
    written = show.show(str(mine), results=recorded, output=tmp_path / "out")
    assert [path.name for path in written] == ["mine.csv", "mine.md", "mine.tex", "mine.json"]
    mine.write_text("def show(rows, out):\n    pass\n")
    with pytest.raises(InputError, match="NEEDS"):
        show.show(str(mine), results=recorded, output=tmp_path / "out")
    with pytest.raises(InputError, match=r"other\.py: there is no such file"):
        show.show(str(tmp_path / "other.py"), output=tmp_path)
    with pytest.raises(InputError, match="cannot be shown"):
        show.show("other", output=tmp_path)


@pytest.mark.slow
def test_ratios_of_the_authors_stand_beside_the_solves_that_they_are_of(tmp_path):
    show.show("fig6", output=tmp_path)
    table = pd.read_csv(tmp_path / "fig6.csv")
    theirs = table[table["V100 over fp64"].notna()]
    assert len(theirs)
    assert set(theirs.layout) == {"csr"}
    assert set(theirs.tol) == {1e-10}
    assert not theirs.storage.str.contains("to").any()


def test_a_folder_that_is_not_there_differs_from_one_without_rows(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        show.show("all", results=tmp_path / "none", output=tmp_path / "out")
    (tmp_path / "rows.jsonl").mkdir()
    with pytest.raises(InputError, match="no rows that anything draws"):
        show.show("all", results=tmp_path, output=tmp_path / "out")


FAILED = {"status": "out of memory", "reason": "out of memory"}


@pytest.mark.parametrize(
    ("name", "experiment", "failed"),
    [
        ("fig6", "gpu_speedup", {"storage": "fp64"}),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in (
                ("tolerance", "gpu_tolerance", {"storage": "fp64"}),
                ("fig5", "gpu_speedup", {"storage": "fp64"}),
                ("refine", "gpu_refine", {"engine": "cuda_fused"}),
                ("cpu_peers", "cpu_peers", {"name": "cpms refine auto"}),
            )
        ),
    ],
)
def test_a_graph_whose_baseline_failed_does_not_keep_others_from_being_drawn(tmp_path, name, experiment, failed):
    recorded = rows.read(folder("experiments") / "results" / f"{experiment}.jsonl")
    for place, result in enumerate(recorded[0]["results"]):
        if failed.items() <= result.items():
            recorded[0]["results"][place] = {
                **{key: result.get(key) for key in ("engine", *failed)},
                **result,
                **FAILED,
            }
    with rows.opened(tmp_path / f"{experiment}.jsonl") as file:
        for row in recorded:
            file.append(row)
    assert show.show(name, results=tmp_path, output=tmp_path / "out")


def test_the_largest_size_of_one_type_is_drawn_where_another_has_larger_ones(tmp_path):
    recorded = rows.read(folder("experiments") / "results" / "gpu_topk.jsonl")
    with rows.opened(tmp_path / "gpu_topk.jsonl") as file:
        for row in recorded:
            if row["dtype"] == "float32" or row["values"] < 10**7:
                file.append(row)
    assert show.show("topk", results=tmp_path, output=tmp_path / "out")


def test_the_environment_is_as_before(tmp_path, monkeypatch):
    monkeypatch.delenv("MPLBACKEND", raising=False)
    show.show("table1", output=tmp_path)
    assert "MPLBACKEND" not in os.environ


def test_graphs_whose_residuals_are_0_are_named_and_not_drawn(tmp_path):
    (tmp_path / "two.txt").write_text("0 1\n1 0\n")
    (tmp_path / "three.txt").write_text("0 1\n1 2\n2 0\n0 2\n")
    graphs = [str(tmp_path / "two.txt"), str(tmp_path / "three.txt")]
    (tmp_path / "table2.toml").write_text(
        f'name = "table2"\nkind = "pagerank"\ngraphs = {graphs}\nstorages = ["fp64"]\nrecord_history = true\n'
    )
    run(tmp_path / "table2.toml", output=tmp_path / "rows")
    said = []
    written = show.show("convergence", results=tmp_path / "rows", output=tmp_path, echo=said.append)
    assert "left out: graph two: its residuals are 0, which a logarithmic axis cannot show" in said
    assert [path.name for path in written if path.suffix == ".png"] == ["convergence.png"]


def test_formats_of_one_mantissa_have_marks_of_their_own():
    program = show._program(show_programs()["refine_formats"])
    each = {"graph": "a", "mantissa": 4, "bits": 8, "storage": "e4m3", "sweeps": 30}
    other = {**each, "storage": "cpms4", "bits": 16, "sweeps": 40}
    longest = {**each, "storage": "fp32", "bits": 32, "mantissa": 24, "sweeps": 20}
    drawn = program._sweeps(pd.DataFrame([longest, other, each]))
    assert list(zip(drawn.storage, drawn.place, drawn.ratio, strict=True)) == [
        ("e4m3", 1, 1.5),
        ("cpms4", 2, 2.0),
        ("fp32", 3, 1.0),
    ]
