"""Method refine: sound outer steps and certified answers on any graph, against exact solutions and planted faults."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refine_cases import ADVERSARIAL, exact, exact_ranks, solve

from cpms import Graph, Status, check, engines, format_named
from cpms.backends.cpu.refinement import CpuRefinement
from cpms.check.format_laws import LawError
from cpms.cli import main
from cpms.contracts.stopping import Stopping
from cpms.engines.reference import ReferenceRefinement
from cpms.formats.formats import FP16
from cpms.formats.quantization import quantiser
from cpms.precision.refinement_policy import (
    FixedReduction,
)
from cpms.problems.pagerank import Problem
from cpms.problems.personalization import dangling_rule, teleport_distribution
from cpms.solvers.refine import outer_iteration
from cpms.sources import loading
from cpms.testing import distributions, float_formats, graphs

# Engine cpu compiles rounds for each format, for seconds: here each width, either exponent and either rounding.
SOME = ["fp32", "fp16", "e5m2", "cpms4"]
FORMATS = [
    *SOME,
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("cpms4-nearest", "cpms2", "e5m2-zero", "bf16", "e4m3", "cpms2-nearest")
    ),
]


# Laws


@pytest.mark.parametrize("name", FORMATS)
@given(graph=graphs(weighted=False), data=st.data())
@settings(max_examples=25)
def test_outer_steps_are_sound_on_any_graph(engine, name, graph, data):
    teleport = data.draw(st.none() | distributions(graph.nodes))
    rule = data.draw(st.sampled_from(["teleport", "uniform"]))
    problem = Problem(graph, data.draw(st.floats(0.01, 0.99)), teleport, rule)
    check.refinement_is_sound(engine, problem, quantiser(format_named(name)))


@pytest.mark.parametrize("graph", ADVERSARIAL)
@pytest.mark.parametrize("name", FORMATS)
def test_outer_steps_are_sound_on_adversarial_graphs(engine, name, graph):
    check.refinement_is_sound(engine, Problem(ADVERSARIAL[graph]), quantiser(format_named(name)))


@pytest.mark.quick
@given(graph=graphs(weighted=False), storage=float_formats())
@settings(max_examples=100)
def test_outer_steps_are_sound_in_formats_of_any_shape(graph, storage):
    check.refinement_is_sound(engines.get("reference"), Problem(graph), storage)


class Wrong(ReferenceRefinement):
    """Loses mass: dangling nodes keep theirs."""

    def _quantised(self, r, storage, largest):
        return super()._quantised(r, storage, largest) * (1 + 1e-9)


class Leaking(ReferenceRefinement):
    def _gathered(self, contributions):
        return super()._gathered(contributions) * (1 - 1e-9)


class Uncorrected(ReferenceRefinement):
    def outer_step(self, storage, **options):
        found = super().outer_step(storage, **options)
        self._x = self._x * (1 + 1e-12)
        return found


@pytest.mark.quick
@pytest.mark.parametrize(
    ("fault", "said"), [(Leaking, "sum of r|says|mass"), (Uncorrected, "reads back"), (Wrong, None)]
)
def test_the_law_finds_faults(fault, said, monkeypatch):
    reference = engines.get("reference")
    monkeypatch.setattr(type(reference), "refinement", lambda _, problem: fault(problem))
    problem = Problem(ADVERSARIAL["random"])
    if said is None:  # Mass that Q invents is mended by construction: no fault.
        check.refinement_is_sound(reference, problem, FP16)
    else:
        with pytest.raises(LawError, match=said):
            check.refinement_is_sound(reference, problem, FP16)


# Answers


@pytest.mark.representatives(name=("fp32", "e5m2", "cpms4"), graph=("random", "two components"))
@pytest.mark.representatives(name=("fp16",), in_rounds=("True",))
@pytest.mark.parametrize("in_rounds", [False, True])
@pytest.mark.parametrize("graph", ADVERSARIAL)
@pytest.mark.parametrize("name", FORMATS)
def test_the_bound_holds_against_the_exact_solution(engine, name, graph, in_rounds):
    nodes = ADVERSARIAL[graph].nodes
    # From a start that is given no passes are taken, so that low sweeps are where there are changes at all.
    start = np.arange(1.0, nodes + 1) if in_rounds else None
    result = solve(ADVERSARIAL[graph], engine, storage=name, start=start)
    assert result.converged
    assert not in_rounds or len(result.iterations_by_bits) > 1 or nodes == 1
    assert np.abs(result.ranks - exact_ranks(graph)).sum() <= result.error_bound + 1e-13
    check.answer_is_certified(result)


@pytest.mark.representatives(damping=("0.1", "0.99"), graph=("star inwards",), rule=("teleport",))
@pytest.mark.representatives(damping=("0.85",), graph=("two components", "random"))
@pytest.mark.parametrize("graph", ["two components", "star inwards", "random", "isolated nodes"])
@pytest.mark.parametrize("rule", ["teleport", "uniform", {5: 1.0, 0: 3.0}], ids=["teleport", "uniform", "own"])
@pytest.mark.parametrize("damping", [0.1, 0.85, 0.99])
def test_personalised_answers_are_within_their_bound(engine, rule, damping, graph):
    chosen = {0: 1.0, 3: 2.0, 700: 0.5}
    options = {"personalization": chosen, "dangling": rule, "damping": damping}
    result = solve(ADVERSARIAL[graph], engine, max_iterations=5000, **options)
    teleport = teleport_distribution(ADVERSARIAL[graph], chosen)
    right = exact(Problem(ADVERSARIAL[graph], damping, teleport, dangling_rule(ADVERSARIAL[graph], rule)))
    assert result.converged
    assert np.abs(result.ranks - right).sum() <= result.error_bound + 1e-13
    check.answer_is_certified(result, personalization=chosen, dangling=rule)


@pytest.mark.parametrize("name", FORMATS)
@given(graph=graphs(weighted=False), tol=st.sampled_from([1e-2, 1e-6, 1e-10, 1e-13]))
@settings(max_examples=15)
def test_any_graph_is_solved_within_its_bound(engine, name, graph, tol):
    result = solve(graph, engine, storage=name, tol=tol)
    assert result.converged
    assert result.residual_l1 < tol
    assert np.abs(result.ranks - exact(Problem(graph))).sum() <= result.error_bound + 1e-13


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_the_norm_asked_for_decides(engine, norm):
    result = solve(ADVERSARIAL["random"], engine, norm=norm, tol=1e-8)
    assert result.converged
    check.answer_is_certified(result)
    strictest = solve(ADVERSARIAL["random"], engine, tol=1e-8)
    assert norm == "l1" or result.iterations < strictest.iterations


@pytest.mark.parametrize("start", ["one node", "random"])
def test_any_start_leads_to_the_same_answer(engine, start):
    graph = ADVERSARIAL["two components"]
    first = np.eye(graph.nodes)[3] if start == "one node" else np.random.default_rng(1).random(graph.nodes)
    assert np.abs(solve(graph, engine, start=first).ranks - exact(Problem(graph))).sum() < 1e-9


def test_the_command_line_refines(tmp_path, capsys):
    graph = tmp_path / "ring.txt"
    graph.write_text("".join(f"{k} {(k + 1) % 50}\n{k} {k * k % 50}\n" for k in range(50)))
    assert main.main(["rank", str(graph), "--method", "refine", "--storage", "e5m2", "--engine", "cpu", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["method"], report["storage"], report["layout"]) == ("refine", "e5m2", "pattern")
    assert set(report["iterations_by_bits"]) == {"8", "64"}
    assert report["residual_l1"] < 1e-10


# Real graphs: sweeps of Q with a fixed gain, full and low, where float64 power iteration needs ``power``

COUNTS = {
    "web-Google-scc": {"fp32": (3, 107), "fp16": (6, 106), "cpms4-nearest": (10, 102), "cpms4": (13, 121)},
    "web-NotreDame": {"fp32": (3, 113), "fp16": (6, 110), "cpms4-nearest": (10, 106), "cpms4": (13, 127)},
    "wiki-Vote": {"fp32": (3, 28), "fp16": (5, 25), "cpms4-nearest": (8, 24), "cpms4": (9, 25)},
}
GAINS = {"fp32": 1e-5, "fp16": 1e-2, "cpms4-nearest": 0.1, "cpms4": 0.1}


@pytest.mark.representatives(name=("wiki-Vote",))
@pytest.mark.parametrize("name", [pytest.param("web-Google-scc", marks=pytest.mark.slow), "web-NotreDame", "wiki-Vote"])
def test_real_graphs_need_the_sweeps_measured_before(cpms_data, name):
    graph = loading.load(name)
    for storage, (full, low) in COUNTS[name].items():
        policy = FixedReduction(quantiser(format_named(storage)), GAINS[storage])
        refinement, first = CpuRefinement(Problem(graph)), np.full(graph.nodes, 1.0 / graph.nodes)
        refinement.anderson = False
        _, status, history = outer_iteration(refinement, first, policy, Stopping(1e-10, max_iterations=400))
        assert status is Status.CONVERGED
        assert abs(sum(step.bits == 64 for step in history) - full) <= 2
        assert abs(len(history) - (full + low)) <= 5


@pytest.mark.parametrize("graph", [Graph.from_edges([0, 1], [1, 0]), Graph.from_edges([], [], nodes=3)], ids=str)
def test_iterations_go_on_where_nothing_is_left(engine, graph):
    result = solve(graph, engine, iterations=3)
    assert (result.status, result.iterations) == (Status.FIXED, 3)
    assert result.residual_l1 == 0.0
