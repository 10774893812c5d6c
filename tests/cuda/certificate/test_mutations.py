"""A fault planted in any sweep kernel leaves answers that the certificate in device memory refuses."""

import shutil

import numpy as np
import pytest

import cpms
from cpms import Graph
from cpms.backends.cuda import device_engine
from cpms.backends.cuda.kernels import source
from cpms.backends.cuda.persistent import device_graph
from cpms.backends.cuda.persistent.device_graph import Arrangement
from cpms.backends.cuda.persistent.strategies import StrategyRequest
from cpms.backends.cuda.reduction import reduced_refinement, trimming
from cpms.backends.cuda.runtime import current
from cpms.certify.certificate import Certifier
from cpms.engines import cuda_fused

STREAMED = StrategyRequest(False, False, False, in_cache=False)
IN_CACHE = STREAMED._replace(in_cache=True)
FEEDBACK = STREAMED._replace(error_feedback=True)
DAMPING = ("pagerank/sweep_epilogues.cuh", "nodes.damping * to_mass_one,", "0.99 * nodes.damping * to_mass_one,")
SHARED = ("sum += workspace.open_sums", "sum += 0.5 * workspace.open_sums")
PUBLISHED = ("edges.carry_out.publish(range, rows.carry)", "edges.carry_out.publish(range, 0.5 * rows.carry)")
LEVELS = ("const double y = fma(levels.damping, sum", "const double y = fma(0.99 * levels.damping, sum")
COMPOSED = ("epilogue.row_factor * sum + plus", "0.99 * epilogue.row_factor * sum + plus")
FAULTS = {
    "float64 sweeps": ("cuda_fused", "power", IN_CACHE, *DAMPING),
    "residual sweeps": ("cuda", "refine", IN_CACHE, *DAMPING),
    "residual sweeps with error feedback": ("cuda", "refine", FEEDBACK, *DAMPING),
    "sums in the cache": ("cuda_fused", "power", IN_CACHE, "persistent/segmented_sum_in_cache.cuh", *SHARED),
    "streamed sums": ("cuda_fused", "power", STREAMED, "persistent/segmented_sum.cuh", *PUBLISHED),
    "substitution": ("cuda", "refine", None, "preprocess/level_solve.cu", *LEVELS),
    "composed sweeps": ("cuda", "power", None, "spmv/epilogue.cuh", *COMPOSED),
}


def graph_with_a_tail():
    """Random edges with a hub, so that rows span warps, and a path that trimming removes."""
    random = np.random.default_rng(7)
    sources, targets = random.integers(0, 300, 3000), random.integers(0, 300, 3000)
    targets[::4] = 5
    path = np.arange(300, 340)
    return Graph.from_edges(np.append(sources, path[:-1]), np.append(targets, path[1:]), nodes=340)


FREE = (
    *("level", "narrow_level", "launch", "solve_entry", "solve_entry_one_block"),
    *("external_node", "inflow_node", "teleport_node"),
)
"""Costs without which all that can be trimmed is."""
QUICK = ("sums in the cache", "composed sweeps")
CASES = [pytest.param(fault, marks=() if fault in QUICK else pytest.mark.slow) for fault in (None, *FAULTS)]


@pytest.mark.representatives(fault=("composed sweeps",))
@pytest.mark.parametrize("fault", CASES)
def test_a_fault_in_a_sweep_is_found(host_backend, tmp_path, monkeypatch, fault):
    _, *kinds = dict.fromkeys((engine, method, request) for engine, method, request, *_ in FAULTS.values())
    folder, backend = tmp_path / "cuda", host_backend
    if fault is not None:
        *kind, file, given, planted = FAULTS[fault]
        kinds, backend = [kind], type(host_backend)(host_backend._folder)
        shutil.copytree(source.folder(), folder)
        text = (folder / file).read_text()
        assert given in text
        (folder / file).write_text(text.replace(given, planted))
        monkeypatch.setattr(source, "folder", lambda: folder)
    monkeypatch.setattr(device_engine, "missing", lambda: None)
    free = trimming.Cost(**dict.fromkeys(FREE, 0.0))
    is_below, verdicts = Certifier.is_below_tolerance, []
    monkeypatch.setattr(
        Certifier, "is_below_tolerance", lambda *given: verdicts.append(is_below(*given)) or verdicts[-1]
    )
    for engine, method, request in kinds:
        verdicts.clear()
        with monkeypatch.context() as patch, current.using(backend):
            if request is None:
                patch.setattr(reduced_refinement, "Cost", lambda: free)
            for module in (reduced_refinement, cuda_fused):
                arrangement = device_graph.DEFAULT if request is None else Arrangement(request=request)
                patch.setattr(module, "arrangement_for", lambda *_, made=arrangement: made)
            solves = 1 if request is not None else 1000
            with cpms.PageRank(graph_with_a_tail(), engine=engine, method=method, solves=solves) as prepared:
                found = prepared.solve(tol=1e-9, max_iterations=120)
        # Refused, unless the solver's own residual shows that it does not converge.
        assert verdicts[:1] == ([True] if fault is None else [False]) or (fault and not verdicts), found
        # Sweeps over all nodes mend what substitution got wrong.
        assert found.converged == (fault in (None, "substitution"))
