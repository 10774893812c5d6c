"""The public strategies reach every awkward case that they promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

import cpms
from cpms.sources.fuzzed_systems import KINDS
from cpms.storage.corner_patterns import corner_arrays, fitting, special_values
from cpms.testing import (
    bit_patterns,
    block_float_formats,
    distributions,
    float_arrays,
    float_formats,
    graphs,
    group_formats,
    matrices,
    segment_formats,
    systems,
)

EXPONENT, ONES = 0x7FF << 52, (1 << 52) - 1
# That there is an example is all that is asked: none is made small.
FIND = settings(max_examples=20_000, phases=[Phase.generate])


def exponent(bits):
    return bits >> 52 & 0x7FF


def mantissa(bits):
    return bits & ONES


@pytest.mark.parametrize(
    "case",
    [
        lambda bits: bits == 0x7FF0000000000001,
        *(lambda bits, k=k: bits in (EXPONENT | 1 << k, 1 << 63 | EXPONENT | 1 << k) for k in (0, 8, 20, 33, 51)),
        lambda bits: bits == EXPONENT,
        lambda bits: bits == 1 << 63 | EXPONENT,
        lambda bits: bits == 0,
        lambda bits: bits == 1 << 63,
        lambda bits: exponent(bits) == 0 and bin(mantissa(bits)).count("1") > 10,
        lambda bits: 0 < exponent(bits) < 0x7FF and mantissa(bits) == 0,
        lambda bits: 0 < exponent(bits) < 0x7FF and mantissa(bits) == ONES,
        lambda bits: bits in (EXPONENT | ONES, 1 << 63 | EXPONENT | ONES),
        # A tie of a format that keeps the bits above the lowest one, and its neighbours.
        *(lambda bits, step=step: 2**10 <= (bits + step) & -(bits + step) < 2**40 for step in (-1, 1)),
        lambda bits: 1000 < exponent(bits) < 1040 and bin(mantissa(bits)).count("1") > 10,
    ],
)
def test_bit_patterns_reach(case):
    assert case(find(bit_patterns(), case, settings=FIND))


@given(bit_patterns())
def test_bit_patterns_are_64_bits(bits):
    assert 0 <= bits < 2**64


@given(float_arrays(min_size=2, max_size=9))
def test_arrays_have_the_size_asked_for(values):
    assert values.dtype == np.float64
    assert 2 <= len(values) <= 9


def test_arrays_near_a_format_hold_its_corner_patterns():
    corners = {*np.concatenate([*corner_arrays(cpms.E5M2)][1:]).tolist()} - {*special_values().tolist()}
    assert find(float_arrays(near="e5m2"), lambda values: len(corners.intersection(values)) > 1, settings=FIND).size


@pytest.mark.parametrize("storage", ["fp16", "int8", "gse"])
@given(data=st.data())
def test_arrays_near_a_format_hold_values_that_it_stores(storage, data):
    values = data.draw(float_arrays(near=storage, min_size=3))
    assert len(fitting(cpms.format_named(storage), values)) == len(values) >= 3
    cpms.encode(values, storage)


@pytest.mark.parametrize(
    "case",
    [
        *(lambda format, n=n: format.segments == n for n in range(1, 9)),
        lambda format: format.widths == (8, 32, 8, 16),
        lambda format: format.widths == (24, 40),
        lambda format: format.block is None and format.segments > 1,
        lambda format: format.block is not None and format.block > 200,
        lambda format: format.block == 1,
        lambda format: format.rounding == "nearest",
    ],
)
def test_segment_formats_reach(case):
    assert case(find(segment_formats(), case, settings=FIND))


@pytest.mark.parametrize("width", [8, 16, 32])
@pytest.mark.parametrize("rounding", ["zero", "nearest", "stochastic"])
@pytest.mark.parametrize("scaled", [False, True])
def test_float_formats_reach(width, rounding, scaled):
    def case(format):
        return (format.width, format.rounding, format.scaled) == (width, rounding, scaled)

    formats = float_formats(roundings=("zero", "nearest", "stochastic"))
    assert case(find(formats, case, settings=FIND))


@given(st.data(), st.booleans())
def test_options_are_kept_to(data, choice):
    assert data.draw(float_formats(roundings=("zero",))).rounding == "zero"
    assert (data.draw(graphs(weighted=choice)).weights is not None) == choice
    assert data.draw(graphs(max_nodes=3)).nodes <= 3
    assert data.draw(segment_formats(max_block=5)).block in (None, 1, 2, 3, 4, 5)
    if not choice:
        assert not data.draw(float_formats(scaled=False)).scaled


def two_components(graph):
    return connected_components(graph.to_scipy(), directed=True, connection="weak")[0] == 2


def isolated(graph):
    return np.count_nonzero((graph.in_degree == 0) & (graph.out_degree == 0))


@pytest.mark.parametrize(
    "case",
    [
        lambda graph: graph.nodes == 1 and graph.edges == 0,
        lambda graph: graph.nodes > 5 and graph.edges == 0,
        lambda graph: graph.nodes > 5 and graph.edges and len(graph.dangling_nodes) == 0,
        lambda graph: graph.nodes > 5 and (graph.in_degree == 0).sum() == 3 and graph.edges > 8,
        lambda graph: len({*zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)}) < graph.edges,
        lambda graph: (graph.sources == graph.targets).any(),
        lambda graph: graph.nodes > 6 and graph.in_degree.max() >= graph.nodes <= graph.out_degree.max(),
        lambda graph: graph.nodes > 6 and isolated(graph) > graph.nodes // 2 and graph.edges > 4,
        lambda graph: graph.nodes > 6 and graph.edges > 10 and two_components(graph),
        lambda graph: (
            graph.nodes > 5 and graph.sources.tolist() == list(range(graph.nodes - 1)) == [*graph.targets - 1]
        ),
        lambda graph: graph.nodes > 5 and graph.edges == graph.nodes - 1 == graph.in_degree[0],
        lambda graph: graph.nodes > 5 and graph.edges == graph.nodes - 1 == graph.out_degree[0],
        lambda graph: graph.weights is None,
        lambda graph: graph.weights is not None and len(set(graph.weights.tolist())) > 3,
    ],
)
def test_graphs_reach(case):
    assert case(find(graphs(), case, settings=FIND))


@given(st.data(), st.integers(1, 9))
def test_distributions_have_sum_1_and_may_hold_zeros(data, nodes):
    x = data.draw(distributions(nodes))
    assert len(x) == nodes
    assert (x >= 0).all()
    assert x.sum() == pytest.approx(1.0, abs=1e-14)


@pytest.mark.parametrize("kind", KINDS)
def test_systems_reach(kind):
    wanted = systems(kinds=(kind,), max_size=20)
    found = find(wanted, lambda system: system.A.shape[0] > 4 and system.b.any(), settings=FIND)
    assert (found.kind, found.A.shape[0] <= 20) == (kind, True)
    with pytest.raises(cpms.InputError, match="kinds is 'spd'; give some of"):
        systems(kinds="spd")


def test_formats_that_share_exponents_are_all_drawn():
    for name in ("mxfp8-e5m2", "mxfp6-e2m3", "mxfp4", "mxint8", "gse"):
        assert find(group_formats(), lambda format, name=name: format.name == name, settings=FIND).group > 1
    for width in (16, 21, 32):
        found = find(block_float_formats(), lambda format, width=width: format.width == width, settings=FIND)
        assert found.width == width


@given(matrices(max_size=6))
def test_drawn_matrices_are_stored_and_multiplied_within_their_bound(matrix):
    cpms.check.products_are_within_their_bound(cpms.matrix(matrix, storage="fp32", engine="reference"))
