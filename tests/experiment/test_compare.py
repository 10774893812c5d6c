"""Comparison of runs: laws of ratios, error rates of the test in simulated runs, and the command."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpms.base.errors import InputError
from cpms.cli.main import main
from cpms.experiment.report.compare import compare, mean_ratio, significantly_slower
from cpms.experiment.rows.series import Series, series_of

OPPOSITE = {"slower": "faster", "faster": "slower"}
TRIALS, ALPHA = 1000, 0.02

times = st.lists(st.floats(1e-6, 1e3), min_size=5, max_size=12)
factors = st.floats(1e-3, 1e3)


def series(samples, name="a", unit="s"):
    return Series("mine", "path", name, "solve", unit, tuple(map(float, samples)))


def one(before, after, **options):
    return compare([series(before)], [series(after)], **options)[0]


@given(times, times)
def test_swapped_runs_give_the_inverse_ratio_and_the_opposite_conclusion(x, y):
    there, back = one(x, y), one(y, x)
    assert there.ratio * back.ratio == pytest.approx(1.0)
    assert there.conclusion == OPPOSITE.get(back.conclusion, back.conclusion)
    assert there.outliers == back.outliers
    if not math.isnan(there.low):
        assert there.low * back.high == pytest.approx(1.0)
        assert there.p_value == pytest.approx(back.p_value)
        assert there.low <= there.ratio * (1 + 1e-12)
        assert there.ratio <= there.high * (1 + 1e-12)


@given(times, factors)
def test_a_run_scaled_by_a_factor_has_that_ratio_to_itself(x, factor):
    assert one(x, factor * np.array(x)).ratio == pytest.approx(factor, rel=1e-9)
    assert one(x, x).conclusion in ("no difference", "too few samples")


@given(times, times)
def test_rates_are_the_inverse_of_times(x, y):
    timed = one(x, y)
    rated = compare([series(1 / np.array(x), unit="gbps")], [series(1 / np.array(y), unit="gbps")])[0]
    assert rated.ratio == pytest.approx(timed.ratio)
    assert rated.conclusion == timed.conclusion


@given(times, times, st.permutations(range(5)))
def test_the_order_of_samples_does_not_matter(x, y, order):
    shuffled = [x[k] for k in order] + x[5:]
    assert one(shuffled, y) == one(x, y)._replace(before=series(shuffled))


def simulated(random, slowdown):
    """Return ten times of a run: log-normal noise, outliers, and a drift within the run."""
    noise = np.exp(0.025 * random.standard_normal(10))
    outliers = np.where(random.random(10) < 0.02, 1.5, 1.0)
    return slowdown * noise * outliers * np.linspace(1.0, 1.01, 10)


def shares(slowdown):
    """Return the share of each conclusion in simulated pairs of runs."""
    random = np.random.default_rng(20)
    runs = [[series(simulated(random, each), str(k)) for k in range(TRIALS)] for each in (1.0, slowdown)]
    found = [each.conclusion for each in compare(*runs, alpha=ALPHA)]
    return {name: found.count(name) / TRIALS for name in set(found)}


def test_equal_runs_seldom_raise_an_alarm():
    assert 1 - shares(1.0)["no difference"] <= 0.03


def test_a_slowdown_of_five_percent_is_found():
    assert shares(1.05)["slower"] >= 0.9


def test_correction_keeps_false_alarms_of_many_series_rare():
    random = np.random.default_rng(3)
    runs = [[series(simulated(random, 1.0), str(k)) for k in range(400)] for _ in range(2)]
    found = compare(*runs, alpha=ALPHA)
    assert any(each.conclusion == "slower" for each in found)
    assert len(significantly_slower(found, alpha=ALPHA)) <= 1


def test_the_mean_ratio_lies_within_its_interval():
    random = np.random.default_rng(1)
    before = [series(simulated(random, 1.0), str(k)) for k in range(20)]
    after = [each._replace(samples=tuple(simulated(random, 1.2))) for each in before]
    mean, low, high = mean_ratio(compare(before, after))
    assert low < mean < high
    assert mean == pytest.approx(1.2, rel=0.03)


def test_few_samples_have_a_ratio_and_no_test():
    found = one([1, 1, 1, 1], [2, 2, 2, 2])
    assert (found.ratio, found.conclusion) == (2.0, "too few samples")
    assert math.isnan(found.p_value)


@pytest.mark.parametrize("options", [{"alpha": 0.0}, {"alpha": 1.0}, {"margin": -0.1}, {"alpha": math.nan}])
def test_levels_out_of_range_are_refused(options):
    with pytest.raises(InputError, match="alpha lies between 0 and 1"):
        one([1.0], [1.0], **options)


def test_runs_without_a_common_series_are_refused():
    with pytest.raises(InputError, match="no measurement in common"):
        compare([series([1.0], "a")], [series([1.0], "b")])


def test_series_come_of_every_shape_of_rows():
    row = {"cell": "0", "experiment": "mine", "status": "ok", "graph": "path"}
    samples = {"solve_s": 2.0, "solve_samples_s": [1.0, 2.0, 3.0]}
    way = {"method": "cg", "storage": "fp64", "status": "CONVERGED", "solve_s": 0.5}
    rows = [
        {**row, "results": [{"engine": "cpu", **samples}, {"engine": "cuda", "status": "unsupported", "reason": "no"}]},
        {**row, "contestants": [{"engine": "cpu", "copy_gbps": 7.0, "copy_least_gbps": 6.0}]},
        {**row, "ways_found": [way, {**way, "storage": "fp16", "status": "MAX_ITERATIONS"}]},
        {**row, "status": "unavailable", "engine": "cuda", "solve_s": 1.0},
    ]
    found = [(each.contestant, each.quantity, each.unit, each.samples) for each in series_of(rows)]
    assert found == [
        ("cpu", "solve", "s", (1.0, 2.0, 3.0)),
        ("cpu", "copy", "gbps", (7.0,)),
        ("cg fp64", "solve", "s", (0.5,)),
    ]


def test_a_rate_that_a_run_copies_into_each_row_is_one_sample():
    row = {"experiment": "mine", "status": "ok", "graph": "path", "engine": "cpu", "solve_s": 1.0}
    runs = [
        [{**row, "cell": f"{rate} {k}", "repetition": k, "host_copy_gbps": rate} for k in range(5) for rate in rates]
        for rates in ((1.0,), (2.0, 3.0))
    ]
    before, after = ({each.quantity: each for each in series_of(rows)} for rows in runs)
    assert (before["host_copy"].samples, after["host_copy"].samples) == ((1.0,), (2.0, 3.0))
    assert before["solve"].samples == (1.0,) * 5
    assert one(before["host_copy"].samples, after["host_copy"].samples).conclusion == "too few samples"


def file_of_rows(path, factor, **columns):
    random = np.random.default_rng(int(10 * factor))
    rows = [
        {"cell": str(k), "experiment": "mine", "status": "ok", "graph": f"g{k}", "engine": "cpu", "repetition": 0}
        | {"solve_samples_s": [factor * t for t in simulated(random, 1.0)], "cpu": "some", **columns}
        for k in range(3)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_the_command_ends_with_1_where_something_is_slower(tmp_path, capsys):
    before, after = file_of_rows(tmp_path / "a.jsonl", 1.0), file_of_rows(tmp_path / "b.jsonl", 1.3)
    assert main(["compare", before, after]) == 1
    assert "slower after Holm's correction: 3" in capsys.readouterr().out
    assert main(["compare", after, before]) == 0
    assert main(["compare", before, before]) == 0
    assert "3 no difference" in capsys.readouterr().out


def test_json_is_the_same_comparison(tmp_path, capsys):
    before, after = file_of_rows(tmp_path / "a.jsonl", 1.0), file_of_rows(tmp_path / "b.jsonl", 1.3, gpu="other")
    assert main(["compare", before, after, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["machines"] == ["some", "other"]
    assert [each["conclusion"] for each in found["comparisons"]] == ["slower"] * 3
    assert all(each["low"] <= each["ratio"] <= each["high"] for each in found["comparisons"])


@pytest.mark.parametrize(("busier", "warned"), [(0.4, False), (0.6, True)])
def test_loads_of_both_runs_are_printed_and_a_busier_machine_is_warned_of(busier, warned, tmp_path, capsys):
    before = file_of_rows(tmp_path / "a.jsonl", 1.0, load_average_before=1.0 + busier)
    after = file_of_rows(tmp_path / "b.jsonl", 0.6, load_average_before=1.0)
    assert main(["compare", before, after]) == 0
    said = capsys.readouterr().out
    assert f"median: {1 + busier:.2f} in BEFORE, 1.00 in AFTER" in said
    assert ("warning: BEFORE ran on a busier machine" in said) == warned
    assert main(["compare", before, file_of_rows(tmp_path / "c.jsonl", 1.0)]) == 0
    assert "load average" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("load", "named"), [(2.4, ""), (2.6, "beside BEFORE and AFTER other"), (9.0, "BEFORE and AFTER")]
)
def test_a_machine_that_other_processes_share_is_warned_of(load, named, tmp_path, capsys):
    runs = [file_of_rows(tmp_path / f"{name}.jsonl", 1.0, load_average_before=load, threads=2) for name in "ab"]
    assert main(["compare", *runs]) == 0
    said = capsys.readouterr().out
    assert named in said
    assert ("warning" in said) == bool(named)


def test_solves_that_went_otherwise_are_listed(tmp_path, capsys):
    bits = {"iterations": 9, "iterations_by_bits": {"16": 9}}
    files = [file_of_rows(tmp_path / "a.jsonl", 1.0, **bits)]
    files.append(file_of_rows(tmp_path / "b.jsonl", 1.0, **bits | {"iterations": 12, "iterations_by_bits": {"16": 12}}))
    assert main(["compare", files[0], files[0]]) == 0
    assert "solves with another status, or other iterations: 0 of 3\n" in capsys.readouterr().out
    assert main(["compare", *files]) == 0  # More iterations are no failure: times decide.
    said = capsys.readouterr().out
    assert "other iterations: 3 of 3\n" in said
    assert "mine g1 cpu: ok, 9 iterations (9 of 16 bits); now ok, 12 iterations (12 of 16 bits)" in said
    main(["compare", *files, "--json"])
    first = json.loads(capsys.readouterr().out)["courses"][0]
    assert (first["graph"], first["before"]["iterations"], first["after"]["iterations"]) == ("g0", 9, 12)
    untold = file_of_rows(tmp_path / "c.jsonl", 1.0)
    main(["compare", untold, untold])
    assert "other iterations" not in capsys.readouterr().out


def test_of_too_few_samples_each_run_states_what_it_has_left(tmp_path, capsys):
    row = {"experiment": "x", "status": "ok", "graph": "g", "cell": "0"}
    for name, samples in (("a", [1.0, 1.01, 1.02, 1.01, 5.0, 6.0]), ("b", [1.0, 1.1, 1.2])):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({**row, "solve_samples_s": samples}) + "\n")
    assert main(["compare", str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")]) == 0
    assert "too few samples: before 4 of 6 left, 2 set aside; after 3\n" in capsys.readouterr().out


def test_contestants_are_named_as_in_figures(tmp_path, capsys):
    row = {"experiment": "x", "status": "ok", "graph": "spd.mtx", "solve_samples_s": [1.0, 1.1, 1.2, 1.3, 1.4]}
    row |= {"engine": "cpu", "vectors": ["fp64"], "tol": 1e-10}
    rows = [
        {**row, "cell": f"{m} {rhs}", "method": m, "rhs": rhs} for m in ("cg", "gmres") for rhs in ("ones", "random")
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    assert main(["compare", str(tmp_path / "a.jsonl"), str(tmp_path / "a.jsonl")]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[1:5]]
    assert lines[0][:5] == ["x", "spd.mtx,", "rhs=ones", "cg", "solve"]
    assert [line[3] for line in lines] == ["cg", "cg", "gmres", "gmres"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["missing.jsonl"], "missing.jsonl: there is no such file or folder of rows"),
        (["b.jsonl", "--quantity", "copy"], "it has solve; give --quantity"),
        (["b.jsonl", "--experiment", "other"], "no rows of experiment 'other'; it has mine; give --experiment"),
        (["none.jsonl"], "none.jsonl: holds no rows"),
        (["untimed.jsonl"], "untimed.jsonl: holds no measured times"),
        (["b.jsonl", "--alpha", "2"], "alpha lies between 0 and 1"),
    ],
)
def test_bad_input_of_the_command_is_a_line(options, text, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file_of_rows(tmp_path / "a.jsonl", 1.0)
    file_of_rows(tmp_path / "b.jsonl", 1.0)
    file_of_rows(tmp_path / "untimed.jsonl", 1.0, solve_samples_s=[])
    (tmp_path / "none.jsonl").touch()
    assert main(["compare", "a.jsonl", *options]) == 2
    error = capsys.readouterr().err
    assert text in error
    assert "Traceback" not in error
