"""Kernels of an iteration of conjugate gradients and of GMRES on a GPU: shares of a copy's bandwidth, each alone."""

from cpms.experiment.pages.numbers import spread
from cpms.experiment.report.solve_tables import HELD_OUT

_OF_CG = ("product", "curvature", "update", "direction", "solution", "iteration")
_OF_GMRES = ("product", "dots", "coefficients", "combination", "store", "iteration")
_ONCE_IN_EIGHT = "solution"
"""The pass that takes the directions of eight iterations."""
_BASES = {
    "fp64": "basis in float64",
    "bfp32": "basis in block floats of 32 bits",
    "bytes": "basis in byte segments",
    "blocks": "basis in layers of block floats",
}


def kernels_of_cg(rows):
    """Yield shares of a copy's bandwidth of the kernels of an iteration, each timed alone, and of their sum."""
    ways = [("fp64", "fp64", "plain float64")]
    ways += [("auto", each, f"lossless values, vectors in {each}") for each in ("fp64", "fp32", "bfp16")]
    yield from _shares(rows, "gpu_cg_kernels", "cg.kernels", "conjugate gradients", _OF_CG, ways, "cg_kernels")


def kernels_of_gmres(rows):
    """Yield the same of a step of GMRES(100) after fifty steps."""
    ways = [("auto", vectors, called) for vectors, called in _BASES.items()]
    shown = "gpu_gmres_kernels"
    yield from _shares(rows, shown, "gmres.kernels", "GMRES after 50 steps", _OF_GMRES, ways, shown)


def _shares(rows, experiment, key, method, stages, ways, shown):
    every = rows.measured(experiment)
    for prefix, note, is_held in ((key, "", False), (f"{key}.held", ", held out", True)):
        cells = [row for row in every if row["graph"].startswith(HELD_OUT[experiment]) is is_held]
        for storage, vectors, stored in ways:
            shares = [(row, _kernel_shares(row, storage, vectors)) for row in cells]
            for stage in stages:
                found = [(row, each[stage]) for row, each in shares if stage in each]
                if not found or (is_held and stage != "iteration"):
                    continue
                chosen, values = zip(*found, strict=True)
                matrices = f"{len(values)} {'matrix' if len(values) == 1 else 'matrices'}{note}"
                called = "kernels of an iteration" if stage == "iteration" else f"{stage} alone"
                what = f"{method}, {called}, {stored}: least bytes over time, share of a copy, {matrices}"
                of = "mean" if len(values) > 1 else "median"
                yield spread(f"{prefix}.{storage}.{vectors}.{stage}", what, "%", values, chosen, shown, of=of)


def _kernel_shares(row, storage, vectors):
    """Return the share of a copy of each kernel of a way in percent, and that of all with an eighth of the solution."""
    kernels = [each for each in row["contestants"] if (each["storage"], each["vectors"]) == (storage, vectors)]
    weights = [0.125 if each["stage"] == _ONCE_IN_EIGHT else 1.0 for each in kernels]
    moved, took_ms = (
        sum(weight * each[key] for weight, each in zip(weights, kernels, strict=True))
        for key in ("least_bytes", "median_ms")
    )
    rates = {each["stage"]: each["bandwidth_gbps"] for each in kernels}
    rates |= {"iteration": moved / took_ms / 1e6} if kernels else {}
    return {stage: 100.0 * rate / row["copy_gbps"] for stage, rate in rates.items()}


NUMBERS = [kernels_of_cg, kernels_of_gmres]
