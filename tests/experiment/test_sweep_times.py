"""Times of sweeps: the mean over a run, updates of x included, and the spread of runs."""

import itertools
import statistics

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpms.backends.cuda.persistent.strategies import StrategyData
from cpms.base.package_data import folder
from cpms.experiment.derived import sweep_times as derived
from cpms.experiment.derived.sweep_times import UPDATE_PERIOD, sweep_times
from cpms.experiment.kinds.sweeps import bytes_moved, mean_of_whole_periods
from cpms.experiment.pages.numbers import all_numbers
from cpms.experiment.report.captions import provenance
from cpms.experiment.report.observations import observations
from cpms.experiment.report.speedup_figures import faster_lines
from cpms.experiment.rows import rows as files
from cpms.experiment.rows.flat import flatten

RESULTS = folder("experiments") / "results"
SWEEPS = ("gpu_sweeps", "gpu_orders", "gpu_cached", "gpu_merged")
times = st.floats(1.0, 1e4)
NODES, EDGES = 1000, 4000


def a_result(runs, bits=16, *, accumulates=False, **more):
    """Return a result of runs of single sweeps, as kind ``sweeps`` records it."""
    every = [each for run in runs for each in run]
    return {
        "arrangement": {"cached": accumulates},
        "storage": f"fp{bits}",
        "bits": bits,
        "sweep_us": statistics.median(every),
        "least_us": min(every),
        "most_us": max(every),
        "run_us": [mean_of_whole_periods(run) for run in runs],
        "bytes": bytes_moved(NODES, EDGES, bits, accumulates=accumulates),
        "in_bins": False,
        "gather_us": 1.0,
        **more,
    }


def a_row(*results, sweeps=30):
    shared = {"experiment": "mine", "kind": "sweeps", "status": "ok", "graph": "path", "graph_name": "path"}
    shared |= {"stand_in_for": None, "nodes": NODES, "edges": EDGES, "samples": 5, "sweeps": sweeps, "gpu": "H200"}
    return {**shared, "cell": "0", "ceilings": {"copy_gbps": 4000.0}, "results": list(results)}


def a_run(plain, slow, periods=3):
    """Return the sweeps of a run, of which each eighth includes an update."""
    return ([plain] * (UPDATE_PERIOD - 1) + [slow]) * periods


@given(times, times, st.sampled_from([8, 16, 32]))
def test_the_time_of_a_sweep_that_defers_updates_is_the_mean_of_a_run(plain, more, bits):
    run = a_run(plain, plain + more)
    result = a_result([run] * 5, bits)
    found = sweep_times(a_row(result), result)
    assert found.us == pytest.approx(statistics.fmean(run))
    assert (found.plain_us, found.update_us) == (plain, pytest.approx(more, abs=1e-9 * plain))
    assert found.range_us == 0.0


@given(st.lists(st.lists(times, min_size=5, max_size=29), min_size=1, max_size=5), st.sampled_from([16, 64]))
def test_other_sweeps_take_the_median_of_runs_with_their_range_around_it(runs, bits):
    result = a_result(runs, bits, accumulates=bits < 64)
    found = sweep_times(a_row(result), result)
    means = [mean_of_whole_periods(run) for run in runs]
    assert (found.us, found.update_us) == (statistics.median(means), 0.0)
    assert (found.least_us, found.most_us, found.range_us) == (min(means), max(means), max(means) - min(means))
    assert found.bytes == result["bytes"]


@given(
    st.integers(1, 10**7), st.floats(0.1, 60.0), st.sampled_from([8, 16, 32]), st.booleans(), st.sampled_from([1, 4])
)
def test_recorded_bytes_show_whether_updates_are_deferred(nodes, degree, bits, accumulates, degree_bytes):
    class Data(StrategyData):
        __slots__ = ()
        degree_bytes = None

    Data.degree_bytes = degree_bytes
    moved = bytes_moved(nodes, int(degree * nodes), bits, Data(), accumulates=accumulates)
    result = a_result([[1.0]], bits, bytes=moved)
    row = {"nodes": nodes, "edges": int(degree * nodes), "results": [result]}
    assert derived.defers(row, result) is not accumulates
    assert derived.defers(row, {**result, "in_bins": True})
    assert not derived.defers(row, {**result, "bits": 64})


def test_a_lumped_graph_lies_in_the_cache_if_the_whole_one_does():
    for accumulates in (False, True):
        whole = a_result([[1.0]], accumulates=accumulates, arrangement={"merge": False})
        lumped = {**whole, "arrangement": {"merge": True}, "bytes": 1.0, "run_us": [2.0]}
        found = sweep_times(a_row(whole, lumped), lumped)
        assert (found.update_us > 0) is not accumulates
        assert np.isnan(found.bytes) is not accumulates  # Its nodes are not recorded.


@pytest.mark.parametrize(("bits", "moved"), [(8, 25), (16, 34), (32, 52)])
def test_an_update_reads_eight_residuals_and_x_and_writes_x_and_the_last_residual(bits, moved):
    result = a_result([[1.0, 1.0, 2.0]], bits)
    share = sweep_times(a_row(result), result).bytes - result["bytes"]
    assert share == pytest.approx(NODES * moved / 8)


def swept():
    """Yield the recorded rows of the kind with their results in few bits."""
    for name in SWEEPS:
        for row in files.read(RESULTS / f"{name}.jsonl"):
            for result in row["results"] if row["status"] == "ok" else []:
                yield row, result


def test_recorded_sweeps_without_deferred_updates_differ_by_noise_alone():
    for row, result in swept():
        if not derived.defers(row, result):
            assert result["most_us"] < 1.2 * result["sweep_us"]
            assert statistics.median(result["run_us"]) == pytest.approx(result["sweep_us"], rel=0.03)


def test_times_are_those_of_solves_whose_rows_hold_each_sweep():
    """Inner sweeps 9, 17 and so on of an outer step include an update, without acceleration and error feedback."""
    derived_us = {
        (row["graph"], result["storage"]): sweep_times(row, result)
        for row, result in swept()
        if row["experiment"] == "gpu_sweeps" and result["arrangement"] == row["results"][0]["arrangement"]
    }
    compared = 0
    for row in files.read(RESULTS / "gpu_refine.jsonl"):
        for result in row["results"]:
            found = derived_us.get((row["graph"], result["storage"]))
            if result["status"] != "ok" or not result.get("plain") or not found or not found.update_us:
                continue
            if result["bits"].count(64) == 1:  # By error feedback.
                continue
            each_us, bits = 1e6 * np.diff(result["step_s"]), result["bits"][1:]
            begins = [0, *(place + 1 for place, read in enumerate(bits) if read == 64), len(bits) + 1]
            steps = [each_us[first : last - 1] for first, last in itertools.pairwise(begins)]
            periods = [step[1 + k : 9 + k] for step in steps for k in range(0, len(step) - 8, UPDATE_PERIOD)]
            if periods:
                compared += 1
                assert found.us == pytest.approx(np.mean(periods), rel=0.04), (row["graph"], result["storage"])
                assert {int(np.argmax(period)) for period in periods} == {UPDATE_PERIOD - 1}
    assert compared >= 10


def test_tables_and_generic_figures_have_the_mean_and_the_spread_of_runs():
    deferring = a_result([a_run(10.0, 90.0), a_run(10.0, 82.0), a_run(10.0, 98.0)])
    other = a_result([[9.0], [10.0], [12.0]], 64)
    row = a_row(deferring, other)
    table = flatten([row])
    assert table.amortised_us.tolist() == [20.0, 10.0]
    assert table.update_us.tolist() == [80.0, 0.0]
    assert table.amortised_bytes.tolist() == [deferring["bytes"] + NODES * 34 / 8, other["bytes"]]
    found = observations([row]).set_index("bits")
    assert (found.seconds[16], found.least[16], found.most[16]) == pytest.approx((20e-6, 19e-6, 21e-6))
    assert found.samples[16] == pytest.approx([20e-6, 19e-6, 21e-6])
    assert (found.least[64], found.most[64]) == pytest.approx((9e-6, 12e-6))
    assert found.moved[16] == found.traffic[16] == table.amortised_bytes[0]
    lumped = {**deferring, "arrangement": {"merge": True}}
    found = observations([a_row(lumped)])  # Bytes without those of an update are none of its sweeps.
    assert found.traffic.isna().all()
    assert found.moved.isna().all()


def test_rows_without_what_times_are_derived_from_have_no_derived_columns():
    result = a_result([[1.0, 2.0]])
    row = a_row(result)
    assert derived.columns(row, result)
    assert derived.columns({**row, "kind": "product"}, result) == {}
    for key in ("nodes", "edges"):
        assert derived.columns({**row, key: None}, result) == {}
    for key in ("sweep_us", "run_us", "bytes", "bits"):
        assert derived.columns(row, {**result, key: None}) == {}
    assert derived.columns(row, {**result, "run_us": []}) == {}


@given(times, times, times)
def test_ratios_of_sweeps_lie_between_those_of_their_runs(plain, more, faster):
    runs = [a_run(plain, plain + more), a_run(plain, plain + 2 * more), a_run(plain, plain + 3 * more)]
    without = a_result(runs)
    taken = a_result([[faster] * 9, [2 * faster] * 9, [4 * faster] * 9], accumulates=True)
    (line,) = faster_lines(pd.Series(a_row(without, taken)), "cached", "in-cache")
    means = [statistics.fmean(run) for run in runs]
    assert line["times faster"] == pytest.approx(means[1] / (2 * faster))
    assert line["low"] == pytest.approx(means[0] / (4 * faster))
    assert line["high"] == pytest.approx(means[2] / faster)
    assert line["apart us"] == pytest.approx(3 * faster)


def test_captions_count_runs_and_say_their_range():
    deferring, other = a_result([a_run(10.0, 90.0), a_run(10.0, 106.0)]), a_result([[9.0], [10.0], [12.0]], 64)
    runs = "Runs of each result: 5 of 29 timed sweeps; median range of runs"
    assert provenance([a_row(deferring)]).endswith(f"{runs} 9.5 % of the median.")
    assert provenance([a_row(other)]).endswith(f"{runs} 30 % of the median.")
    assert provenance([a_row(deferring, other)]).endswith(f"{runs} 20 % of the median.")
    solved = {"experiment": "x", "cell": "1", "results": [{"solve_samples_s": [1.0, 2.0, 3.0]}]}
    assert "Samples of each result: 3; median" in provenance([solved, a_row(other)])
    assert runs in provenance([solved, a_row(other)])


def test_sixteen_bits_are_faster_than_sixty_four_by_means_of_runs():
    number = all_numbers(RESULTS)["limits.bits"]
    ratios = []
    for row in number.rows:
        first = row["results"][0]["arrangement"]
        own = {each["storage"]: each for each in row["results"] if each["arrangement"] == first}
        few, double = own["fp16"], own["fp64"]
        ratios.append(statistics.median(double["run_us"]) / statistics.median(few["run_us"]))
    assert (number.low, number.high) == pytest.approx((min(ratios), max(ratios)))
    assert number.value == pytest.approx(np.exp(np.mean(np.log(ratios))))


@given(times, times, st.integers(0, 4), st.integers(0, UPDATE_PERIOD - 1), st.integers(0, UPDATE_PERIOD - 1))
def test_the_mean_over_whole_periods_of_a_run_is_that_of_a_long_run(plain, more, periods, begun, phase):
    """Wherever the periods of a run begin, each has one update; the sweeps before the whole ones don't count."""
    run = [plain + more * ((place + phase) % UPDATE_PERIOD == 0) for place in range(begun + periods * UPDATE_PERIOD)]
    if periods:
        assert mean_of_whole_periods(run) == pytest.approx(plain + more / UPDATE_PERIOD)
    elif run:
        assert mean_of_whole_periods(run) == pytest.approx(statistics.fmean(run))
