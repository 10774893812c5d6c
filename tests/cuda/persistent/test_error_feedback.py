"""Outer steps with error feedback against an oracle, emulated on this machine and on a GPU."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import cpms
from cpms import FP16, Graph, format_named
from cpms.backends.cuda.kernels import persistent
from cpms.backends.cuda.kernels.launch_shape import SHAPES, BlockingSizes
from cpms.backends.cuda.persistent import propagation_blocking, tiled_gather
from cpms.backends.cuda.persistent.device_graph import Arrangement
from cpms.backends.cuda.persistent.refinement import CudaRefinement
from cpms.backends.cuda.persistent.strategies import StrategyRequest
from cpms.backends.cuda.reduction import convergence_estimate, reduced_refinement, trimming
from cpms.backends.cuda.runtime import current, host_emulation
from cpms.backends.cuda.spmv import padded_csr
from cpms.check import refinement_is_sound
from cpms.contracts.refinement import OuterRequest
from cpms.contracts.stopping import Stopping
from cpms.engines import cuda_fused
from cpms.engines.reference import round_to_float
from cpms.formats.formats import E4M3, E5M2, FP32
from cpms.formats.quantization import quantiser, shared_scale
from cpms.precision.refinement_policy import (
    AdaptiveReduction,
    FixedReduction,
    InnerPlan,
    RefinementPolicy,
    default_policy,
)
from cpms.problems.pagerank import Problem
from cpms.solvers.refine import outer_iteration

NAMES = ("fp16", "e5m2", "cpms4-nearest", "cpms4", "bf16")
FORMATS = [quantiser(format_named(name)) for name in NAMES]
# Each is compiled for this machine, for seconds.
SOME = [*FORMATS[:3], *(pytest.param(storage, marks=pytest.mark.slow) for storage in FORMATS[3:])]
GRAPHS = {
    "one node": Graph.from_edges([], [], nodes=1),
    "no edges": Graph.from_edges([], [], nodes=700),
    "uniform": cpms.load("uniform:scale=10,edge_factor=12,seed=1"),
    "few edges": cpms.load("uniform:scale=10,edge_factor=2,seed=1"),  # What was sent is settled amid its round.
    "skewed": cpms.load("rmat:scale=10,edge_factor=12,seed=1"),
    "a star": Graph.from_edges(np.arange(1, 4500), np.zeros(4499, int)),
    "a ring": Graph.from_edges(np.arange(2000), (np.arange(2000) + 1) % 2000),
    "many dangling": Graph.from_edges(np.arange(9000) * 7 % 700, np.arange(9000) ** 2 % 2003, nodes=2003),
    "rows that end with steps": Graph.from_edges(np.arange(2048) % 512, np.arange(2048) // 256, nodes=512),
}
DRAWN = np.random.default_rng(3).integers(0, 4000, (2, 3000))
PAIRS = Graph.from_edges(np.append(np.arange(4000), DRAWN[0]), np.append(np.arange(4000) ^ 1, DRAWN[1]), nodes=4000)
SCATTERED = ("uniform", "skewed", "many dangling")
FREE = trimming.Cost(
    level=0.0, narrow_level=0.0, launch=0.0, external_node=0.0, inflow_node=0.0, solve_entry_one_block=0.0
)
LEAST = BlockingSizes(256, 260)
"""Nodes in a range, and groups of a bin; as in test_cuda_deal.py."""
WAYS = {
    "dealt": (
        persistent.ALL_BLOCKED,
        Arrangement(warps=16, request=StrategyRequest(False, False, True, in_cache=False)),
    ),
    "sources": (
        persistent.DIRECT_GATHER,
        Arrangement(warps=24, request=StrategyRequest(*[False] * 4, error_feedback=True)),
    ),
    "hot": (
        persistent.HUB_CACHE_GATHER,
        Arrangement(warps=16, request=StrategyRequest(True, *[False] * 3, error_feedback=True)),
    ),
}
DEALT = WAYS["dealt"][1]
asked = {"inner_reduction": 0.1, "noise_tolerance": 0.0, "tol": 1e-300, "norm": "l1"}
"""Of one round, which goes on below its gain."""


@pytest.fixture(scope="session", autouse=True)
def compiled_together(request):
    if host_emulation.compiler() is not None:
        shapes = {name: SHAPES[wanted.warps] for name, (_, wanted) in WAYS.items()}
        request.getfixturevalue("host_backend").compile(
            [
                persistent.error_feedback(storage, shapes[name], personal=personal, strategy=way)
                for name, (way, _) in WAYS.items()
                for storage in FORMATS[: 2 if name == "dealt" else 1]
                for personal in (False, True)
            ]
        )


@pytest.fixture(params=[LEAST, None], ids=["many bins", "large bins"])
def sizes(request, monkeypatch):
    if request.param:
        monkeypatch.setattr(propagation_blocking, "blocking_sizes", lambda _: request.param)


def both(graph):
    """A plain problem, and one whose nodes differ in what they get; dangling mass goes where teleport does."""
    teleport = np.arange(1.0, graph.nodes + 1)
    return Problem(graph), Problem(graph, 0.6, teleport / teleport.sum())


def uniform(problem):
    return np.full(problem.graph.nodes, 1.0 / problem.graph.nodes)


def carrying(problem, arrangement=DEALT):
    refinement = CudaRefinement.of(problem, arrangement)
    refinement.adaptive = True
    return refinement


class Oracle:
    """What ``pagerank/error_feedback.cuh`` says, line by line, on the list of edges."""

    def __init__(self, problem):
        graph = problem.graph
        self.problem, self.degree = problem, graph.out_degree.astype(float)
        self.out, self.ends = np.maximum(self.degree, 1.0), self.degree == 0
        self.v = problem.teleport_or_scalar * np.ones(graph.nodes)

    def gathered(self, share):
        graph = self.problem.graph
        return np.bincount(graph.targets, weights=share[graph.sources], minlength=graph.nodes)

    def full(self, x):
        damping, x = self.problem.damping, x / x.sum()
        y = damping * (self.gathered(x / self.out) + x[self.ends].sum() * self.v) + (1 - damping) * self.v
        return x, y - x

    def guess(self):
        """The first x, what stays where its rounded value alone is sent, and a bound; a row has a slot at least."""
        damping, slots = self.problem.damping, np.maximum(self.problem.graph.in_degree, 1)
        each, brought = damping / slots.sum(), (1 - damping) * self.v
        most = 1.0 / len(slots) if self.problem.teleport is None else 1.0
        return (brought + each * slots) / self.out, brought / self.out, (1 - damping) * most + each * slots.max()

    def sent(self, share, storage, largest):
        scale = 2.0 ** shared_scale(storage, largest)
        return round_to_float(np.clip(share * scale, -storage.max_finite, storage.max_finite), storage) / scale

    def lows(self, x, to_send, r, storage, largest, count):
        """Return x, and ||r||_1 after each low sweep; `r` is that before, in shares, of what is not in x."""
        damping, found = self.problem.damping, []
        z = self.sent(to_send, storage, largest)
        left, before = r - z, 0.0 if to_send is not r else (r * self.out).sum()
        for _ in range(count):
            x = x + z * self.out
            lost = before - (self.degree * z).sum() - (left * self.out).sum() / damping
            share = (damping * (self.gathered(z) + lost * self.v)) / self.out + left
            z = self.sent(share, storage, largest)
            largest, left = np.abs(share).max(), share - z
            before = (share * self.out).sum()
            found.append(np.abs(share * self.out).sum())
        return x + (z + left) * self.out, found


def follows_the_oracle(problem, refinement, storage):
    oracle = Oracle(problem)
    x = np.random.default_rng(1).dirichlet(np.ones(problem.graph.nodes))
    for count in (3, 20):
        refinement.start(x, from_rounded=False)
        (found,) = refinement.outer_steps(storage, OuterRequest(most=1 + count, **asked))
        x, r = oracle.full(x)
        share = r / oracle.out
        after, expected = oracle.lows(x, share, share, storage, np.abs(share).max(), len(found.inner_l1))
        assert not found.from_rounded
        np.testing.assert_allclose(found.found.l1, np.abs(r).sum(), rtol=1e-9, atol=1e-14)
        # A sum in another order may round a value that lies between two of Q's the other way.
        np.testing.assert_allclose(found.inner_l1, expected, rtol=2 * storage.unit_roundoff(), atol=1e-12)
        np.testing.assert_allclose(found.sums[1:], problem.damping * np.array(found.sums[:-1]), atol=1e-14)
        x = refinement.outer_step(None, inner_reduction=0.1, tol=1e-300, norm="l1", max_inner=0) and refinement.read()
        y = np.maximum(after, 0.0)
        y = y / y.sum() + oracle.full(y)[1]
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=np.abs(r).sum() * 1e-6 + 1e-15)


@pytest.mark.representatives(storage=("e5m2",), name=("skewed",))
@pytest.mark.representatives(storage=("fp16",), name=("one node", "a star"))
@pytest.mark.parametrize("storage", SOME, ids=NAMES)
@pytest.mark.parametrize("name", GRAPHS)
def test_outer_steps_are_those_of_the_oracle(device, sizes, name, storage):
    for problem in both(GRAPHS[name]):
        follows_the_oracle(problem, carrying(problem), storage)


@pytest.mark.representatives(storage=("fp16",))
@pytest.mark.parametrize("storage", FORMATS[:2], ids=NAMES[:2])
@pytest.mark.parametrize("way", list(WAYS)[1:])
def test_outer_steps_of_other_strategies_are_those_of_the_oracle(device, way, storage):
    expected, arrangement = WAYS[way]
    for name in ("skewed", "a star", "one node"):
        for problem in both(GRAPHS[name]):
            refinement = carrying(problem, arrangement)
            assert refinement.graph.strategy_data.strategy == expected
            follows_the_oracle(problem, refinement, storage)


@pytest.mark.parametrize("storage", SOME, ids=NAMES)
@pytest.mark.parametrize("name", SCATTERED)
def test_a_first_x_is_rounded_as_the_oracle_does(device, sizes, name, storage):
    for problem in both(GRAPHS[name]):
        oracle, refinement = Oracle(problem), carrying(problem)
        refinement.start(uniform(problem))
        (made,) = refinement.outer_steps(storage, OuterRequest(most=6, **{**asked, "tol": 1e-9}))
        assert made.from_rounded
        share, brought, bound = oracle.guess()
        x, expected = oracle.lows(0.0, share, brought, storage, bound, 6)
        # Where Q has a value itself, a last digit less is cut to the next one.
        close = storage.unit_roundoff() if storage.rounding == "zero" else 1e-6
        np.testing.assert_allclose([made.found.l1, *made.inner_l1], expected, rtol=close, atol=1e-13)
        np.testing.assert_allclose(made.sums, 0.0, atol=1e-13)
        np.testing.assert_allclose(refinement.read(), np.maximum(x, 0.0), rtol=close)


@pytest.mark.representatives(name=("one node", "skewed", "a star"))
@pytest.mark.parametrize("storage", SOME, ids=NAMES)
@pytest.mark.parametrize("name", GRAPHS)
def test_a_full_sweep_finds_nothing_that_rounding_lost(device, name, storage):
    for problem in both(GRAPHS[name]):
        refinement = carrying(problem)
        refinement.start(np.random.default_rng(2).dirichlet(np.ones(problem.graph.nodes)), from_rounded=False)
        (made,) = refinement.outer_steps(storage, OuterRequest(most=25, **asked))
        mass = refinement.read().sum()  # What is subtracted from r scales x.
        found = refinement.outer_step(None, inner_reduction=0.1, tol=1e-300, norm="l1", max_inner=0).found
        assert mass * found.l1 <= problem.damping * (made.inner_l1[-1] if made.inner_l1 else 0.0) + 1e-15
        assert found.mass == pytest.approx(1.0, abs=1e-14)


class OneRound(CudaRefinement):
    """Whose `outer_step` keeps what rounding loses."""

    def outer_step(self, storage, *, max_inner, **given):
        self.adaptive, self._converges_slowly = True, False
        if storage is None:
            return super().outer_step(storage, max_inner=max_inner, **given)
        return self.outer_steps(storage, OuterRequest(noise_tolerance=0.0, most=1 + max_inner, **given))[0]


@pytest.mark.parametrize("storage", SOME, ids=NAMES)
def test_outer_steps_are_sound(device, monkeypatch, storage):
    monkeypatch.setattr(cuda_fused, "prepared", lambda problem, *_: OneRound.of(problem, DEALT))
    for name in SCATTERED:
        for problem in both(GRAPHS[name]):
            refinement_is_sound(cuda_fused.ENGINE, problem, storage, low=20)


@pytest.mark.representatives(name=("skewed", "a star"))
@pytest.mark.parametrize("formats", [FORMATS[:3], pytest.param(FORMATS, marks=pytest.mark.slow)], ids=["some", "all"])
@pytest.mark.parametrize("name", GRAPHS)
def test_any_format_takes_as_many_sweeps_and_one_full_one(device, name, formats):
    for problem in both(GRAPHS[name]):
        right = cpms.pagerank(
            problem.graph, tol=1e-14, damping=problem.damping, personalization=problem.teleport, engine="cpu"
        ).ranks
        counts = []
        for storage in formats:
            refinement = CudaRefinement.of(problem, DEALT)
            ranks, status, history = outer_iteration(
                refinement, uniform(problem), default_policy(storage), Stopping(1e-10)
            )
            assert status is cpms.Status.CONVERGED
            assert np.abs(ranks / ranks.sum() - right).sum() <= problem.damping / (1 - problem.damping) * 1e-10
            counts.append(len(history))
            if name in SCATTERED:
                assert [step.bits for step in history] == [storage.width] * (len(history) - 1) + [64]
        if name in SCATTERED:  # What is rounded at 8 bits is up to an eighth of what a sweep leaves.
            assert max(counts) - min(counts) <= 2


def test_a_core_does_as_a_whole_graph_does(device, monkeypatch):
    monkeypatch.setattr(cuda_fused.FusedEngine, "missing", lambda _: None)
    monkeypatch.setattr(reduced_refinement, "Cost", lambda: FREE)
    monkeypatch.setattr(reduced_refinement, "_LARGE_EDGES", 0)
    monkeypatch.setattr(device, "cache_bytes", 0)
    monkeypatch.setattr(StrategyRequest, "cut_for_cache", False)
    for module in (tiled_gather, propagation_blocking):
        monkeypatch.setattr(
            module, "is_scattered" if module is propagation_blocking else "is_worthwhile", lambda *_: False
        )
    graph = cpms.load("rmat:scale=11,edge_factor=16,seed=1")
    teleport = np.arange(1.0, graph.nodes + 1)
    for given in (None, teleport):
        right = cpms.pagerank(graph, tol=1e-14, engine="cpu", personalization=given).ranks
        found = cpms.PageRank(graph, method="refine", engine="cuda_fused", solves=1000).solve(personalization=given)
        assert (found.storage, found.iterations_by_bits[64], found.converged) == ("e5m2", 1, True)
        assert found.history[-1].bits == 64
        assert np.abs(found.ranks - right).sum() <= 0.85 / 0.15 * 1e-10


def test_what_converges_slowly_is_swept_otherwise(device):
    problem = Problem(PAIRS)
    refinement = CudaRefinement.of(problem, DEALT)
    found = []
    for _ in range(2):
        ranks, status, history = outer_iteration(refinement, uniform(problem), default_policy(FP16), Stopping(1e-10))
        assert status is cpms.Status.CONVERGED
        bits = [step.bits for step in history]
        assert (bits[0], bits.index(64), bits.count(64) > 1) == (16, 9, True)
        found.append(ranks)
    np.testing.assert_array_equal(*found)
    right = cpms.pagerank(PAIRS, tol=1e-14, engine="cpu").ranks
    assert np.abs(ranks / ranks.sum() - right).sum() <= 0.85 / 0.15 * 1e-10


def test_it_can_be_turned_off(device):
    problem = Problem(GRAPHS["uniform"])
    refinement = CudaRefinement.of(problem, DEALT)
    refinement.error_feedback = False
    _, _, history = outer_iteration(refinement, uniform(problem), default_policy(FP16), Stopping(1e-10))
    assert (history[0].bits, [step.bits for step in history].count(64) > 2) == (64, True)


def test_who_carries(host_backend):
    graph = GRAPHS["uniform"]
    teleport = np.arange(1.0, graph.nodes + 1) / np.arange(1.0, graph.nodes + 1).sum()
    with current.using(host_backend):
        for problem in both(graph):
            for wanted, converges_fast, expected in ((None, False, True), (False, True, False), (True, False, True)):
                arrangement = replace(DEALT, request=DEALT.request._replace(error_feedback=wanted))
                refinement = CudaRefinement.of(problem, arrangement, converges_fast=converges_fast)
                assert refinement.default_residual_format == (E5M2 if expected else None)
            for way, expected in ((True, False), (False, True)):  # Graphs in the cache have no such kernels.
                wanted = StrategyRequest(*[False] * 3, in_cache=way)
                refinement = CudaRefinement.of(problem, Arrangement(warps=16, request=wanted), converges_fast=True)
                assert (refinement.default_residual_format == E5M2) == expected
                assert CudaRefinement.of(problem, Arrangement(warps=16, request=wanted)).default_residual_format is None
        # What is subtracted from r to keep its sum must be what teleport brings.
        assert (
            CudaRefinement.of(Problem(graph, teleport=teleport, dangling="uniform"), DEALT).default_residual_format
            is None
        )


@pytest.mark.parametrize(
    ("name", "expected"), [("uniform", True), ("skewed", True), ("a ring", True), ("a star", False), ("pairs", False)]
)
def test_fast_convergence_is_known_from_a_few_sweeps(device, name, expected):
    graph = PAIRS if name == "pairs" else GRAPHS[name]
    rows = padded_csr.DeviceRows.of(graph)
    assert (
        convergence_estimate.converges_fast(rows.indptr, rows.sources, padded_csr.out_degree(graph), 0.85) == expected
    )


@pytest.mark.parametrize(
    ("storage", "first"), [(FP32, 32), (E4M3, 64)], ids=["wide", "without room for dangling shares"]
)
def test_formats_without_propagation_blocking(device, storage, first):
    problem = Problem(GRAPHS["uniform"])
    refinement = CudaRefinement.of(problem, DEALT)
    _, status, history = outer_iteration(refinement, uniform(problem), default_policy(storage), Stopping(1e-10))
    assert status is cpms.Status.CONVERGED
    assert history[0].bits == first


def test_a_reduction_that_is_fixed_is_kept(device):
    problem = Problem(GRAPHS["uniform"])
    refinement = CudaRefinement.of(problem, DEALT)
    _, status, history = outer_iteration(refinement, uniform(problem), FixedReduction(FP16, 1e-2), Stopping(1e-10))
    assert status is cpms.Status.CONVERGED
    assert sum(step.bits == 64 for step in history) > 3


def test_a_first_x_of_ones_own_is_swept_in_full(device):
    problem = Problem(GRAPHS["uniform"])
    right = cpms.pagerank(problem.graph, tol=1e-14, engine="cpu").ranks
    for first, stopping in (
        (right, Stopping(1e-10)),
        (uniform(problem) * (1 + 1e-6 * (np.arange(problem.graph.nodes) % 2 - 0.5)), Stopping(1e-10)),
        (uniform(problem), Stopping(1e-10, iterations=4)),
        (uniform(problem), Stopping(1e-10, "l2")),
        (uniform(problem), Stopping(1e-10, max_iterations=3)),
    ):
        refinement = CudaRefinement.of(problem, DEALT)
        _, _, history = outer_iteration(refinement, first, default_policy(FP16), stopping)
        assert history[0].bits == 64
    assert len(outer_iteration(refinement, right, default_policy(FP16), Stopping(1e-10))[2]) == 1


class WideFirst(RefinementPolicy):
    """A round in a format that is not dealt, then others, a launch each."""

    noise_tolerance = 0.0

    def init(self):
        return InnerPlan(FP32, 1e-3), None

    def update(self, *_):
        return InnerPlan(FP16, 1e-3), None


def test_what_another_format_found_is_added(device):
    problem = Problem(GRAPHS["skewed"])
    refinement = CudaRefinement.of(problem, DEALT)
    ranks, status, history = outer_iteration(refinement, uniform(problem), WideFirst(), Stopping(1e-10))
    assert status is cpms.Status.CONVERGED
    assert [step.bits for step in history if step.bits != 64][-1] == 16
    full = [step.residual for step in history if step.bits == 64]
    assert full[1] <= 0.01 * full[0]
    right = cpms.pagerank(problem.graph, tol=1e-14, engine="cpu").ranks
    assert np.abs(ranks / ranks.sum() - right).sum() <= 0.85 / 0.15 * 1e-10


def test_a_solve_takes_the_narrowest_format_by_default(host_backend, monkeypatch):
    monkeypatch.setattr(cuda_fused, "prepared", lambda problem, *_: CudaRefinement.of(problem, DEALT))
    monkeypatch.setattr(cuda_fused.FusedEngine, "missing", lambda _: None)
    solve = partial(cpms.pagerank, GRAPHS["uniform"], method="refine", engine="cuda_fused")
    with current.using(host_backend):
        found = solve()
        assert (found.storage, found.iterations_by_bits[64], found.converged) == ("e5m2", 1, True)
        assert solve(storage="fp16").storage == "fp16"
        given = solve(controller=AdaptiveReduction((FP16,)))
        assert given.storage == "fp16"


@pytest.mark.gpu
def test_large_graphs(gpu_backend):
    graphs = {
        "uniform": cpms.load("uniform:scale=19,edge_factor=16,seed=1"),
        "few edges": cpms.load("uniform:nodes=1000000,edges=4000000,seed=1"),
        "skewed": cpms.load("rmat:scale=18,edge_factor=12,seed=1"),
    }
    with current.using(gpu_backend):
        for graph in graphs.values():
            problem = Problem(graph)
            right = cpms.pagerank(graph, tol=1e-13, engine="cuda").ranks
            for storage in (FP16, E5M2):
                solves = []
                for _ in range(2):
                    refinement = CudaRefinement.of(problem, DEALT)
                    ranks, status, history = outer_iteration(
                        refinement, uniform(problem), default_policy(storage), Stopping(1e-10)
                    )
                    assert status is cpms.Status.CONVERGED
                    assert [step.bits for step in history].count(64) == 1
                    solves.append(ranks)
                np.testing.assert_array_equal(*solves)
                assert np.abs(ranks / ranks.sum() - right).sum() <= 0.85 / 0.15 * 1e-10
