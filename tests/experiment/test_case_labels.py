"""Labels of cases: one graph has one label in all figures of an experiment, which no other graph of it has."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from one_drawing import drawn_alone

from cpms.experiment.report.observations import observations
from cpms.experiment.report.page.case_labels import case_labels, graph_labels
from cpms.experiment.report.show import styled
from cpms.experiment.report.style import WIDTHS
from cpms.experiment.report.templates import TEMPLATES
from cpms.experiment.rows import rows

RESULTS = Path(__file__).parents[2] / "experiments" / "results"
PARTS = st.lists(st.sampled_from(["nodes=20", "edges=9000", "edges=9001", "seed=1", "seed=2", "points=7"]), max_size=4)
NAMES = st.builds(
    lambda kind, parts, purpose: kind + ":" * bool(parts) + ",".join(parts) + purpose,
    st.sampled_from(["uniform", "rmat", "standin", "rmat 20"]),
    PARTS,
    st.sampled_from(["", ", H200"]),
)


@given(st.lists(NAMES, max_size=8))
def test_graphs_have_labels_of_their_own(graphs):
    labels = graph_labels(graphs)
    assert labels.keys() == {*graphs}
    assert len({*labels.values()}) == len(labels)


@given(st.lists(NAMES, min_size=1, max_size=8, unique=True), st.integers(12, 60))
def test_labels_that_are_abbreviated_have_room_for_their_difference(graphs, most):
    labels = [*graph_labels(graphs).values()]
    found = case_labels([(label, "") for label in labels], most)
    assert all(len(label) <= most for label in found)
    if most >= max(map(len, labels)):
        assert found == labels


@pytest.mark.parametrize("names", [["soil", "rock", "plate"], ["measurement1", "measurement2", "measurement3"]])
@pytest.mark.parametrize("name", ["time", "roofline"])
def test_panels_of_files_have_titles_of_their_own(name, names):
    rows_of_files = [
        {"experiment": "mine", "status": "ok", "cell": f"{graph} {method}", "graph": f"matrices/{graph}.npz"}
        | {"method": f"file.py:with_a_long_name_{method}", "solve_s": 1.0, "bytes_read": 1e9, "host_copy_gbps": 9.0}
        | {"cpu": "a", "kind": "product"}
        for graph in names
        for method in "abc"
    ]
    drawn = drawn_alone(rows_of_files, name)
    titles = [axes.get_title().replace("\n", "") for axes in drawn.figure.axes]
    assert len({*titles}) == len(titles) == len(names)
    assert not any("matrices" in title for title in titles)


@pytest.mark.parametrize("path", sorted(RESULTS.glob("**/*.jsonl")), ids=lambda path: path.stem)
def test_recorded_graphs_have_labels_of_their_own(path):
    graphs: list[Hashable] = list(dict.fromkeys(row.get("graph") for row in rows.read(path)))
    labels = graph_labels(graphs)
    assert len({*filter(None, labels.values())}) == sum(isinstance(graph, str) for graph in graphs)


@pytest.mark.representatives(name=("time", "error"))
@pytest.mark.parametrize("name", ["time", "traffic", "error", "roofline"])
def test_a_figure_of_a_part_of_the_graphs_has_the_labels_of_all(name):
    graphs = [f"uniform:nodes={nodes},edges=5000000" for nodes in (400000, 450000)]
    found = observations(
        {"cell": f"{graph} {bits}", "experiment": "mine", "status": "ok", "graph": graph, "storage": f"fp{bits}"}
        | {"solve_s": 1.0 / bits, "bytes_read": 1e9 * bits, "error_l1": 1.0 / bits, "host_copy_gbps": 9.0, "cpu": "a"}
        for graph in graphs
        for bits in (16, 32, 64)
    )
    part = found[found.graph == graphs[1]].reset_index(drop=True)
    labels = ["uniform, 5M edges nodes=400000", "uniform, 5M edges nodes=450000"]
    with styled():
        drawn = {
            width: {axes.get_title().replace("\n", " ") for axes in made[0].figure.axes}
            for width, inches in WIDTHS.items()
            for shown in (found, part)
            if (made := TEMPLATES[name](shown, inches, None)) and len(shown) == len(found)
        }
        alone = TEMPLATES["traffic"](part, WIDTHS["single"], None)
    assert drawn == {width: {*labels} for width in WIDTHS}
    assert [axes.get_title() for axes in alone[0].axes] == labels[1:]
