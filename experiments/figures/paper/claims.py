"""What the text of the CPMS paper states about its V100, beside the same of recorded rows."""

import numpy as np
import pandas as pd

from cpms.experiment.report.intervals import geometric
from cpms.experiment.report.output import printed, storage_of
from cpms.experiment.report.stand_ins import STAND_INS

NEEDS = ["gpu_spmv", "gpu_speedup", "gpu_speedup_ell"]
ENGINES = {"cuda_thread_rows": "its kernel", "cuda": "ours"}


def show(rows, out):
    rows = rows[(rows.status == "ok") & rows.stand_in_for.notna()]
    if rows.empty:
        out.leave_out("table claims", "the rows hold no stand-in of a graph of the paper")
        return
    found = pd.DataFrame([line for _, row in rows.iterrows() for line in _ratios(row)])
    lines = [_line(claim, found) for claim in printed("claims").itertuples()]
    out.table(
        pd.DataFrame(lines),
        caption="Statements of the paper's text on its V100, and the same of stand-ins of its graphs on "
        f"{rows.gpu.dropna().iloc[0]}, over float64 in the same kernel and layout: geometric mean, and from least to "
        "most over the graphs; its kernel: built here as the paper's, a thread a row; ours: the faster of that and of "
        f"balanced rows. A statement holds by the mean or, of 'never' and 'slower', by all graphs in CSR. {STAND_INS}",
    )


def _ratios(row):
    """Yield the speed-up of each product or solve over float64 of its engine and layout."""
    solves = isinstance(row.get("results"), list)
    if solves and row.tol != 1e-10:
        return
    name = "solve_s" if solves else "median_ms"
    held = row.results if solves else row.contestants
    known = [result for result in held if result.get("status", "ok") == "ok" and result["engine"] in ENGINES]
    layout = {id(result): row.layout if solves else result["layout"] for result in known}
    doubles = {(r["engine"], layout[id(r)]): r[name] for r in known if r["storage"] == "fp64"}
    for result in known:
        place = result["engine"], layout[id(result)]
        if result["storage"] != "fp64" and place in doubles:
            yield {
                "figure": 6 if solves else 4,
                "engine": result["engine"],
                "layout": place[1],
                "storage": storage_of(result),
                "read": result.get("read", np.nan),
                "ratio": doubles[place] / result[name],
            }


def _line(claim, found):
    own = found[(found.figure == claim.figure) & (found.storage == claim.storage)]
    own = own if np.isnan(claim.read) else own[own.read == claim.read]
    line = {"figure": claim.figure, "statement": claim.claim, "V100": _stated(claim)}
    for engine, name in ENGINES.items():
        for layout in ("csr", "ell"):
            ratios = own[(own.engine == engine) & (own.layout == layout)].ratio
            known = geometric(ratios)
            line[f"{name}, {layout.upper()}"] = (
                f"{known['mean']:.2f} ({ratios.min():.2f} to {ratios.max():.2f})" if len(ratios) else ""
            )
        line[f"{name}: holds"] = _holds(claim, own[(own.engine == engine) & (own.layout == "csr")].ratio)
    return line


def _stated(claim):
    if claim.speedup > 0:
        return f"{claim.speedup:g}"
    bounds = [
        f"at least {claim.least:g}" if claim.least > 0 else "",
        f"at most {claim.most:g}" if claim.most > 0 else "",
    ]
    return ", ".join(filter(None, bounds)) or "some below 1"


def _holds(claim, ratios):
    """Return whether a statement holds in CSR: a mean within a tenth, or a bound of all graphs."""
    if ratios.empty:
        return ""
    if claim.speedup > 0:
        return "yes" if abs(geometric(ratios)["mean"] / claim.speedup - 1) <= 0.1 else "no"
    if claim.least > 0:
        return "yes" if ratios.min() >= claim.least else f"no, on {(ratios < claim.least).sum()} of {len(ratios)}"
    if claim.most > 0:
        return "yes" if ratios.max() <= claim.most else f"no, on {(ratios > claim.most).sum()} of {len(ratios)}"
    return "yes" if ratios.min() < 1 else "no"
