"""Ablations of whole solves: error feedback and the estimate of convergence, each turned off by a key."""

import json

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from cpms import engines, load
from cpms.backends.cuda.persistent.strategies import StrategyRequest
from cpms.backends.cuda.reduction import convergence_estimate, reduced_refinement
from cpms.backends.cuda.runtime.current import current
from cpms.base.package_data import folder
from cpms.certify.residual import residual
from cpms.experiment import config
from cpms.experiment.report import show
from cpms.experiment.solver_specs import Contestant, Solver
from cpms.problems.pagerank import Problem

SWITCHES = ("error_feedback", "convergence_estimate")


def contestant(**switches):
    return Contestant(engine="cuda_fused", method="refine", storage="auto", **switches)


@pytest.fixture
def estimates(fused_engine, monkeypatch):
    """Prepare small graphs as large ones, on the engine of the fixture; the list of the estimates made."""
    monkeypatch.setattr(engines, "get", lambda _: fused_engine)
    monkeypatch.setattr(StrategyRequest, "cut_for_cache", property(lambda _: False))
    for limit in ("_LARGE_EDGES", "_MANY_EDGES", "_ESTIMATE_EDGES"):
        monkeypatch.setattr(reduced_refinement, limit, 0)
    made, converges_fast = [], convergence_estimate.converges_fast
    monkeypatch.setattr(
        convergence_estimate, "converges_fast", lambda *given: made.append(converges_fast(*given)) or made[-1]
    )
    return made


@pytest.mark.slow
def test_each_part_of_a_solve_can_be_left_out(estimates):
    problem = Problem(load("uniform:scale=9,edge_factor=16,seed=1"))
    solver = Solver(problem, "none", layout="pattern", tol=1e-10)
    solver._initial_guesses[True] = current().arrays.asarray(solver._initial_guesses[False])
    chosen, unfed, unestimated = (
        solver.solve(contestant(**dict.fromkeys(off, False))) for off in ((), SWITCHES[:1], SWITCHES[1:])
    )
    assert estimates == [True]  # The second is prepared with the first, the third without an estimate.
    assert (min(chosen.bits), min(unfed.bits), min(unestimated.bits)) == (8, 16, 16)
    for solved in (chosen, unfed, unestimated):
        assert residual(problem, solved.ranks / solved.ranks.sum()) < 1.1e-10


def test_estimates_are_those_of_one_engine():
    with pytest.raises(ValidationError, match="only method refine of engine cuda_fused estimates convergence"):
        Contestant(engine="cpu", method="refine", storage="fp16", convergence_estimate=False)


def test_cells_without_these_keys_keep_their_names():
    cell = contestant().parameters()
    assert not cell.keys() & set(SWITCHES)
    assert contestant(error_feedback=False).parameters() == {**cell, "error_feedback": False}


@pytest.mark.slow
def test_the_experiment_is_drawn_beside_the_levers_of_sweeps(tmp_path):
    recorded = folder("experiments") / "results"
    for name in ("gpu_cached", "gpu_merged"):
        (tmp_path / f"{name}.jsonl").write_bytes((recorded / f"{name}.jsonl").read_bytes())
    cell = config.read(folder("experiments") / "configs" / "refine" / "gpu_levers.toml").cells()[0]
    like = json.loads((recorded / "gpu_refine.jsonl").read_text().splitlines()[0])
    results = [
        {**given, "status": "ok", "bits": [8], "solve_s": seconds, "solve_samples_s": 3 * [seconds]}
        for given, seconds in zip(cell["contestants"], (0.001, 0.002, 0.0015), strict=True)
    ]
    row = {**like, "experiment": "gpu_levers", "results": results}
    (tmp_path / "gpu_levers.jsonl").write_text(json.dumps(row) + "\n")
    show.show("levers", results=tmp_path, output=tmp_path / "out")
    table = pd.read_csv(tmp_path / "out" / "levers_solves.csv")
    np.testing.assert_allclose(table["times faster"], [2.0, 1.5])
    assert (tmp_path / "out" / "levers_error_feedback.svg").exists()
