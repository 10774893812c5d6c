"""Captions say what would mislead if it were not said: threads, stand-ins, systems that nobody solves, wrong sums."""

import re
from functools import cache
from pathlib import Path
from statistics import median

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from recorded_rows import recorded

from cpms.base.package_data import show_programs
from cpms.experiment.external_solvers import ALL_THREADS, PEERS
from cpms.experiment.report import output, show
from cpms.experiment.report.captions import shortened
from cpms.experiment.report.page.described import described
from cpms.experiment.report.solve_tables import unsolved
from cpms.experiment.report.speedup_figures import threads_of
from cpms.sources import matrices
from cpms.sparse.lossless import lossless_storage

ONE_THREAD = {
    "cg_time": "SciPy's products use one thread, ours ",
    "cpu_peers": "SciPy and PRPACK run on one thread; ",
    "cpu_peers_road": "SciPy and PRPACK run on one thread; ",
    "cpu_speed": "SciPy runs on one thread, engine cpu on ",
    "linear": "SciPy uses one thread",
    "rounding": "Threads on processors: 1 of gfloat, pychop, casts; ",
    "suites": "SciPy, on one thread",
    "systems": "Of one thread: SciPy, NumPy, serial",
    "time_to_tolerance": "SciPy, on one thread, ",
    "topk": "NumPy uses one thread, cpms and copies ",
}
"""Programs that compare with contestants of one thread, and what a caption says of them."""


README = Path(__file__).parents[2] / "README.md"
TERMS = ("product", "curvature", "update", "direction", "solution")
"""The kernels of an iteration of conjugate gradients."""


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """Return a function that shows a program without figures, once, and returns their captions, and its tables."""

    @cache
    def of(program):
        if not show.has_rows(program, recorded()):
            pytest.skip("no rows are recorded")
        captions = {}

        def figure(_, drawn, suffix="", *, caption, **__):
            captions[suffix] = caption
            plt.close(drawn)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(output.Output, "figure", figure)
            written = show.show(program, results=recorded(), output=tmp_path_factory.mktemp("shown"))
        return captions, {path.stem: path for path in written if path.suffix == ".md"}

    return of


@pytest.mark.parametrize(("program", "stated"), [("honesty", False), ("gpu_honesty", True)])
def test_answers_of_cpms_are_of_processors_where_those_of_cupy_are_of_a_gpu(said, program, stated):
    figures, tables = said(program)
    for text in (*figures.values(), tables[program].read_text()):
        assert ("cpms runs on processors, and CuPy on the GPU" in text) == stated


@pytest.mark.parametrize("program", ONE_THREAD)
def test_contestants_of_one_thread_are_named_where_others_have_more(said, program):
    figures, tables = said(program)
    texts = [*figures.values(), *(path.read_text().partition("\n")[0] for path in tables.values())]
    assert any(ONE_THREAD[program] in text for text in texts)


@pytest.mark.parametrize("solved", [[*PEERS], ["scipy"], ["NetworKit", "Gauss-Seidel"]])
def test_the_threads_of_every_other_program_are_said(solved):
    results = [{"name": name, "status": "ok" if name in solved else "refused"} for name in ["cpms power fp64", *PEERS]]
    text = threads_of(pd.DataFrame({"results": [results]}))
    for name, peer in PEERS.items():
        called = name.removeprefix("igraph ").replace("scipy", "SciPy")
        assert (called in text) == (name in solved)
        assert peer.runs_on in text or name not in solved
    assert ("as does ours" in text) == any(PEERS[name].runs_on == ALL_THREADS for name in solved)


@pytest.mark.parametrize("program", ["fig4", "fig5", "fig6"])
def test_a_v100s_times_are_not_said_to_be_of_stand_ins(said, program):
    figures, _ = said(program)
    of_paper = [text for suffix, text in figures.items() if not suffix]
    assert all("V100" in text and "paper's own graphs" in text for text in of_paper)
    assert not any(re.search("(?<!stand-ins of )the paper's graphs", text) for text in of_paper)


@pytest.mark.parametrize("program", ["gpu_cg_time", "gpu_gmres_time", "gpu_cg_preconditioned", "cg_bits"])
def test_matrices_that_nobody_solves_are_named(said, program):
    figures, tables = said(program)
    table = pd.read_csv(tables[program].with_suffix(".csv"))
    solved = set(table.matrix[table.status == "CONVERGED"])
    nobodys = [shortened(name) for name in dict.fromkeys(table.matrix) if name not in solved]
    assert nobodys or program == "gpu_cg_preconditioned"
    for text in (figures[""], tables[f"{program}_means"].read_text()):
        assert all(name in text.partition("Machine")[0] for name in nobodys)


@pytest.mark.parametrize("program", ["refine", "road"])
def test_quoted_times_are_said_to_be_quoted_wherever_they_are(said, program):
    figures, tables = said(program)
    held = [text.partition("\n") for text in (path.read_text() for path in tables.values())]
    texts = [caption for caption, _, table in held if "cuGraph over" in table or "over cuGraph" in table]
    texts += [caption for caption in figures.values() if "cuGraph" in caption]
    assert len(texts) >= 2
    for text in texts:
        assert "quoted from a program outside this repository" in text


@pytest.mark.parametrize("program", ["gpu_cg_time", "gpu_gmres_time", "gpu_cg_preconditioned"])
def test_every_contestant_of_solves_is_drawn_but_the_reference(said, program):
    _, tables = said(program)
    table = pd.read_csv(tables[program].with_suffix(".csv"))
    first = next(column for column in table if column.startswith("times faster than "))
    references = set(table.way[table[first] == 1.0])
    assert set(table.way) - set(show._program(show_programs()[program]).NAMES) == references
    assert len(references) == 1


@pytest.mark.parametrize(
    ("program", "text"),
    [
        ("systems", "Systems without 'ours' are built here, too"),
        ("thrust", "all built here"),
        ("fig6", "or one built as the paper's"),
    ],
)
def test_programs_that_are_built_here_after_others_are_not_taken_for_these(said, program, text):
    figures, _ = said(program)
    assert text in figures[""]


@pytest.mark.parametrize("program", ["time_to_tolerance", "products"])
def test_contestants_that_are_left_to_the_table_are_named(said, program):
    figures, _ = said(program)
    assert "refine e5m2" in figures[""] or "whichever is faster" in figures[""]


@pytest.mark.parametrize("program", ["gpu_cg_time", "gpu_gmres_time", "gpu_cg_preconditioned", "cg_time"])
def test_each_ratio_of_solves_has_a_line_from_least_to_most_and_the_caption_says_so(program, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(output.Output, "figure", lambda _, figure, **texts: drawn.append((figure, texts["caption"])))
    written = show.show(program, results=recorded(), output=tmp_path)
    ((figure, caption),) = drawn
    table = pd.read_csv(next(path for path in written if path.name == f"{program}.csv"))
    if program == "cg_time":
        wanted = table[(table.method != "scipy cg") & (table.status == "CONVERGED")][
            ["least of pairs", "most of pairs"]
        ]
    else:
        over = next(column for column in table if column.startswith("least over ")).removeprefix("least over ")
        named = table.way.isin(show._program(show_programs()[program]).NAMES)
        wanted = table[named][[f"least over {over}", f"most over {over}"]].dropna()
    lines = [line for axes in figure.axes for each in axes.collections for line in each.get_segments()]
    found = {tuple(float(f"{x:.4g}") for x, _ in line) for line in lines if len(line) == 2}
    assert len(wanted) > 5
    assert {tuple(float(f"{x:.4g}") for x in ends) for ends in wanted.to_numpy()} <= found
    assert "ines: least to most of pairs" in caption


@pytest.mark.parametrize("program", ["gpu_cg_time", "gpu_gmres_time", "gpu_cg_preconditioned"])
def test_what_a_solve_leaves_out_is_said_with_what_it_costs(program, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(output.Output, "figure", lambda _, figure, **texts: drawn.append((figure, texts)))
    written = show.show(program, results=recorded(), output=tmp_path)
    ((figure, texts),) = drawn
    caption, alt = texts["caption"], texts["alt"]
    found = {True: [], False: []}
    for row in recorded().rows:
        for way in row["ways_found"] if row["experiment"] == program and row["status"] == "ok" else ():
            if way["status"] == "CONVERGED" and way["engine"] == "cuda" and way["vectors"] != ["fp64"]:
                pairs = zip(way["whole_samples_s"], way["solve_samples_s"], strict=True)
                rest = median(whole - solve for whole, solve in pairs)
                found[way.get("preconditioner") == "block_jacobi"].append(rest / way["solve_s"])
    assert "of the solver alone, above 1 faster. Not timed: preparing " in caption
    assert f" to {max(found[False]):.2g} (ours)" in caption
    if program == "gpu_cg_preconditioned":
        assert f"{min(found[True]):.2g} to {max(found[True]):.2g} (block Jacobi)" in caption
        assert "preparing matrix and preconditioner" in caption
    assert alt.startswith(described(figure))
    assert "solver alone: " in alt
    assert "Not timed: preparing " in alt
    for path in (path for path in written if path.suffix == ".md"):
        assert "of the solver alone" in path.read_text().partition("\n")[0]


def test_readme_says_that_solves_on_a_gpu_are_of_the_solver_alone():
    lines = [line for line in README.read_text(encoding="utf-8").splitlines() if re.search("`gpu_(cg|gmres)_", line)]
    assert len(lines) >= 2
    assert all("solver alone" in line for line in lines)


def test_formats_of_matrices_that_keep_the_system_are_said_to(said):
    figures, _ = said("linear")
    for suffix, text in figures.items():
        assert ("Entries of these matrices are exact in e4m3" in text) == ("bytes" not in suffix)
    drawn = {row["graph"] for row in recorded().rows if row["experiment"] in ("linear_cpu", "linear_gpu")}
    for name in drawn:
        matrix = matrices.generate(re.sub(r"side=\d+", "side=5", name))
        assert lossless_storage(matrix.data).name == "e4m3"


def test_the_number_of_graphs_of_a_mean_is_said(said):
    figures, tables = said("refine_formats")
    table = pd.read_csv(tables["refine_formats"].with_suffix(".csv"))
    (count,) = set(table.groupby("storage").graph.nunique())
    assert f"Dots are graphs, {count} in each row" in figures[""]


def test_whose_share_is_drawn_and_of_which_values_is_said(said):
    figures, _ = said("topk")
    for text in figures.values():
        assert "share of the copy bandwidth that cpms reaches" in text
        assert "of a power law (ranks), ascending, all equal" in text


def test_the_kernels_of_an_iteration_are_defined(said):
    figures, _ = said("cg_kernels")
    assert all(f"{kernel}: " in figures[""].lower() for kernel in (*TERMS, "iteration"))


def test_a_search_within_the_time_of_a_solve_is_said(said):
    _, tables = said("linear")
    caption = tables["linear"].read_text().partition("\n")[0]
    steps = [
        way["step_s"][0]
        for row in recorded().rows
        for way in (row["ways_found"] if row["experiment"] == "linear_gpu" and row["status"] == "ok" else ())
        if way["storage"] == "auto" and way.get("step_s")
    ]
    least, most = re.search(r"within the time of the solve \((\d+) to (\d+) ms", caption).groups()
    assert (int(least), int(most)) == (round(1e3 * min(steps)), round(1e3 * max(steps)))


def test_without_a_matrix_that_nobody_solves_nothing_is_said():
    lines = {"matrix": ["a", "a"], "status": ["CONVERGED", "STAGNATED"]}
    assert unsolved(pd.DataFrame(lines), ("b",)) == ""


@pytest.mark.parametrize(
    ("program", "not_best"),
    [("opencl_stages", r"\(wrong\)"), ("time_to_tolerance", "not verified|stagnated"), ("systems", " to 1e-06")],
)
def test_no_wrong_or_looser_result_is_the_best(said, program, not_best):
    _, tables = said(program)
    lines = [line for path in tables.values() for line in path.read_text().split("\n")[1:]]
    assert any(re.search(not_best, line) for line in lines)
    assert any("**" in line for line in lines)
    assert not any("**" in line and re.search(not_best, line) for line in lines)
