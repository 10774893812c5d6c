"""Bytes of sweeps are those of the arrays that they read, and rows of power iteration hold them."""

from __future__ import annotations

import json

import pytest

import cpms
from cpms.experiment.memory_footprint import least_bytes, least_bytes_of_solve
from cpms.experiment.runner import run
from cpms.formats.formats import CPMS2, FP64, format_named
from cpms.graph.graph import Graph

GRAPH = Graph.from_edges([0, 1, 2, 0], [1, 2, 0, 2], nodes=4)


@pytest.mark.parametrize(
    ("layout", "indices", "entries"),
    [("csr", 4 * 4 + 4 * 4, 4), ("ell", 4 * 8, 8), ("coo", 8 * 4, 4), ("pattern", 4 * 4 + 8 * 4, 0)],
)
def test_a_sweep_reads_indices_values_and_vectors_once(layout, indices, entries):
    assert least_bytes(GRAPH, FP64, layout, 1) == indices + 8 * entries + 2 * 8 * 4
    assert least_bytes_of_solve(GRAPH, FP64, layout, {64: 3}) == 3 * least_bytes(GRAPH, FP64, layout, 1)


def test_sweeps_of_bits_that_a_format_lacks_are_in_float64():
    late = least_bytes_of_solve(GRAPH, format_named("fp16"), "csr", {16: 2, 64: 1})
    assert late == least_bytes_of_solve(GRAPH, format_named("fp16"), "csr", {16: 2}) + least_bytes(
        GRAPH, FP64, "csr", 1
    )


def test_fewer_bits_move_fewer_bytes_and_other_layouts_have_no_number():
    assert least_bytes_of_solve(GRAPH, CPMS2, "csr", {32: 1}) < least_bytes_of_solve(GRAPH, CPMS2, "csr", {64: 1})
    assert least_bytes_of_solve(GRAPH, CPMS2, "sell", {32: 1}) is None


def test_rows_of_power_iteration_hold_them(tmp_path):
    text = (
        'name = "x"\nkind = "pagerank"\ngraphs = ["rgg:scale=6"]\nstorages = ["cpms2"]\nmethods = ["power", "refine"]\n'
    )
    (tmp_path / "x.toml").write_text(text)
    rows = [json.loads(line) for line in run(tmp_path / "x.toml", output=tmp_path).read_text().splitlines()]
    power, refine = sorted(rows, key=lambda row: row["method"])
    sweeps = {int(bits): count for bits, count in power["iterations_by_bits"].items()}
    assert len(sweeps) == 2
    assert power["least_bytes"] == least_bytes_of_solve(cpms.load("rgg:scale=6"), CPMS2, power["layout"], sweeps)
    assert "least_bytes" not in refine
