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
from cpms.experiment.report.palette import NEUTRAL, colour
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
    assert found["host_copy_gbps"] > 0
    assert "copy_gbps" not in found


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


def product_of(engine, layout, storage, ms, size, vectors="fp64", **more):
    """Return a contestant of a row of so many milliseconds and bytes."""
    times = {"median_ms": ms, "least_ms": 0.9 * ms, "most_ms": 1.1 * ms, "least_bytes": size, "error": 0.0, "bits": 16}
    return (
        {"engine": engine, "layout": layout, "storage": storage, "vectors": vectors, "read": 1, "stored_as": storage}
        | times
        | more
    )


def test_suites_are_compared_with_their_targets(tmp_path):
    of_gpu = [
        product_of("cusparse", "csr", "fp64", 8.0, 100e6),
        product_of("cuda", "csr", "fp64", 5.0, 100e6),
        product_of("cuda", "sell", "fp64", 4.0, 80e6),
        product_of("cuda", "sell", "fp32", 2.0, 50e6),
        product_of("cuda", "sell", "fp16-scaled", 2.0, 20e6),
        product_of("cuda", "sell", "fp16-scaled", 1.0, 18e6, "fp32"),
        product_of("cuda", "sell", "lossless", 1.6, 10e6),
        product_of("cusparse", "sell", "fp16", 3.0, 20e6, "fp16"),
    ]
    slower = [
        {**c, "median_ms": 2 * c["median_ms"]} if c["layout"] == "csr" and c["engine"] == "cuda" else c for c in of_gpu
    ]
    row = {"status": "ok", "copy_gbps": 20.0, "experiment": "gpu_suite_a_grids"}
    rows = [
        {**row, "graph": "stencil:points=7,side=9", "contestants": of_gpu},
        {**row, "graph": "banded:rows=9", "contestants": slower},
        {**row, "graph": "rmat:scale=9", "contestants": of_gpu, "experiment": "gpu_suite_b_irregular"},
    ]
    on_cpu = [
        product_of("scipy", "csr", "fp64", 3.0, 1e6),
        product_of("cpu", "csr", "fp64", 3.0, 1e6),
        product_of("cpu", "sell", "fp64", 1.5, 1e6),
        product_of("cpu", "sell", "cpms4-planes", 1.5, 1e6),
        product_of("cpu", "sell", "cpms4-planes", 1.4, 1e6, read=2),
    ]
    beside = pd.DataFrame([{"status": "ok", "graph": "x", "contestants": on_cpu}])
    show._program(show_programs()["suites"]).show(
        pd.DataFrame(rows), Output(tmp_path, "suites", lambda _: None), beside
    )
    table, means, targets = (pd.read_csv(tmp_path / f"suites{suffix}.csv") for suffix in ("", "_means", "_targets"))
    assert (table["times faster"] > 0.0).all()
    assert means["A, grids"][0] == 1.0
    assert (tmp_path / "suites.png").exists()
    found = {(line["of"], line["measured"]): line for line in targets.to_dict("records")}
    each = found["A: all", "float64 in CSR, times cuSPARSE"]
    assert (each["least"], each["most"], each["least on"]) == (0.8, 1.6, "banded:rows=9")
    assert not each["met"]
    expected = {
        ("A: all", "float64 in the best layout, times cuSPARSE"): (2.0, True),
        ("A: all", "32 bits in SELL, of the bytes' ratio"): (1.25, True),
        ("A: all", "16 bits in SELL, of the bytes' ratio"): (0.5, False),
        ("A: stencils", "16 bits, of copy bandwidth"): (0.5, False),
        ("A: stencils", "16 bits, vectors in float32, of copy bandwidth"): (0.9, True),
        ("A: stencils", "few bits, times cuSPARSE"): (5.0, True),
        ("A: stencils", "few bits, vectors in float32, times cuSPARSE"): (8.0, True),
        ("B: graphs", "few bits, times cuSPARSE"): (5.0, True),
        ("two threads", "float64 in the best layout, times SciPy"): (2.0, True),
        ("two threads", "16-bit planes in SELL, times float64 in SELL"): (1.0, False),
    }
    for key, (mean, met) in expected.items():
        assert found[key]["mean"] == pytest.approx(mean), key
        assert found[key]["met"] in (met, str(met)), key
    assert found["A: all", "16 bits, vectors in float32, times cuSPARSE's SELL in FP16"]["mean"] == pytest.approx(3.0)
    assert ("A: finite elements", "few bits, times cuSPARSE") not in found
    caption = (tmp_path / "suites_targets.md").read_text()
    assert "PackSELL's authors state up to 1.63 times cuSPARSE's SELL in FP16" in caption


@pytest.mark.parametrize(("stored", "bits"), [(("codes8", "fp64"), (8, 64)), (("e4m3", "e4m3"), (8, 8))])
def test_formats_that_are_chosen_are_stated_and_several_have_no_colour(tmp_path, monkeypatch, stored, bits):
    rows = [
        {
            "status": "ok", "copy_gbps": 20.0, "experiment": "gpu_suite_a_grids", "graph": f"stencil:points={place}",
            "contestants": [
                product_of("cusparse", "csr", "fp64", 8.0, 100e6, bits=64),
                product_of("cuda", "sell", "lossless", 2.0, 10e6, stored_as=stored[place], bits=bits[place]),
            ],
        }
        for place in range(2)
    ]  # fmt: skip
    made, said = [], []
    monkeypatch.setattr(Output, "figure", lambda _, figure, **_more: made.append(figure))
    monkeypatch.setattr(Output, "table", lambda _, _table, caption, **_more: said.append(caption))
    out = Output(tmp_path, "suites", lambda _: None)
    show._program(show_programs()["suites"]).show(pd.DataFrame(rows), out, pd.DataFrame())
    [figure] = made
    assert all(f"{name} ({stored.count(name)})" in said[1] for name in stored)
    means = [line.get_color() for line in figure.axes[0].lines if line.get_marker() == "D"]
    assert means == [colour(8) if len(set(bits)) == 1 else NEUTRAL]


def test_matrices_whose_baseline_is_wrong_are_left_out_and_stated(tmp_path, monkeypatch):
    row = {"status": "ok", "copy_gbps": 20.0, "experiment": "gpu_suite_a_irregular"}
    given = [
        product_of("cusparse", "csr", "fp64", 8.0, 100e6, error=326.0),
        product_of("cuda", "csr", "fp64", 4.0, 100e6),
        product_of("cusparse", "sell", "fp16", 1.0, 20e6, "fp16"),
    ]
    right = [{**given[0], "error": 0.0}, *given[1:]]
    rows = [{**row, "graph": "web-a", "contestants": given}, {**row, "graph": "web-b", "contestants": right}]
    made = []
    monkeypatch.setattr(Output, "figure", lambda _, figure, **more: made.append((figure, more)))
    suites = show._program(show_programs()["suites"])
    suites.show(pd.DataFrame(rows), Output(tmp_path, "suites", lambda _: None), pd.DataFrame())
    [(figure, more)] = made
    drawn = [ratio for line in figure.axes[0].lines if line.get_marker() == "o" for ratio in line.get_xdata()]
    assert sorted(drawn) == [2.0, 8.0]
    assert "web-a by cuSPARSE, CSR, 64/64" in (tmp_path / "suites_targets.md").read_text()
    assert more["of"] == suites.NEEDS


def test_baselines_are_no_engines():
    given = [{"engine": "scipy"}, {"engine": "cpu"}]
    (cell,) = config(contestants=given).cells()
    found = product.Context(config(contestants=given)).measure(cell)
    first = found["contestants"][0]
    assert (first["engine"], first["error"]) == ("scipy", 0.0)
    for wrong in ({"engine": "scipy", "layout": "sell"}, {"engine": "cpu", "vectors": "fp16"}):
        with pytest.raises(ValidationError, match=r"fp64 alone|are for engine"):
            config(contestants=[wrong])


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
    with pytest.raises(InputError, match="give 1 to 512"):
        stencil(7, 4000)
