"""Experiment kind product: what is measured, who is refused, and the table and figure of it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from cpms import InputError
from cpms.base.package_data import show_programs
from cpms.experiment.kinds import product
from cpms.experiment.report import show
from cpms.experiment.report.output import Output
from cpms.sources.matrices.stencils import POINTS, stencil

CONTESTANTS = [
    {"engine": "cpu"},
    {"engine": "cpu", "layout": "sell", "storage": "lossless", "vectors": "fp32"},
    {"engine": "cpu", "layout": "sell", "storage": "cpms2"},
    {"engine": "cpu", "layout": "sell", "indices": "compressed"},
]


def config(**changes):
    given = {"name": "x", "kind": "product", "matrices": ["stencil:points=7,side=4"], "contestants": CONTESTANTS}
    return product.Config(**given | {"samples": 3} | changes)


@pytest.mark.parametrize("points", POINTS)
def test_stencils_are_laplacians_of_grids(points):
    side, (dimensions, diagonal) = 4, POINTS[points]
    dense = stencil(points, side).toarray()
    places = np.stack(np.unravel_index(np.arange(side**dimensions), (side,) * dimensions), axis=1)
    apart = np.abs(places[:, None] - places[None])
    near = (apart.max(axis=2) == 1) if diagonal else (apart.sum(axis=2) == 1)
    np.testing.assert_array_equal(dense, np.where(near, -1.0, 0.0) + (points - 1) * np.eye(side**dimensions))


def test_each_contestant_is_measured_at_each_level():
    (cell,) = config().cells()
    found = product.Context(config()).measure(cell)
    assert (found["rows"], found["entries"]) == (64, stencil(7, 4).nnz)
    read = [(c["layout"], c["stored_as"], c["bits"]) for c in found["contestants"]]
    assert read == [("csr", "fp64", 64), ("sell", "e4m3", 8), ("sell", "cpms2", 32), ("sell", "cpms2", 64)]
    assert all(c["least_ms"] <= c["median_ms"] <= c["most_ms"] for c in found["contestants"])
    errors = [c["error"] for c in found["contestants"]]
    assert max(errors[0], errors[2]) < 1e-15 < errors[1] < 1e-6
    sizes = [c["least_bytes"] for c in found["contestants"]]
    assert sizes[1] < sizes[2] < sizes[3]
    (sentence,) = found["refused"].values()
    assert "use cuda" in sentence


def test_table_and_figure_are_made_of_rows(tmp_path):
    (cell,) = config().cells()
    row = {**cell, **product.Context(config()).measure(cell), "status": "ok"}
    program = show_programs()["products"]
    said = []
    out = Output(tmp_path, "products", said.append)
    show._program(program).show(pd.DataFrame([row]), out)
    table = pd.read_csv(tmp_path / "products.csv")
    assert table["times faster"][0] == 1.0
    assert (tmp_path / "products.png").exists()


def test_suites_are_compared_with_their_first_contestant(tmp_path):
    (cell,) = config().cells()
    row = {**cell, **product.Context(config()).measure(cell), "status": "ok", "copy_gbps": 20.0}
    rows = pd.DataFrame([{**row, "experiment": name} for name in ("gpu_suite_a_grids", "gpu_suite_b_grids")])
    show._program(show_programs()["suites"]).show(rows, Output(tmp_path, "suites", lambda _: None))
    table, means = (pd.read_csv(tmp_path / f"suites{suffix}.csv") for suffix in ("", "_means"))
    assert (table["times faster"] > 0.0).all()
    assert means["gpu_suite_a_grids"][0] == 1.0
    assert (tmp_path / "suites.png").exists()


def test_names_of_nothing_are_refused():
    with pytest.raises(ValidationError, match="engine of products 'opencl' is not known"):
        config(contestants=[{"engine": "opencl"}])
    for wrong in ({"storage": "fp17"}, {"layout": "hexagonal"}, {"indices": "16"}):
        with pytest.raises((ValidationError, InputError), match="is not known"):
            config(contestants=[{"engine": "cpu", **wrong}])
    with pytest.raises((ValidationError, InputError), match="side must be given"):
        config(matrices=["stencil:points=7"])
    with pytest.raises(InputError, match="can have 5, 9, 7, 27"):
        stencil(6, 4)
    with pytest.raises(InputError, match="more than"):
        stencil(7, 4000)
