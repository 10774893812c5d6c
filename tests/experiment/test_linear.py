"""Experiment kinds linear and honesty: what is measured, and the tables and figures of it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse
from one_drawing import drawn_alone
from pydantic import ValidationError
from recorded_rows import recorded

from cpms import InputError, UnavailableError, UnsupportedError, engines
from cpms.base.package_data import show_programs
from cpms.experiment.artifact import inputs
from cpms.experiment.artifact.numbers import numbers
from cpms.experiment.kinds import honesty, linear, vector_bits
from cpms.experiment.library_solvers import cusparse_cg
from cpms.experiment.report import show
from cpms.experiment.report.generic.parts import baseline_of
from cpms.experiment.report.generic.table import results
from cpms.experiment.report.observations import observations
from cpms.experiment.report.output import Output
from cpms.experiment.report.solve_tables import means
from cpms.experiment.rows.flat import read_rows
from cpms.experiment.runner import run
from cpms.sources.fuzzed_systems import fuzzed
from cpms.sources.matrices.stencils import stencil

WAYS = [{"method": "cg", "engine": "scipy"}, {"engine": "cpu"}, {"method": "cg", "engine": "cpu", "vectors": ["bf16"]}]


def config(**changes):
    given = {"name": "x", "kind": "linear", "matrices": ["stencil:points=5,side=9"], "ways": WAYS}
    return linear.Config(**given | {"right_hand_sides": ["ones"]} | changes)


def shown(name, row, folder):
    out = Output(folder, name, [].append)
    show._program(show_programs()[name]).show(pd.DataFrame([{**row, "experiment": name}]), out)
    return pd.read_csv(folder / f"{name}.csv")


def test_iterations_of_ginkgos_gmres_are_beside_ours(tmp_path):
    show.show("gmres_bits", results=recorded(), output=tmp_path, endings=(".svg",))
    table = pd.read_csv(tmp_path / "gmres_bits_poisson.csv").set_index(["program", "basis"])
    counts = {basis: table.iterations["Ginkgo", basis] for basis in ("fp64", "keep", "fp32", "fp16")}
    assert counts == {"fp64": 273, "keep": 284, "fp32": 294, "fp16": 621}
    assert table["over its float64"]["Ginkgo", "fp16"] == pytest.approx(621 / 273, rel=1e-3)
    (ours,) = recorded().of(["gmres_bits_poisson"])
    ways = {way["vectors"][0]: way["iterations"] for way in ours["ways_found"]}
    assert ways == table.iterations["cpms"].to_dict()
    # The referee's matrix is ours, so its float64 iterations are nearly those here.
    assert abs(ways["fp64"] - 273) <= 3
    assert "by a program outside this repository" in (tmp_path / "gmres_bits_poisson.md").read_text()


def test_cusparse_refuses_a_preconditioner_that_it_would_leave_out():
    task = SimpleNamespace(preconditioner=SimpleNamespace(weights=None, name="block_jacobi"))
    with pytest.raises(UnsupportedError, match="no preconditioner block_jacobi; give jacobi"):
        cusparse_cg(task, None)


def test_each_way_is_certified_and_drawn(tmp_path):
    (cell,) = config().cells()
    found = linear.Context(config()).measure(cell)
    assert [way["status"] for way in found["ways_found"]] == ["CONVERGED"] * 3
    assert all(way["residual"] <= 1e-10 for way in found["ways_found"][1:])
    assert list(found["ways_found"][2]["iterations_by_bits"]) == ["16"]
    for way in found["ways_found"]:
        assert len(way["step_s"]) == len(way["history"])
        assert way["step_s"] == sorted(way["step_s"])
    assert 0 < found["ways_found"][1]["step_s"][-1] <= found["ways_found"][1]["solve_s"]
    assert found["host_copy_gbps"] > 0
    table = shown("linear", {**cell, **found, "status": "ok"}, tmp_path)
    assert table.method.tolist() == ["scipy cg", "cg", "cg"]
    assert (tmp_path / "linear.png").exists()
    assert "Relative residual against GB read" in (tmp_path / "linear_bytes.json").read_text()


def test_options_of_a_way_reach_its_solver_and_the_error_is_of_a_known_solution(tmp_path):
    blocks = {"method": "cg", "engine": "cpu", "preconditioner": "block_jacobi", "vectors": ["fp64"]}
    ways = [
        {"method": "gmres", "engine": "cpu", "vectors": ["fp16"]},
        {"method": "gmres", "engine": "cpu", "vectors": ["fp16"], "restart": 5},
        {"method": "refine", "engine": "cpu", "inner": "cg"},
        blocks | {"preconditioner_storage": "fp64"},
        blocks | {"preconditioner_storage": "bf16", "block": 3},
        {"method": "gmres", "engine": "scipy"},
    ]
    asked = config(ways=ways, right_hand_sides=["known"])
    (cell,) = asked.cells()
    found = linear.Context(asked).measure(cell)["ways_found"]
    assert {way["status"] for way in found} == {"CONVERGED"}
    assert found[1]["iterations"] > found[0]["iterations"]
    assert found[2]["used"] == "refine with cg"
    assert [way["preconditioner_used"] for way in found[3:5]] == ["block_jacobi in fp64", "block_jacobi in bf16"]
    A, known = stencil(5, 9), np.random.default_rng(1).standard_normal(81)
    x = scipy.sparse.linalg.gmres(A, A @ known, rtol=1e-10, restart=100)[0]
    assert found[5]["error"] == pytest.approx(np.linalg.norm(x - known) / np.linalg.norm(known))
    assert all(way["residual"] / 4 < way["error"] < 400 * way["residual"] for way in found)
    row = {**cell, "ways_found": found, "cell": "0", "experiment": "x", "kind": "linear", "status": "ok"}
    marks = observations([row])
    assert marks.error.tolist() == [way["error"] for way in found]
    assert marks.contestant.is_unique
    assert not marks.contestant.str.contains("entry").any()
    assert "error" in results(marks)[0]
    assert "gmres-vectors-fp16-restart=5" in numbers([row])
    assert f"/iterations}}{{{found[1]['iterations']}}}" in numbers([row])


def test_ways_without_options_have_the_cells_that_they_had_before():
    (cell,) = config().cells()
    assert [set(way) for way in cell["ways"]] == [{"method", "storage", "vectors", "engine", "preconditioner"}] * 3


@pytest.mark.parametrize("option", [{"restart": 30}, {"inner": "cg"}, {"block": 4}, {"preconditioner_storage": "bf16"}])
def test_options_that_another_library_lacks_are_refused(option):
    with pytest.raises(ValidationError, match="the solvers of scipy do not take it"):
        config(ways=[{"method": "gmres", "engine": "scipy", **option}])


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ({"engine": "scipy"}, "method 'auto': the solvers of scipy are cg and gmres"),
        ({"engine": "scipy", "method": "jacobi"}, "method 'jacobi': the solvers of scipy are cg and gmres"),
        ({"engine": "cusparse+cublas", "method": "gmres"}, "method 'gmres': the solvers of cusparse.cublas are cg"),
        ({"engine": "scipy", "method": "cg", "storage": "fp16"}, "the solvers of scipy compute in fp64"),
        ({"engine": "cupy", "method": "cg", "vectors": ["fp32"]}, "the solvers of cupy compute in fp64"),
        ({"engine": "scipy", "method": "cg", "preconditioner": "jacobi"}, "scipy are called without one"),
    ],
)
def test_a_row_of_another_library_names_nothing_that_did_not_run(way, said):
    with pytest.raises(ValidationError, match=said):
        config(ways=[way])
    given = {"method": "cg", "engine": "cupy", "preconditioner": "jacobi", "storage": "fp64", "vectors": ["fp64"]}
    assert config(ways=[given]).ways[0].preconditioner == "jacobi"


def test_means_count_the_matrices_that_both_solve():
    ratios = {"matrix": ["a", "b", "c"], "times faster than ours": [2.0, np.nan, 8.0]}
    found = means(pd.DataFrame({**ratios, "right-hand side": "ones", "way": "cg"}), ("b", "c"))
    assert found.matrices.tolist() == ["1 tuned", "1 held out"]
    assert found["times faster than ours"].tolist() == pytest.approx([2.0, 8.0])


def test_scipys_gmres_has_the_limit_of_iterations_in_whole_cycles():
    ways = [{"method": "gmres", "engine": "scipy"}]
    given = config(matrices=["stencil:points=5,side=99"], ways=ways, tol=1e-14, max_iterations=110)
    (found,) = linear.Context(given).measure(given.cells()[0])["ways_found"]
    assert (found["iterations"], found["status"]) == (200, "MAX_ITERATIONS")


def test_our_answers_are_never_wrong(tmp_path):
    (tmp_path / "x.toml").write_text('name = "x"\nkind = "honesty"\nsystems = 24\nlargest = 60\nmax_iterations = 100\n')
    rows = read_rows(run(tmp_path / "x.toml", output=tmp_path))
    counts = rows[0]["counts"]
    assert counts["cpms auto"]["converged"] > 8
    assert counts["cpms auto"]["wrong"] == counts["cpms gmres"]["wrong"] == 0
    assert shown("honesty", rows[0], tmp_path).systems.tolist() == [24] * 4
    assert inputs.pack(rows, [], tmp_path) == ([], [])


def test_most_wrong_answers_of_scipy_are_of_systems_whose_squares_leave_float64():
    """The page docs/measured.md says so."""
    solvers = ["scipy cg", "scipy gmres"]
    given = honesty.Config(
        name="x", kind="honesty", systems=240, together=1, largest=100, max_iterations=60, ways=solvers
    )
    context, wrong, far = honesty.Context(given), {"scipy cg": [0, 0], "scipy gmres": [0, 0]}, 0
    for cell in given.cells():
        largest = float(np.abs(fuzzed(cell["first"], 100).b).max())
        is_far = largest > 0.0 and not 1e-140 < largest < 1e140
        far += is_far
        for name, counts in context.measure(cell)["counts"].items():
            wrong[name][is_far] += counts["wrong"]
    assert 5.5 < 240 / far < 8.5
    assert wrong["scipy gmres"][1] > 20 > 2 >= wrong["scipy gmres"][0]
    assert wrong["scipy cg"][1] > 2 * wrong["scipy cg"][0]


@pytest.mark.parametrize("way", ["cupy cg", "cpms cuda auto"])
def test_solvers_on_a_gpu_that_is_not_there_are_unavailable(monkeypatch, way):
    monkeypatch.setattr(type(engines.get_any("cuda")), "missing", lambda _: "CuPy is not installed")
    given = honesty.Config(name="x", kind="honesty", systems=1, ways=["scipy cg", way])
    with pytest.raises(UnavailableError, match=f"^{way} cannot run here: CuPy is not installed"):
        honesty.Context(given).measure(given.cells()[0])


def test_our_answers_on_a_device_are_never_wrong(monkeypatch, device):
    monkeypatch.setattr(type(engines.get_any("cuda")), "missing", lambda _: None)
    given = honesty.Config(name="x", kind="honesty", systems=8, largest=40, max_iterations=60, ways=["cpms cuda gmres"])
    found = honesty.Context(given).measure(given.cells()[0])["counts"]["cpms cuda gmres"]
    assert (found["converged"] > 2, found["wrong"]) == (True, 0)


def test_ways_take_turns_and_whole_calls_are_timed(tmp_path):
    (cell,) = config(samples=2, history_points=0).cells()
    found = linear.Context(config()).measure(cell)
    for way in found["ways_found"]:
        assert len(way["whole_samples_s"]) == 2
        assert way["whole_s"] >= way["solve_s"] > 0.0
        assert way["history"] == []
    row = {**cell, **found, "status": "ok"}
    assert shown("cg_time", row, tmp_path)["times faster, whole call"][0] == 1.0
    assert shown("gpu_cg_time", {**row, "ways_found": [*found["ways_found"], found["ways_found"][0]]}, tmp_path).way[
        1
    ] == ("cpu auto")


def test_regret_is_by_bytes_and_by_time(tmp_path):
    (cell,) = config(samples=2, history_points=0).cells()
    found = linear.Context(config()).measure(cell)
    auto = found["ways_found"][1]
    slow, quick = (
        {**auto, "bytes_read": bytes_read, "whole_s": whole_s} for bytes_read, whole_s in ((10, 3.0), (20, 1.5))
    )
    rows = pd.DataFrame(
        {**cell, "rows": 81, "status": "ok", "experiment": name, "ways_found": [slow, quick]}
        for name in ("regret", "regret_held", "regret_time", "regret_time_held")
    )
    of_bytes, of_time = rows[:2], rows[2:]
    show._program(show_programs()["regret"]).show(of_bytes, Output(tmp_path, "regret", [].append), of_time)
    assert pd.read_csv(tmp_path / "regret.csv").regret.tolist() == [0.5, 0.5]
    timed = pd.read_csv(tmp_path / "regret_time.csv")
    assert timed[["regret", "auto ms", "best ms"]].to_numpy().tolist() == [[2.0, 3000.0, 1500.0]] * 2
    assert (tmp_path / "regret_time.png").exists()


def test_a_matrix_that_auto_alone_does_not_solve_is_drawn_first_and_named(tmp_path, monkeypatch):
    way = {"used": "cg", "iterations_by_bits": {"64": 1}, "method": "cg", "vectors": ["fp64"], "preconditioner": None}
    way |= {"vectors_as": "fp64", "stored_as": "fp64", "preconditioner_used": None, "bytes_read": 10, "whole_s": 1.0}
    autos = {
        "recirculation:side=40": ("MAX_ITERATIONS", 20),
        "stencil:points=5,side=9": ("CONVERGED", 20),
        "convection:side=9,peclet=2.0": ("CONVERGED", 3),
    }
    rows = pd.DataFrame(
        {"graph": graph, "experiment": name, "status": "ok", "max_iterations": 2000, "ways_found": [
            {**way, "status": status, "bytes_read": read}, {**way, "status": "CONVERGED"}
        ]}
        for name, (graph, (status, read)) in zip(("regret_held", "regret", "regret"), autos.items(), strict=True)
    )  # fmt: skip
    made = []
    monkeypatch.setattr(Output, "figure", lambda _, figure, **texts: made.append((figure, texts)))
    program = show._program(show_programs()["regret"])
    with show.styled():
        program.show(rows, Output(tmp_path, "regret", [].append), pd.DataFrame())
    [(figure, texts)] = made
    panel = figure.axes[0]
    assert [text.get_text() for text in panel.get_yticklabels()] == [
        "recirculation 40\u00b2, Peclet 10",
        "5-point stencil 9\u00b2",
        "convection 9\u00b3, Peclet 2",
    ]
    assert [(text.get_position()[1], text.get_text()) for text in panel.texts] == [
        (0, "not solved, unseen \u2192"),
        (2, "\u2190 below the axis"),
    ]
    assert [tuple(line.get_xydata()[0]) for line in panel.lines if line.get_marker() == "o"] == [(2.0, 1.0)]
    below = "Below the axis: convection 9\u00b3, Peclet 2 (0.30)."
    assert texts["alt"].endswith(f"Not solved by auto: recirculation 40\u00b2, Peclet 10. {below}")
    assert "1 that a fixed choice solves and auto does not" in texts["caption"]
    assert "more than the 2,000 iterations" in texts["caption"]


def test_a_way_that_refuses_a_system_is_a_line_with_its_reason(tmp_path):
    path = tmp_path / "zero.mtx"
    scipy.io.mmwrite(path, scipy.sparse.csr_array([[0.0, 1.0], [1.0, 0.0]]))
    given = config(matrices=[str(path)], ways=[{"method": "jacobi", "engine": "cpu"}, {"engine": "cpu"}], whole=False)
    (cell,) = given.cells()
    refused, solved = linear.Context(given).measure(cell)["ways_found"]
    assert (refused["status"], refused["residual"], solved["status"]) == ("REFUSED", None, "CONVERGED")
    assert "diagonal" in refused["reason"]
    assert set(refused) == set(solved)
    (tmp_path / "x.toml").write_text(
        f'name = "x"\nkind = "linear"\nmatrices = ["{path}"]\nright_hand_sides = ["ones"]\nwhole = false\n'
        'ways = [{ method = "jacobi", engine = "cpu" }, { engine = "cpu" }]\n'
    )
    run(tmp_path / "x.toml", output=tmp_path, echo=(said := []).append)
    assert said[0].startswith("1 cell run: 1 ok; 1 result in these not measured (")
    assert "diagonal" in said[0]
    show.show("x", results=tmp_path, output=tmp_path / "drawn", echo=said.append)
    assert any(text.startswith("not measured: 1 result: ") and "diagonal" in text for text in said)


def test_a_system_that_every_way_refuses_is_not_ok(tmp_path):
    scipy.io.mmwrite(tmp_path / "wide.mtx", scipy.sparse.csr_array([[1.0, 2.0]]))
    given = config(ways=[{"method": "jacobi", "preconditioner": "jacobi", "engine": "cpu"}])
    with pytest.raises(UnsupportedError, match="takes no preconditioner"):
        linear.Context(given).measure(given.cells()[0])
    given = config(matrices=[str(tmp_path / "wide.mtx")], ways=[{"method": "cg", "engine": "scipy"}])
    with pytest.raises(InputError, match=r"shape \(1, 2\); a system that is solved here has a square one"):
        linear.Context(given).measure(given.cells()[0])


@pytest.mark.parametrize("way", [{"storage": "fp17"}, {"vectors": ["fp17"]}, {"vectors": ["auto", "fp64"]}])
def test_formats_of_ways_are_known_before_the_first_cell_runs(way):
    with pytest.raises(ValidationError, match=r"storage '(fp17|auto)' is not known"):
        config(ways=[way])


@pytest.mark.parametrize(("method", "vectors"), [("gmres", ["blocks"]), ("cg", ["fp32", "bfp16"])])
def test_bits_of_vectors_are_counted(method, vectors, tmp_path):
    matrices = ["stencil:points=5,side=20"]
    given = vector_bits.Config(
        name="x", kind="vector_bits", method=method, matrices=matrices, vectors=[["fp64"], vectors], tol=1e-9
    )
    (cell,) = given.cells()
    found = vector_bits.Context(given).measure(cell)
    first, other = found["ways_found"]
    assert first["status"] == other["status"] == "CONVERGED"
    assert first["mean_bits"] == 64.0
    assert 16.0 < other["mean_bits"] < 30.0
    assert shown(f"{method}_bits", {**cell, **found, "status": "ok"}, tmp_path)["over float64"][0] == 1.0


def test_two_formats_that_follow_one_another_are_of_conjugate_gradients_alone():
    given = {"name": "x", "kind": "vector_bits", "matrices": ["stencil:points=5,side=3"], "vectors": [["fp32", "fp64"]]}
    vector_bits.Config(method="cg", **given)
    with pytest.raises(ValidationError, match="two formats are for method cg, not gmres"):
        vector_bits.Config(method="gmres", **given)


def test_names_of_nothing_are_refused():
    with pytest.raises(ValidationError, match="not known"):
        config(ways=[{"method": "sor"}])
    with pytest.raises((ValidationError, InputError), match="float7"):
        vector_bits.Config(
            name="x", kind="vector_bits", method="cg", matrices=["stencil:points=5,side=3"], vectors=[["float7"]]
        )
    with pytest.raises((ValidationError, InputError), match="no such file"):
        config(matrices=["stencl:points=5,side=3"])


def row_of(graph, rhs, ways):
    named = [
        dict(zip(("method", "storage", "vectors", "used", "stored_as", "vectors_as"), way, strict=True)) for way in ways
    ]
    lines = [{**way, "status": "CONVERGED", "solve_s": 1.0, "engine": "cpu", "history": []} for way in named]
    cell = {"experiment": "x", "cell": f"{graph} {rhs}", "status": "ok", "kind": "linear", "graph": graph, "rhs": rhs}
    return {**cell, "ways_found": lines}


PLAIN = ("cg", "fp64", ["fp64"], "cg", "fp64", ["fp64"])
AUTO = ("auto", "auto", ["auto"], "cg", "fp32", ["fp32"])


def test_figures_name_what_auto_took_on_all_systems_alike():
    others = [
        PLAIN,
        ("auto", "auto", ["auto"], "cg", "e4m3", ["fp32"]),
        ("my.py:cg", "auto", ["auto"], "my.py:cg", "fp64", ["fp64"]),
    ]
    rows = [row_of("a", rhs, [PLAIN, AUTO, others[2]]) for rhs in ("ones", "random")]
    assert list(observations(rows).called)[:3] == [
        "cg A fp64 vectors fp64",
        "auto (cg, A fp32, vectors fp32)",
        "my.py:cg auto (A fp64, vectors fp64)",
    ]
    rows += [row_of("b", rhs, others) for rhs in ("ones", "random")]
    found = observations(rows)
    assert set(found.called) == {
        "cg A fp64 vectors fp64",
        "auto (cg, vectors fp32)",
        "my.py:cg auto (A fp64, vectors fp64)",
    }
    assert baseline_of(found.iloc[::-1], None) == "cg A fp64 vectors fp64"
    drawing = drawn_alone(rows, "speedup")
    assert "over the same 2 matrices and 2 right-hand sides for all" in drawing.caption
    drawing = drawn_alone(rows[:-1], "speedup")
    assert "same 2 matrices for all, of each the mean over its right-hand sides (3 systems)" in drawing.caption


def test_labels_tell_apart_what_was_asked_for_the_matrix_and_for_vectors():
    ways = [("auto", "fp32", ["auto"], "cg", "fp32", ["fp32"]), ("auto", "auto", ["fp32"], "cg", "fp32", ["fp32"])]
    others = [
        ("auto", "fp32", ["auto"], "gmres", "fp32", ["fp64"]),
        ("auto", "auto", ["fp32"], "gmres", "fp64", ["fp32"]),
    ]
    found = observations([row_of("a", "ones", ways), row_of("b", "ones", others)])
    assert set(found.called) == {"A fp32 vectors auto", "vectors fp32 A auto"}


def test_rows_name_what_was_used(tmp_path):
    path = tmp_path / "scaled.npz"
    scale = scipy.sparse.diags_array(np.geomspace(1.0, 10.0, 81))
    scipy.sparse.save_npz(path, scipy.sparse.csr_array(scale @ stencil(5, 9) @ scale))
    given = config(matrices=[str(path)], ways=[{"engine": "cpu"}, *WAYS[:1]])
    (cell,) = given.cells()
    ours, scipys = linear.Context(given).measure(cell)["ways_found"]
    assert (ours["used"], ours["vectors_as"], ours["preconditioner_used"]) == ("cg", ["fp32"], "jacobi in fp64")
    assert (scipys["vectors_as"], scipys["preconditioner_used"]) == (["fp64"], "none")


@pytest.mark.parametrize(("bytes_a_row", "named"), [((66.0, 66.0), True), ((71.0, 165.0), False)])
def test_a_way_that_reads_as_many_bytes_of_any_row_reads_rows_by_number(bytes_a_row, named):
    program = show._program(show_programs()["linear"])
    rows = [
        {
            **row_of(f"stencil:points={points},side=9", "ones", [PLAIN]),
            "rows": 1000,
            "entries": 1000 * points,
        }
        for points in (7, 27)
    ]
    for row, read in zip(rows, bytes_a_row, strict=True):
        row["ways_found"][0]["history"] = [[k, 10.0**-k, 64, 1000 * read] for k in (1, 2)]
    table = pd.DataFrame(rows)
    repeated = program._by_number(table)
    curves = program._curves(table, "GB read", repeated)
    assert [curve["name"].endswith(program.BY_NUMBER) for each in curves.values() for curve in each] == [named] * 2
    assert ("two bytes" in program._repeating(repeated, curves)) == named
