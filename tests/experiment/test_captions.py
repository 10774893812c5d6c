"""Captions state what the rows hold: contestant, graph, tolerance and device, and times of two devices stay apart."""

from __future__ import annotations

import pytest
from one_drawing import drawn_alone

from cpms.experiment.report.observations import observations
from cpms.experiment.report.show import _matplotlib
from cpms.experiment.report.templates import drawings, speedups

_matplotlib()
ROW = {"cell": "0", "experiment": "mine", "kind": "pagerank", "status": "ok", "graph": "path", "engine": "cuda"}
ROW |= {"storage": "fp64", "tol": 1e-7, "solve_s": 2.0, "gpu": "H200"}


def caption(rows, name="time"):
    return drawn_alone(rows, name).caption


@pytest.mark.parametrize("storages", [["fp64"], ["fp64", "fp32"]])
@pytest.mark.parametrize("graphs", [["path"], ["path", "ring"]])
@pytest.mark.parametrize("tols", [[1e-7], [1e-7, 1e-9]])
def test_what_is_common_to_all_results_is_named_in_the_caption_and_nothing_else(storages, graphs, tols):
    rows = [
        {**ROW, "cell": f"{storage} {graph} {tol}", "storage": storage, "graph": graph, "tol": tol}
        for storage in storages
        for graph in graphs
        for tol in tols
    ]
    text = caption(rows)
    assert ("Contestant: cuda fp64." in text) == (len(storages) == 1)
    assert ("Graph: path." in text) == (len(graphs) == 1)
    assert ("Tolerance: 1e-07." in text) == (len(tols) == 1)


def test_a_name_that_all_contestants_share_is_in_the_caption():
    rows = [{**ROW, "name": "cuGraph", "storage": each, "cell": each, "samples": 7} for each in ("fp64", "fp32")]
    assert "Contestants are named by storage, all of cuGraph." in caption(rows)
    assert "Samples of each result: 7; the rows hold their median alone." in caption(rows)


@pytest.mark.parametrize("name", ["name", "layout"])
def test_names_of_their_own_are_not_said_to_name_contestants(name):
    rows = [{**ROW, name: each, "cell": each} for each in ("first", "second")]
    assert ("Contestants are named by" in caption(rows)) == (name != "name")
    assert "  " not in caption(rows)


def test_times_of_two_gpus_are_not_of_one_case():
    rows = [{**ROW, "cell": gpu, "gpu": gpu, "solve_s": len(gpu)} for gpu in ("H100 80 GB", "H200")]
    found = observations(rows)
    assert found.graph.tolist() == ["path, H100 80 GB", "path, H200"]
    assert found.seconds.tolist() == [10.0, 4.0]
    assert observations(rows[1:]).graph.tolist() == ["path"]


@pytest.mark.parametrize("converged", [True, False])
def test_machines_are_those_of_the_results_that_are_drawn(converged):
    on_cpu = {**ROW, "cell": "1", "engine": "cpu", "cpu": "Xeon", "threads": 8, "converged": converged}
    assert ("Machines: H200; Xeon, 8 threads." if converged else "Machine: H200.") in caption([ROW, on_cpu])


@pytest.mark.parametrize(("kind", "word"), [("conversion", "arrays"), ("topk", "arrays"), ("pagerank", "graphs")])
def test_arrays_are_no_graphs(kind, word):
    rows = [
        {**ROW, "cell": f"{count} {storage}", "kind": kind, "graph": f"{count} values", "storage": storage}
        for count in (1000, 2000, 3000)
        for storage in ("fp64", "fp32")
    ]
    assert f"over the same 3 {word} for all" in caption(rows, "speedup")


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("linear", "of a vector's value"),
        ("vector_bits", "of a vector's value"),
        ("rounding", "of the format rounded to"),
        ("conversion", "of the format converted to"),
        ("pagerank", "read"),
    ],
)
def test_bits_are_those_of_what_the_kind_counts(kind, word):
    rows = [
        {**ROW, "cell": each, "kind": kind, "storage": each, "error_l1": 1.0 / (1 + place)}
        for place, each in enumerate(["fp64", "fp32", "fp16"])
    ]
    made = {each.name: each for each in drawings(rows)}
    assert f"by bits {word}" in made["time"].caption
    assert ("error" in made) == (kind != "rounding")  # Formats are problems there: one contestant rounds to all.
    if "error" in made:
        assert made["error"].figure.axes[0].get_xlabel() == f"bits {word}"
        assert f"against the bits {word}" in made["error"].caption
    for each in made.values():
        assert word == "read" or not any(text in each.caption for text in ("bits read", "sweep reads"))


@pytest.mark.parametrize("formats", [("e4m3", "e4m3"), ("e4m3", "fp64")])
def test_the_format_of_the_matrix_is_stated_beside_the_bits_of_vectors(formats):
    shared = {**ROW, "kind": "linear", "storage": "auto", "used": "cg"}
    rows = [
        {**shared, "cell": f"{stored}{place}{each}", "graph": f"g{place}", "stored_as": stored, "vectors": [each]}
        for place, stored in enumerate(formats)
        for each in ("fp64", "fp32")
    ]
    alike = len(set(formats)) == 1
    names = {f"vectors {each} (A e4m3)" if alike else f"vectors {each}" for each in ("fp64", "fp32")}
    assert set(observations(rows).called) == names
    stated = "A is stored as e4m3." if alike else "Formats of the matrix A in all 4 results: e4m3 (2), fp64 (2)."
    assert stated in caption(rows)


def test_speedups_of_rounding_are_over_the_same_format():
    seconds = {("cpms", "fp16"): 1.0, ("cast", "fp16"): 2.0, ("cpms", "bf16"): 10.0, ("cast", "bf16"): 20.0}
    rows = [
        {
            **ROW,
            "kind": "rounding",
            "cell": f"{name} {storage}",
            "contestant": name,
            "storage": storage,
            "solve_s": each,
        }
        for (name, storage), each in seconds.items()
    ]
    found = observations(rows)
    assert set(found.called) == {"cpms", "cast"}
    assert set(found.problem) == {"storage=fp16", "storage=bf16"}
    assert [line["speedup"] for line in speedups(found, "cpms")] == [0.5]


@pytest.mark.parametrize("count", [1, 2, 4, 5, 9])
def test_few_samples_have_a_range_and_no_bootstrap_interval(count):
    samples = [1.0, 3.0, 2.0, 5.0, 4.0, 8.0, 7.0, 6.0, 9.0][:count]
    rows = [{**ROW, "cell": each, "storage": each, "solve_samples_s": samples} for each in ("fp64", "fp32")]
    (line,) = speedups(observations(rows), "fp64")
    text = caption(rows, "speedup")
    if count < 5:
        ends = min(samples) / max(samples), max(samples) / min(samples)
        assert (line["low"], line["high"]) == pytest.approx(ends)
        assert ("least to most ratio" in text) == (count > 1)
    assert (", with 95 % bootstrap interval" in text) == (count >= 5)


def test_few_graphs_of_few_samples_have_a_range():
    seconds = {("fp64", "a"): 4.0, ("fp64", "b"): 9.0, ("fp32", "a"): 2.0, ("fp32", "b"): 3.0}
    rows = [
        {**ROW, "cell": "".join(at), "storage": at[0], "graph": at[1], "solve_samples_s": [each, 2 * each]}
        for at, each in seconds.items()
    ]
    (line,) = speedups(observations(rows), "fp64")
    assert (line["speedup"], line["low"], line["high"]) == pytest.approx((6**0.5, 1.0, 6.0))
    text = caption(rows, "speedup")
    assert "; strokes: the ratios of a mean of fewer than 5, which has no interval;" in text
    assert "lines:" not in text
    assert "bootstrap" not in text


@pytest.mark.parametrize("graphs", ["a", "abcde"])
def test_least_and_most_are_not_called_no_samples(graphs):
    """A ratio has the range that they allow; a mean of several, from which nothing can be drawn again, has none."""
    ends = {"median_ms": 2.0, "least_ms": 1.0, "most_ms": 3.0, "samples": 15, "solve_s": None}
    rows = [
        {**ROW, **ends, "cell": f"{graph} {each}", "graph": graph, "storage": each}
        for graph in graphs
        for each in ("fp64", "fp32", "fp16")
    ]
    text, lines = caption(rows, "speedup"), speedups(observations(rows), "fp64")
    alone = len(graphs) == 1
    assert [(line["low"], line["high"]) for line in lines] == [pytest.approx((1 / 3, 3.0) if alone else (1.0, 1.0))] * 2
    assert ("the rows hold the least and the most of the samples only" in text) != alone
    assert ("lines: least to most ratio of the samples" in text) == alone
    assert "no samples" not in text


def test_errors_are_stated_where_the_baseline_has_none():
    rows = [{**ROW, "cell": each, "storage": each, "error": error} for each, error in (("fp64", 0.0), ("fp32", 0.007))]
    assert "others are up to 0.007, the baseline's are 0" in caption(rows, "speedup")


def test_algorithms_of_a_library_are_not_pooled():
    rows = [{**ROW, "cell": each, "algorithm": each, "solve_s": float(each[-1])} for each in ("csr_alg1", "csr_alg2")]
    assert dict(observations(rows)[["called", "seconds"]].values) == {"csr_alg1": 1.0, "csr_alg2": 2.0}
