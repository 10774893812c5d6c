"""Results as tables and as figures: the ranks and the solution as they are, and every iteration as a point."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest

import cpms

mpl.use("Agg")


@pytest.fixture(autouse=True)
def _closed_figures():
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


@pytest.mark.parametrize("names", [None, ["x", "y", "z"]])
def test_ranks_as_a_table(names):
    graph = (
        cpms.Graph.from_edges([0, 1, 2], [1, 2, 1], names=names)
        if names
        else cpms.Graph.from_edges([0, 1, 2], [1, 2, 1])
    )
    result = cpms.pagerank(graph)
    table = result.to_frame()
    assert table.node.tolist() == (names or [0, 1, 2])
    assert np.array_equal(table["rank"], result.ranks)


def test_a_solution_as_a_table():
    found = cpms.solve([[4.0, -1.0], [-1.0, 4.0]], [3.0, 3.0])
    assert found.to_frame().values.tolist() == [[0, 1.0], [1, 1.0]]


def test_figures_have_every_iteration_in_the_colour_of_its_bits():
    result = cpms.pagerank(cpms.generate("weblike:nodes=300,edges=1500,seed=1"), storage="cpms4", layout="csr")
    axes = result.plot()
    assert axes.figure.get_figwidth() == pytest.approx(3.3)
    assert axes.get_yscale() == "log"
    points = {part.get_label(): len(part.get_offsets()) for part in axes.collections}
    assert points == {f"{bits} bits": count for bits, count in result.iterations_by_bits.items()}


def test_figures_go_into_a_panel_that_is_given():
    import matplotlib.pyplot as plt

    _, axes = plt.subplots()
    found = cpms.solve(cpms.matrix([[4.0, -1.0], [-1.0, 4.0]]), [3.0, 1.0])
    assert found.plot(axes) is axes
    assert sum(len(part.get_offsets()) for part in axes.collections) == sum(s.residual > 0 for s in found.history)
