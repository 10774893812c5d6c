"""What ranks with a device each exchange: halos hold what rows read and no more, and no bit depends on the choice."""

from __future__ import annotations

import itertools
from dataclasses import replace

import kernel_catalogue
import mpi_runs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpms.backends.cuda.kernels import template
from cpms.backends.mpi.exchange.exchange_choice import cheaper
from cpms.backends.mpi.exchange.halo import Halo, foreign
from cpms.backends.mpi.shares.rows import of_graph
from cpms.formats.formats import FP16, format_named
from cpms.formats.quantization import quantiser
from cpms.testing import graphs

STORAGES = [FP16, quantiser(format_named("fp16-stochastic"))]
EXCHANGES = [*template.PACKS.values(), *template.REMOTE_STORES.values()]
VARIANTS = [*template.PADDED_CSR, *EXCHANGES, *kernel_catalogue.ranks(STORAGES, personal=False)]


@st.composite
def shared_graphs(draw):
    """A graph, and where the rows of each rank begin: anywhere, so that some have none."""
    graph = draw(graphs(weighted=False))
    inner = draw(st.lists(st.integers(0, graph.nodes), max_size=3))
    return graph, np.array([0, *sorted(inner), graph.nodes])


def share(graph, bounds, rank):
    begin, end = graph.indptr[bounds[rank : rank + 2]]
    indptr = np.clip(graph.indptr, begin, end) - begin
    return replace(of_graph(graph, 0, 1), indptr=indptr, sources=graph.sources[begin:end], bounds=bounds, rank=rank)


@given(shared=shared_graphs())
@settings(max_examples=50)
def test_a_rank_reads_each_foreign_source_of_its_edges_once_and_nothing_else(shared):
    graph, bounds = shared
    for rank, (low, high) in enumerate(itertools.pairwise(bounds.tolist())):
        into = (graph.targets >= low) & (graph.targets < high)
        for other, part in enumerate(foreign(share(graph, bounds, rank))):
            begin, end = bounds[other], bounds[other + 1]
            named = {int(source) for source in graph.sources[into] if begin <= source < end and other != rank}
            assert part.dtype == np.int32
            assert (part + begin).tolist() == sorted(named)


def test_the_exchange_of_fewer_bytes_is_chosen_and_whole_vectors_where_they_are_about_as_many():
    bounds = np.array([0, 2048, 4096, 4100])
    for most, expected in ((0, "halo"), (3072, "halo"), (3073, "whole"), (4096, "whole")):
        assert cheaper(Halo([], [], most), bounds) == expected
    assert cheaper(Halo([], [], 0), np.array([0, 100])) == "halo"


WINDOWS = """
import numpy as np
from cpms.backends.cuda.runtime.current import current
from cpms.backends.mpi.exchange.transport import between
from cpms.backends.mpi.exchange.world import world

me = world()
windows = between(me).windows
assert between(me).windows is windows
kept = [windows.window(1000 * (me.rank + 1)), windows.window(5)]
for window in kept:
    assert len(window.addresses) == me.size and len(set(window.addresses)) == me.size
    assert window.addresses[me.rank] == current().address(window.memory)
    window.memory[:] = 7
seen = {address for window in kept for address in window.addresses}
assert len(seen) == 2 * me.size
# One that a single rank still holds is lent to nobody.
spared = kept.pop() if me.rank == 0 else None
del window, kept
again = [windows.window(1) for _ in range(2)]
assert all(int(current().to_host(window.memory).max()) == 0 for window in again)
lent = [set(window.addresses) <= seen for window in again]
assert lent == [True, False], lent
assert spared is None or not set(spared.addresses) & {address for window in again for address in window.addresses}
me.Barrier()
"""


@pytest.mark.representatives(where=("host", "gpu"), ranks=("2",))
@pytest.mark.parametrize(
    ("where", "ranks"), [("host", 2), ("host", 3), *(pytest.param("gpu", n, marks=pytest.mark.gpu) for n in (2, 4))]
)
def test_windows_are_cleared_and_reused_once_no_rank_has_them(request, where, ranks):
    folder = kernels_or_skip(request, where, ranks)
    code, _, errors = mpi_runs.run(ranks, "-c", WHERE + WINDOWS, where, folder)
    assert code == 0, errors


def kernels_or_skip(request, where, ranks):
    if where == "host":
        return request.getfixturevalue("kernels")
    request.getfixturevalue("gpu_backend")
    if mpi_runs.devices() < ranks:
        pytest.skip(f"there are fewer than {ranks} devices")
    return "-"


WHERE = """
import sys
from contextlib import ExitStack
from pathlib import Path
import numpy as np
import cpms
import kernel_catalogue
from cpms.backends.cuda.kernels import template
from cpms.backends.cuda.runtime.current import using
from cpms.backends.cuda.runtime.host_emulation import HostBackend
from cpms.formats.formats import FP16, format_named
from cpms.backends.mpi.exchange.world import world
from cpms.formats.quantization import quantiser

class Recording(HostBackend):
    # Graphs of launches and exchanges, by what these were given when they were captured.
    made = None

    def capture(self, work):
        self.made = made = []
        try:
            work()
        finally:
            self.made = None
        return Replayed(made)

    def _run(self, *given):
        if self.made is None:
            super()._run(*given)
        else:
            self.made.append(lambda: HostBackend._run(self, *given))

class Replayed:
    replays = 0

    def __init__(self, made):
        self.made = made

    def launch(self):
        Replayed.replays += 1
        for work in self.made:
            work()

emulation = ExitStack()  # until the end
where, folder, *sys.argv[1:] = sys.argv[1:]
if where == "host":
    host = emulation.enter_context(using(Recording(Path(folder))))
    storages = [FP16, quantiser(format_named("fp16-stochastic"))]
    # All at once, as they were built before: for what is not there, ranks would wait.
    exchanges = [*template.PACKS.values(), *template.REMOTE_STORES.values()]
    host.compile([*template.PADDED_CSR, *exchanges, *kernel_catalogue.ranks(storages, personal=False)])
    from cpms.backends.mpi.exchange.transport import ThroughMpi

    swap = ThroughMpi._swap
    def recorded(self, *given):
        if host.made is None:
            swap(self, *given)
        else:
            host.made.append(lambda: swap(self, *given))
    ThroughMpi._swap = recorded
"""

PROBLEMS = """
from cpms.problems.pagerank import Problem

random = np.random.default_rng(7)
nodes = 4400  # blocks of 2048 rows, and a few rows more
ends = random.integers(0, nodes, (2, 5000))
home = np.arange(nodes) // 2048 * 2048
problems = {
    "random": Problem(cpms.Graph.from_edges(*ends, nodes=nodes)),
    "few across": Problem(cpms.Graph.from_edges(
        np.append(np.arange(nodes), [5, 6, 4350, 4350]), np.append(home, [4350, 4350, 5, 2100]), nodes=nodes)),
    "nothing across": Problem(cpms.Graph.from_edges(np.arange(nodes), home + 1, nodes=nodes)),
    "all to one rank": Problem(cpms.Graph.from_edges(np.arange(nodes), np.arange(nodes) % 50, nodes=nodes)),
    "all from one rank": Problem(cpms.Graph.from_edges(np.arange(nodes) % 60, np.arange(nodes), nodes=nodes)),
    "ranks without rows": Problem(cpms.Graph.from_edges([0, 1, 1], [1, 2, 0])),
    "no edges": Problem(cpms.Graph.from_edges([], [], nodes=nodes)),
    "slow": Problem(cpms.load("weblike:nodes=4400,edges=11000,reach=2")),
}
"""

EXCHANGE = """
from cpms.backends.cuda.runtime.current import current
from cpms.backends.mpi.sweeps.device_power import DevicePower
from cpms.backends.mpi.sweeps.device_refinement import DeviceRefinement
from cpms.backends.mpi.sweeps.persistent_ranks import RankPower, RankRefinement
from cpms.backends.mpi.sweeps.device_rows import DeviceRows
from cpms.backends.mpi.exchange.peer_exchange import DirectExchange
from cpms.backends.mpi.exchange.device_vectors import HaloExchange, WholeExchange
from cpms.backends.mpi.exchange.halo import Halo
from cpms.backends.mpi.shares.rows import of_graph
from cpms.backends.mpi.exchange.transport import between
from cpms.solvers.power import power
from cpms.precision.controllers import Fixed
from cpms.precision.refinement_policy import FixedReduction
from cpms.solvers.refine import outer_iteration
from cpms.contracts.stopping import Stopping

def refine_plainly(refinement, first, policy):
    refinement.anderson = False
    _, _, history = outer_iteration(refinement, first, policy, Stopping(1e-6))
    refinement.anderson = True
    return history

me = world()
transport = between(me)
problems = {name: problems[name] for name in sys.argv[2:] or problems}
cache_bytes = current().cache_bytes
kept = {}
for name, problem in problems.items():
    graph = problem.graph
    rows = of_graph(graph, me.rank, me.size)
    halo = Halo.of(rows, me)

    # What a rank sends is what the others read of it.
    of_all = me.allgather(halo.reads)
    for rank, part in enumerate(halo.sends):
        assert part.tolist() == of_all[rank][me.rank].tolist(), (name, rank)
    assert halo.most == max(
        max(sum(len(of_all[reader][rank]) for reader in range(me.size)), sum(map(len, of_all[rank])))
        for rank in range(me.size)
    )

    # One of them as if it were large, whose sweeps have another shape.
    current().cache_bytes = 0 if name == "few across" else cache_bytes
    kinds = {"halo": HaloExchange, "whole": WholeExchange} | ({"direct": DirectExchange} if me.size > 1 else {})
    both = {which: DeviceRows(problem, rows, transport, which) for which in kinds}
    assert all(type(own.exchange) is kinds[which] for which, own in both.items())
    assert {own.shape.threads for own in both.values()} == {384 if name == "few across" else 512}
    assert DeviceRows(problem, rows, transport).exchange.name in (("direct",) if me.size > 1 else both)

    # Every value that rows read is there after an exchange, of any size, and what is behind all is zero.
    for which, own in both.items():
        places = current().to_host(own.exchange.positions(rows))
        read = np.append(np.unique(rows.sources), np.arange(rows.low, rows.high)).astype(int)
        for bits in (8, 16, 32, 64):
            word = np.dtype(f"uint{bits}")
            values = np.random.default_rng(bits).integers(1, 2**min(bits, 62), graph.nodes).astype(word)
            vector = own.exchange.vector(np.uint8, each_bytes=bits // 8)
            mine = np.zeros(own.exchange.part_length, word)
            mine[: rows.high - rows.low] = values[rows.low : rows.high]
            vector.own[:] = current().arrays.asarray(mine.view(np.uint8))
            vector.own_totals[:] = me.rank + 1.0
            before = transport.received_bytes
            own.exchange.queue(vector)
            found = current().to_host(vector.memory).view(word)
            assert (found[places[read]] == values[read]).all(), (name, which, bits)
            assert (found[own.exchange.values :] == 0).all() and len(found) > own.exchange.values
            received_totals = current().to_host(vector.received_totals).reshape(me.size, -1)
            assert (received_totals == np.arange(1.0, me.size + 1)[:, None]).all()
            total_bytes = received_totals.nbytes // me.size * (me.size - 1)
            others = own.exchange.part_length * (me.size - 1) if which == "whole" else sum(map(len, halo.reads))
            assert transport.received_bytes - before == others * bits // 8 + total_bytes, (name, which)

    # Launched or replayed, by either message, solves find the same bits; one after the other, they are alike. Kernels
    # that exchange themselves defer the update of x, and find others.
    for which, own in both.items():
        first = np.full(graph.nodes, 1 / graph.nodes)
        within = which == "direct"
        operator = RankPower.of(problem, own) if within else DevicePower(problem, own)
        refinement = RankRefinement(own) if within else DeviceRefinement(own)
        for turn in range(2):
            before = transport.received_bytes
            ranks, _, history = power(operator, first, Fixed(), Stopping(1e-4))
            kept[f"power {name} {which} {turn}"] = np.append(ranks, [step.residual for step in history])
            kept[f"power bytes {name} {which} {turn}"] = np.array(transport.received_bytes - before)
        replayed = Replayed.replays
        for text in ("fp16", "fp16-stochastic") if name in ("random", "few across") else ("fp16",):
            policy = FixedReduction(quantiser(format_named(text)))
            for turn in range(2):
                before = transport.received_bytes
                ranks, status, history = outer_iteration(refinement, first, policy, Stopping(1e-6))
                assert status.name == "CONVERGED"
                kept[f"{text} {name} {which} {turn}"] = np.append(ranks, [step.residual for step in history])
                kept[f"{text} bytes {name} {which} {turn}"] = np.array(transport.received_bytes - before)
        if name == "slow":
            replayed = Replayed.replays - replayed
            # One rank sends nothing, and may launch or replay.
            assert where != "host" or me.size == 1 or (replayed > 20) == (which != "direct"), (which, replayed)
            assert len(history) < 0.8 * len(refine_plainly(refinement, first, policy))
if where == "host":
    kept["replays"] = np.array(Replayed.replays)
np.savez(f"{sys.argv[1]}/{me.size}_{me.rank}.npz", **kept)
"""


SOME = ("few across", "ranks without rows", "slow")
OTHERS = ("random", "nothing across", "all to one rank", "all from one rank", "no edges")


@pytest.fixture(scope="module")
def kernels(request):
    return mpi_runs.kernels_on_host(request, VARIANTS)


def test_no_problem_is_left_out():
    known = {}
    exec("import cpms\nimport numpy as np\n" + PROBLEMS, known)  # noqa: S102
    assert set(known["problems"]) == {*SOME, *OTHERS}


@pytest.mark.parametrize(
    ("where", "ranks", "names"),
    [
        ("host", 2, SOME),
        pytest.param("host", 2, OTHERS, marks=pytest.mark.slow),
        *(pytest.param("host", n, (), marks=pytest.mark.slow) for n in (1, 3)),
        *(pytest.param("gpu", n, (), marks=pytest.mark.gpu) for n in (1, 2, 4)),
    ],
)
def test_either_exchange_brings_what_rows_read_and_finds_the_same_bits(request, tmp_path, where, ranks, names):
    folder = kernels_or_skip(request, where, ranks)
    code, _, errors = mpi_runs.run(ranks, "-c", WHERE + PROBLEMS + EXCHANGE, where, folder, tmp_path, *names)
    assert code == 0, errors
    found = [dict(np.load(path)) for path in sorted(tmp_path.glob("*.npz"))]
    assert len(found) == ranks
    for kept in found:
        if where == "host":
            assert kept.pop("replays") > 20 or ranks == 1
        for key, values in kept.items():
            if "bytes" in key:
                # Solves are alike, and so is what they are sent.
                assert values == kept[key[:-1] + "0"], key
            else:
                known = found[0][key[:-1].replace("whole", "halo") + "0"]
                assert values.tobytes() == known.tobytes(), key
                messages = found[0][key[:-1].replace("direct", "halo") + "0"]
                assert np.abs(values[:3] - messages[:3]).sum() < 1e-4, key
