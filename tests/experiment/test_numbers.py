"""Numbers of pages: those of recorded rows by another computation, each on a page is one of them, and reasons."""

from __future__ import annotations

import csv
import importlib.util
import json
import math
import re
import shutil
import statistics
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from page_numbers import measurements, unmeasured

from cpms.base.errors import InputError
from cpms.experiment.pages import measured_page
from cpms.experiment.pages.numbers import Number, all_numbers, plain, ratio, spread
from cpms.experiment.rows import commits, rows
from cpms.experiment.rows.provenance import repository
from cpms.experiment.rows.standing import Recorded, commit_of, unexplained

ROOT = Path(__file__).parents[2]
RESULTS, NUMBERS = ROOT / "experiments" / "results", ROOT / "experiments" / "numbers"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
GENERATED = {"docs/rows.md"}
"""Tables of columns with their units, in which no number is measured."""


@pytest.fixture(scope="module")
def numbers():
    return all_numbers(RESULTS)


@pytest.fixture(scope="module")
def pages(numbers):
    spec = importlib.util.spec_from_file_location("write_pages", ROOT / "docs" / "write_pages.py")
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    return writer, writer.pages(numbers)


def known(numbers):
    values = {
        (plain(value), number.unit)
        for number in numbers.values()
        for value in (number.value, number.low, number.high, number.median)
        if not math.isnan(value)
    }
    return values | {(str(number.cases), "cases") for number in numbers.values()}


def is_history_at_hand():
    """Return whether Git knows the commits of the recorded digests: a shallow clone or an archive does not."""
    digests = {row.get("code_digest") for path in RESULTS.rglob("*.jsonl") for row in rows.read(path)} - {None}
    return digests <= commits.by_digest(repository()).keys()


def without_commits(text):
    """Return a page without the commits of its rows, which nothing but the history of the repository tells."""
    digests = r"\b[0-9a-f]{7}\b\+?"
    return re.sub(rf"{digests}(, {digests})*", "", text.split("## Standing of the rows")[0])


def test_pages_are_those_of_the_rows(pages):
    for path, text in pages[1].items():
        compared = str if is_history_at_hand() else without_commits
        held = compared(path.read_text(encoding="utf-8"))
        assert held == compared(text), f"{path.name} is not that of the rows: python docs/write_pages.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_measured_number_of_a_page_is_one_of_the_rows(page, numbers):
    name, found = page.relative_to(ROOT).as_posix(), known(numbers)
    if name == "docs/changes.md":
        found |= {(words[0], words[1]) for words in map(str.split, earlier()) if len(words) > 1}
    if name not in GENERATED:
        assert unmeasured(name, page.read_text(encoding="utf-8"), found) == []


def earlier():
    with (NUMBERS / "before.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    return [text for line in lines for name, text in line.items() if name not in ("key", "reason") and text]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It takes 61.0 ms.", {("61.0", "ms")}),
        ("1.5 to 2 times, 3 and 4 s", {("1.5", "times"), ("2", "times"), ("3", "s"), ("4", "s")}),
        ("16-bit sweeps of 60M edges read `4 ms` on 20 graphs, [there](a_5_ms.md)", set()),
        ("a factor of 0.74", {("0.74", "")}),
        ("| what | figure |\n|---|---|\n| 3 graphs | 7.0 times, 454 |", {("7.0", "times"), ("454", "")}),
        ("    cpms run 5 ms\n```\n6 ms\n```", set()),
    ],
)
def test_the_rule_finds_measurements_and_nothing_else(text, found):
    assert {(number, unit) for number, unit, _ in measurements("page.md", text)} == found


def test_a_typed_number_is_found(numbers):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    right = numbers["road.copying-60M.road"].text
    assert right in text
    (fault,) = unmeasured("README.md", text.replace(right, "59.9 ms"), known(numbers))
    assert "59.9 ms" in fault


def plain_rows(name):
    return [json.loads(line) for line in (RESULTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def geometric(ratios):
    return math.exp(statistics.fmean(map(math.log, ratios)))


def test_headlines_are_those_of_a_computation_of_their_own(numbers):
    road = plain_rows("gpu_road")[0]["results"][0]
    assert numbers["road.copying-60M.road"].value == pytest.approx(1e3 * statistics.median(road["road_samples_s"]))
    held = [row["results"][0] for row in plain_rows("gpu_road_held")]
    ratios = [statistics.median(r["old_road_samples_s"]) / statistics.median(r["road_samples_s"]) for r in held]
    assert numbers["held.over_processors"].value == pytest.approx(geometric(ratios))
    over, own = [], []
    for row in plain_rows("gpu_refine"):
        taken = {
            (r["engine"], r["layout"], r.get("method"), r["storage"]): r["solve_s"]
            for r in row["results"]
            if not r.get("whole")
        }
        ours = taken["cuda_fused", None, "refine", "auto"]
        over.append(taken["cusparse", "csr", None, "fp64"] / ours)
        own.append(min(taken["cuda", None, None, "fp64"], taken["cuda_fused", None, None, "fp64"]) / ours)
    assert numbers["refine.cusparse.all"].value == pytest.approx(geometric(over))
    assert numbers["refine.cusparse.least"].value == pytest.approx(min(over))
    assert numbers["refine.fp64.all"].value == pytest.approx(geometric(own))
    assert numbers["refine.slower"].value == sum(each < 1 for each in own)
    gains = []
    for row in plain_rows("gpu_cg_time"):
        taken = {(way["engine"], way["method"], *way["vectors"]): way["solve_samples_s"] for way in row["ways_found"]}
        if row["graph"].startswith(("stencil:points=7", "stencil:points=27", "diffusion:side=224", "elasticity")):
            slow, fast = taken["cusparse+cublas", "cg", "auto"], taken["cuda", "cg", "fp32"]
            gains.append(statistics.median(slow) / statistics.median(fast))
    assert numbers["cg.alike.vendor.tuned"].value == pytest.approx(geometric(gains))
    for storage, key in (("bfp16", "halves.ones"), ("fp16", "halves.fp16.ones")):
        ratios = []
        for row in plain_rows("cg_bits"):
            if row["rhs"] == "ones" and {way["status"] for way in row["ways_found"]} == {"CONVERGED"}:
                taken = {"+".join(way["vectors"]): way["iterations"] for way in row["ways_found"]}
                ratios.append(taken[storage] / taken["fp64"])
        assert numbers[key].value == pytest.approx(geometric(ratios))
    peers = []
    for row in plain_rows("cpu_peers"):
        taken = {r["name"]: r["solve_s"] for r in row["results"] if r["status"] == "ok"}
        others = [s for name, s in taken.items() if not name.startswith("cpms") and name != "Gauss-Seidel"]
        peers.append(min(others) / taken["cpms refine auto"])
    assert numbers["peers.programs"].value == pytest.approx(geometric(peers))


def test_what_pages_say_in_words_holds_of_the_rows(numbers):
    """They are in docs/faq.md, docs/start.md, docs/refine.md, docs/reports.md, docs/functions.md, docs/measured.md."""

    def of(key):
        return numbers[key].value

    # Method refine is faster than the other libraries, on GPUs and on processors.
    assert min(of("refine.cusparse.least"), of("refine.library.least")) > 1
    assert of("peers.programs.slower") == of("peers.road.slower") == 0
    # Few bits in power iteration lose time on processors, and gain little or lose on a GPU.
    assert min(of("processors.cpms2"), of("processors.cpms4")) > 1
    assert max(of("rule.cuda.cpms2.1e-10"), of("rule.cuda.cpms4.1e-10")) < 1.2
    assert max(of("rule.cuda_thread_rows.cpms2.1e-10"), of("rule.cuda_thread_rows.cpms4.1e-10")) < 1
    # On processors, sweeps of 16 bits take about as long as sweeps of 32.
    assert 0.9 < of("peers.16_over_32") < 1.1
    # In-cache sweeps are faster on each of nine graphs; Anderson acceleration saves about a third of all sweeps.
    assert min(numbers["lever.cached"].low, numbers["lever.cached.fp64"].low) > 1
    assert len(numbers["lever.cached"].rows) == len(numbers["lever.cached.fp64"].rows) == 9
    assert 0.6 < of("extrapolation.with") / of("extrapolation.without") < 0.75
    # On the smallest graph an update takes longer than a call on a ready graph; on all graphs it takes fewer sweeps.
    for place in ("", r"cpu\."):
        of_calls = re.compile(rf"updates\.{place}[^.]+\.over_call")
        updates = {number.rows[0]["edges"]: key for key, number in numbers.items() if of_calls.fullmatch(key)}
        assert of(updates[min(updates)]) < 1
    sweeps = [number for key, number in numbers.items() if re.fullmatch(r"updates\.\S+\.sweeps", key)]
    assert all(number.value < int(number.what.split()[-1]) for number in sweeps)
    # In conjugate gradients on a GPU, auto alone has a preconditioner, and only where diagonals differ fivefold.
    for row in plain_rows("gpu_cg_time"):
        used = [way["preconditioner_used"] for way in row["ways_found"]]
        differs = row["graph"].startswith(("diffusion:", "elements:"))
        assert used == ["none"] * (len(used) - 1) + ["jacobi in fp64" if differs else "none"]
        assert row["ways_found"][-1]["method"] == "auto"
    # Beside CuPy's solvers, those of cpms run on processors (`cpms.experiment.kinds.honesty`).
    for solver, where in (("cpms-auto", "processors"), ("cupy-cg", "a GPU"), ("cupy-gmres", "a GPU")):
        assert f"{solver.replace('-', ' ')} on {where}, of 500 systems" in numbers[f"gpu_honesty.{solver}.called"].what
    # Bases of few bits solve whatever GMRES solves in float64 within as many iterations.
    for name, key in (("gmres_bits", "listed"), ("gmres_bits_held", "held")):
        ended = [[way["status"] == "CONVERGED" for way in row["ways_found"]] for row in plain_rows(name)]
        solved = sum(first for first, *_ in ended)
        assert sum(map(all, ended)) == solved == of(f"basis.{key}.kept") == of(f"basis.{key}.solved")


def test_refine_is_slower_on_the_smallest_swept_graphs_and_on_one_large_family(numbers):
    slower = [row["edges"] for row in numbers["refine.slower"].rows]
    others = [row["edges"] for row in numbers["refine.fp64.swept"].rows if row["edges"] not in slower]
    assert max(slower) < min(others)
    slower = [row["graph"] for row in numbers["road.later"].rows]
    assert [graph.partition("family=")[2].partition(",")[0] for graph in slower if ":" in graph] == ["preferential"]


def test_few_bits_alone_are_faster_on_most_graphs(numbers):
    ratios = []
    for row in numbers["bits.all"].rows:
        taken = [result for result in row["results"] if result["status"] == "ok"]
        own = min(r["solve_s"] for r in taken if r["storage"] == "fp64" and r["engine"] in ("cuda", "cuda_fused"))
        (alone,) = (r["solve_s"] for r in taken if r["storage"] == "fp16" and r.get("whole") and r.get("plain"))
        ratios.append(own / alone)
    assert geometric(ratios) == pytest.approx(numbers["bits.all"].value, rel=1e-3)
    assert sum(ratio > 1 for ratio in ratios) > 0.75 * len(ratios)


def test_csr_is_ten_times_as_fast_as_sell_on_web_and_rmat_graphs():
    """The page docs/concepts/layouts.md says so."""
    for row in plain_rows("gpu_suite_a_irregular") + plain_rows("gpu_suite_b_irregular"):
        if not row["graph"].startswith("elements"):
            own = [
                c for c in row["contestants"] if (c["engine"], c["storage"], c["vectors"]) == ("cuda", "fp64", "fp64")
            ]
            times = {layout: min(c["median_ms"] for c in own if c["layout"] == layout) for layout in ("csr", "sell")}
            assert times["sell"] > 10 * times["csr"]


def test_what_the_page_of_reports_says_in_words_holds_of_the_rows():
    least = {}
    for layout, name in (("csr", "gpu_speedup"), ("ell", "gpu_speedup_ell")):
        for row in plain_rows(name):
            if row["status"] == "ok" and row["stand_in_for"] and row["tol"] == 1e-10:
                whole = [r for r in row["results"] if r["status"] == "ok" and not r.get("most_read")]
                taken = {(r["engine"], r["storage"]): r["solve_s"] for r in whole}
                for engine in ("cuda", "cuda_thread_rows"):
                    if (engine, "fp64") in taken:  # Two graphs exceed the memory in ELL.
                        ratio = taken[engine, "fp64"] / taken[engine, "cpms2"]
                        least[layout, engine] = min(ratio, least.get((layout, engine), math.inf))
    assert [key for key, ratio in least.items() if ratio > 1] == [("ell", "cuda"), ("ell", "cuda_thread_rows")]
    iterations = {}
    for row in plain_rows("standins"):
        iterations.setdefault(row["graph"], {})[row["storage"]] = row["iterations"]
    assert all(abs(each[few] - each["fp64"]) <= 1 for each in iterations.values() for few in ("cpms2", "cpms4"))
    over_cusparse = []
    for row in plain_rows("gpu_systems"):
        whole = [r for r in row["results"] if r["status"] == "ok" and r["storage"] == "fp64" and not r.get("method")]
        taken = {(r["engine"], r["layout"]): r["solve_s"] for r in whole}
        keys, theirs = taken["reduce_by_key", "coo"], taken["cusparse", None]
        fused = taken["cuda_fused", "pattern"]
        assert fused < min(keys, theirs)
        over_cusparse.append(theirs / keys)
    assert sum(ratio > 1 for ratio in over_cusparse) > len(over_cusparse) / 2


def test_kinds_of_graphs_make_up_the_suite(numbers):
    counts = {
        kind: len(numbers[f"refine.cusparse.{kind}"].rows) for kind in ("all", "swept", "acyclic", "real", "generated")
    }
    assert counts["all"] == counts["swept"] + counts["acyclic"] == counts["real"] + counts["generated"]


def test_each_number_lies_in_its_interval_and_names_its_rows(numbers):
    for number in numbers.values():
        assert math.isnan(number.low) or number.low <= number.value <= number.high, number.key
        assert number.rows or number.key.endswith(("cugraph", "above_bound", "slower")) or "v100" in number.key


def test_a_mean_has_its_median_and_a_line_leads_to_the_rows():
    row = {"experiment": "topk", "cell": "0123456789", "gpu": "H200"}
    mean = ratio("a", "faster", [([2.0], [2.0]), ([4.0], [2.0]), ([8.0], [1.0])], [row], "topk")
    assert (mean.value, mean.median) == (pytest.approx(16 ** (1 / 3)), 2.0)
    assert "| 2.52 times | 1.00 to 8.00, range | 2.00 | [`topk`](../experiments/results/topk.jsonl) 012345 |" in (
        measured_page.line(mean)
    )
    assert math.isnan(ratio("a", "faster", [([2.0], [1.0])], [row], "topk").median)
    assert spread("a", "faster", "times", [1.0, 2.0, 8.0], [row], "topk", of="mean").median == 2.0


def test_each_line_of_the_page_leads_to_a_file_of_rows():
    found = re.findall(r"\]\((\.\./[^)]*)\)", (ROOT / "docs" / "measured.md").read_text(encoding="utf-8"))
    assert len(found) > 100
    assert all((ROOT / "docs" / path).is_file() for path in found)


def test_a_changed_row_changes_its_numbers_alone(tmp_path, numbers):
    shutil.copytree(RESULTS, tmp_path / "results")
    path = tmp_path / "results" / "gpu_road.jsonl"
    first, *others = plain_rows("gpu_road")
    for result in first["results"]:
        result["road_samples_s"] = [2 * sample for sample in result["road_samples_s"]]
    path.write_text("".join(json.dumps(row) + "\n" for row in [first, *others]))
    changed = all_numbers(tmp_path / "results")
    differing = {key for key in numbers if numbers[key].value != changed[key].value}
    assert "road.copying-60M.road" in differing
    assert all(key.startswith("road.") for key in differing)


def test_rows_that_are_missing_are_named_or_left_out(tmp_path):
    (tmp_path / "topk.jsonl").write_bytes((RESULTS / "topk.jsonl").read_bytes())
    with pytest.raises(InputError, match="experiments/numbers finds no rows"):
        all_numbers(tmp_path)
    assert {key.split(".")[0] for key in all_numbers(tmp_path, lenient=True)} == {"topk", "v100"}


@given(st.floats(1e-6, 1e6))
def test_plain_numbers_have_three_digits(value):
    text = plain(value)
    assert "e" not in text
    assert float(text) == pytest.approx(value, rel=5.1e-3)
    assert len(text.replace(".", "").lstrip("0")) >= 3


@pytest.mark.parametrize("template", ["{{nobody}}", "{{table nobody.*}}"])
def test_places_of_no_number_are_refused(template):
    number = Number("a", "it", 2.0, 1.0, 3.0, "ms", (), "road")
    none = Recorded(NUMBERS)
    assert measured_page.filled("{{a}} {{a|value}} {{a|interval}}", {"a": number}, none) == "2.00 ms 2.00 1.00 to 3.00"
    with pytest.raises(InputError, match="nobody"):
        measured_page.filled(template, {"a": number}, none)


def test_the_page_of_changes_has_each_headline_and_a_reason_for_each_fall(pages, numbers):
    with (NUMBERS / "before.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["key"] for line in lines] == pages[0].headlines()
    for line in lines:
        number = numbers[line["key"]]
        last = [text for name, text in line.items() if name not in ("key", "reason") and text][-1:]
        is_other = bool(last) and last[0].split()[0] != plain(number.value)
        assert line["reason"] or not (is_other or not last), f"{line['key']}: give a reason in before.csv"


@pytest.mark.slow
def test_earlier_numbers_are_those_of_the_history(pages):
    writer = pages[0]
    with (NUMBERS / "before.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    for name in (name for name in lines[0] if name not in ("key", "reason")):
        commit = name.split()[-1]
        known_to_git = subprocess.run(["git", "-C", ROOT, "cat-file", "-e", commit], capture_output=True, check=False)
        if known_to_git.returncode:
            pytest.skip(f"commit {commit} is not in this copy's history")
        found = writer.numbers_at(commit)
        for line in lines:
            text = measured_page.with_machine(found[line["key"]]) if line["key"] in found else ""
            assert line[name] == text


def test_a_digest_proves_the_commit_where_the_copy_says_another_one():
    row = {**plain_rows("gpu_road")[0], "git_commit": "0" * 40, "git_dirty": True}
    if not is_history_at_hand():
        pytest.skip("the history of this copy is not whole")
    assert commit_of(row) == commits.by_digest(repository())[row["code_digest"]] != row["git_commit"]
    assert commit_of({**row, "code_digest": "0" * 32}) is None
    assert unexplained([{**row, "code_digest": None}, row]) == "rows no commit explains: 1 of 2 (1 of gpu_road)"


def test_standing_names_experiments():
    rows_of = [{**row, "code_digest": None, "git_commit": None} for row in plain_rows("gpu_road")]
    recorded = Recorded(RESULTS)
    recorded.rows = rows_of
    lines = measured_page.unexplained_lines(recorded)
    assert lines[0] == f"Rows no commit explains: {len(rows_of)} of {len(rows_of)}."
    assert lines[-1] == f"| `experiments/results/gpu_road.jsonl` | {len(rows_of)} of {len(rows_of)} |"


def test_all_rows_are_of_their_configurations():
    if not is_history_at_hand():
        pytest.skip("the history of this copy is not whole")
    assert measured_page.changed_lines(Recorded(RESULTS))[0].startswith("Rows of another configuration: 0 of ")
