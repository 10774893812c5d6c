"""Method ``refine`` whose inner sweeps read the residual in a format that brings its codec."""

from __future__ import annotations

import numpy as np
import pytest

import cpms
from cpms import InputError, UnsupportedError, check, engines
from cpms.formats.quantization import codec_scale
from cpms.precision.refinement_policy import default_inner_reduction
from cpms.problems.pagerank import Problem

NAMES = ("posit16", "mxfp8-e4m3")
GRAPHS = {
    "plain": cpms.generate("uniform:nodes=300,edges=1500,seed=3"),
    "weighted": cpms.Graph.from_edges([0, 1, 2, 2, 3], [1, 2, 0, 3, 0], [1.0, 2.5, 0.1, 3.0, 7.0], nodes=5),
}


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("name", NAMES)
def test_outer_steps_are_sound_and_those_of_the_reference(name, graph):
    problem, storage = Problem(GRAPHS[graph]), cpms.format_named(name)
    start = np.random.default_rng(2).random(problem.graph.nodes)
    found = []
    for engine in (engines.get("cpu"), engines.get("reference")):
        check.refinement_is_sound(engine, problem, storage, low=5)
        refinement = engine.codec_refinement(problem)
        refinement.start(start / start.sum())
        step = refinement.outer_step(storage, inner_reduction=1e-9, tol=1e-300, norm="l1", max_inner=5)
        found.append([step.found.l1, *step.inner_l1])
    # A sum in another order can cross a rounding boundary of the format.
    np.testing.assert_allclose(*found, rtol=4.0 * storage.unit_roundoff(1))


@pytest.mark.parametrize("engine", ["cpu", "reference", "cpu_composed"])
def test_answers_are_certified_and_need_fewer_bits(engine):
    graph = GRAPHS["plain"]
    for name in NAMES:
        result = cpms.pagerank(graph, method="refine", storage=name, engine=engine, tol=1e-12)
        assert result.status is cpms.Status.CONVERGED, name
        check.answer_is_certified(result)
        assert result.history[1].bits == cpms.format_named(name).bits(1)
    policy = cpms.AdaptiveReduction(("fp16", "posit16"))
    assert cpms.pagerank(graph, method="refine", controller=policy, engine=engine).status is cpms.Status.CONVERGED


def test_a_scale_brings_the_largest_value_into_the_range():
    for name in (*NAMES, "gse", "int16", "e4m3fn"):
        storage = cpms.format_named(name)
        for largest in (1e-280, 3e-7, 1.0, 1e200):
            scaled = np.ldexp(largest, codec_scale(storage, largest))
            assert min(storage.max_normal, 2.0**64) / 8 <= scaled <= storage.max_normal
        assert codec_scale(storage, 0.0) == 0
    assert default_inner_reduction(cpms.format_named("posit16")) == default_inner_reduction(cpms.format_named("e7m8"))


def test_roles_that_take_no_such_format_say_which_do():
    graph = GRAPHS["plain"]
    with pytest.raises(UnsupportedError, match="residual in segments or a packed float here, not in posit16; use a"):
        engines.get("cpu").refinement(Problem(graph)).readable(cpms.format_named("posit16"))
    with pytest.raises(UnsupportedError, match="residual in segments or a packed float here, not in posit16"):
        cpms.personalized_pagerank(graph, [[1], [2]], method="refine", storage="posit16", engine="cpu")
    refusal = engines.get_any("cuda").refuses_residual(cpms.format_named("posit16"))
    assert refusal == (
        "method 'refine' of engine cuda reads the residual in segments or a packed float, not in posit16; use engine "
        "cpu or reference, or method 'power'"
    )
    assert engines.get_any("cuda").refuses_residual(cpms.FP16) is None
    with pytest.raises(InputError, match="posit17"):
        cpms.AdaptiveReduction(("posit17",))
