"""Ranges of equal shares built in one go are those that padded rows and a cut of their costs make step by step."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from cpms import Graph
from cpms.backends.cuda.kernels import template
from cpms.backends.cuda.persistent import device_graph, load_balance
from cpms.backends.cuda.persistent.equal_ranges import equal_ranges
from cpms.backends.cuda.spmv.padded_csr import DeviceRows, PaddedCsr, for_lanes
from cpms.testing import graphs

few = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def with_a_hub_and_gaps(edges):
    random = np.random.default_rng(2)
    targets = np.concatenate([np.full(1700, 3), random.integers(0, 900, edges) // 7 * 7, np.full(300, 899)])
    return Graph.from_edges(random.integers(0, 900, len(targets)), targets, nodes=900)


def agrees(device, graph, range_tiles, warps):
    device.compile([*template.EQUAL_RANGES, *template.PADDED_CSR])
    rows = DeviceRows.of(graph)
    ranges, starts = equal_ranges(rows, range_tiles, value_bytes=2, warps=warps)
    entries = PaddedCsr.of(rows)
    sources, flags, _ = entries.to_device(rows)
    host = device.to_host
    assert ranges.tiles == entries.tiles
    assert np.array_equal(host(starts), host(entries.starts))
    assert np.array_equal(host(ranges.sources), host(for_lanes(sources, 32)))
    assert np.array_equal(host(ranges.row_end_flags), host(flags))
    if range_tiles:
        begins = np.arange(0, entries.tiles, range_tiles)
    else:
        begins = load_balance.split_tiles(load_balance.streamed_costs(entries), ranges.blocks * ranges.shape.warps)
    assert host(ranges.range_begins).tolist() == [*begins, entries.tiles]
    first_entries = device.arrays.asarray((256 * begins).astype(np.uint32))
    first_rows = host(entries.rows_at(first_entries))
    assert np.array_equal(host(ranges.first_rows), first_rows)
    begun = np.searchsorted(256 * begins, host(entries.starts)[first_rows], side="right") - 1
    assert np.array_equal(host(ranges.first_ranges), begun)
    assert (host(ranges.carry_out) == 2**64 - 1).all()


def widened(device, monkeypatch, processors):
    """Let an emulated device, which has one block, have ranges for more."""
    if hasattr(device, "_folder"):
        monkeypatch.setattr(device, "processors", processors)
        monkeypatch.setattr(device, "persistent_blocks", lambda _: processors)


@few
@given(graph=graphs())
def test_ranges_of_small_graphs(device, graph):
    if graph.weights is None:
        agrees(device, graph, 0, None)


@pytest.mark.parametrize("range_tiles", [0, 4])
@pytest.mark.parametrize(("processors", "edges"), [(1, 3000), (2, 9000)])
def test_ranges_of_hubs_and_empty_rows(device, monkeypatch, range_tiles, processors, edges):
    widened(device, monkeypatch, processors)
    agrees(device, with_a_hub_and_gaps(edges), range_tiles, 16)


def test_shares_of_rows_whose_costs_vary(device, monkeypatch):
    """More ranges than threads, whose first tiles keep up with few long rows, fall behind and catch up."""
    widened(device, monkeypatch, 20)
    targets = np.concatenate([np.zeros(20_000, int), np.arange(60_000), np.full(20_000, 59_999)])
    agrees(device, Graph.from_edges(np.zeros_like(targets), targets), 0, 16)


def test_degrees_beyond_a_byte_are_marked(device):
    degrees = np.array([0, 1, 254, 255, 256, 70_000], np.uint32)
    bytes_of = device.to_host(device_graph._as_bytes(device.upload(degrees)))
    assert bytes_of.tolist() == [0, 1, 254, 255, 255, 255]
