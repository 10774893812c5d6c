"""Panels of one graph follow each other from the loosest tolerance on, in every figure that has several of them."""

from __future__ import annotations

import pytest

from cpms.experiment.report.observations import observations
from cpms.experiment.report.show import styled
from cpms.experiment.report.style import WIDTHS
from cpms.experiment.report.templates import TEMPLATES

TOLERANCES = (1e-6, 1e-10, 1e-2, 1e-4)


@pytest.mark.parametrize("graphs", [["g"], ["g", "h"]])
def test_scatters_have_panels_by_graph_and_then_by_tolerance(graphs):
    rows = [
        {
            "experiment": "mine", "status": "ok", "cell": f"{graph}{tol}{storage}", "graph": graph, "engine": "cpu",
            "storage": storage, "tol": tol, "solve_s": 1.0, "error_l1": tol * bits, "edges": 10,
            "iterations_by_bits": {str(bits): 3},
        }
        for tol in TOLERANCES[: 4 // len(graphs)]
        for graph in graphs
        for storage, bits in (("fp64", 64), ("fp16", 16))
    ]  # fmt: skip
    with styled():
        figure, *_ = TEMPLATES["error"](observations(rows), WIDTHS["double"], None)
    titles = [" ".join(axes.get_title().split()) for axes in figure.axes if axes.axison]
    pairs = [title.partition(", tol=")[::2] for title in titles]
    assert pairs == sorted(pairs, key=lambda pair: (pair[0], -float(pair[1])))
    assert len({*pairs}) == 4
