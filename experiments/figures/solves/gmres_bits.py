"""Bases of GMRES: iterations over float64's against the mean bits that are read of a value, by matrix."""

import numpy as np
import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.captions import ends, shortened
from cpms.experiment.report.output import printed
from cpms.experiment.report.page import labels

NEEDS = ["gmres_bits", "gmres_bits_held", "gmres_bits_poisson"]
NAMED = {"gmres_bits": "listed", "gmres_bits_held": "held out", "gmres_bits_poisson": "7-point Poisson"}
LIMITS = {"bytes": 40, "blocks": 28}
MOST = 1.1
NEAR, FAR = 0.01, 0.15
"""Shares of iterations up to which a system is a tick, since most would hide each other, and by which it is named."""
TICK = {"color": panels.NEUTRAL, "markersize": 6, "markeredgewidth": 0.6, "linestyle": ""}
OF_POISSON = {"bytes": 36, "blocks": 24}
MOST_OF_POISSON = 1.07


def show(rows, out):
    table = pd.DataFrame([line for _, row in rows[rows.status == "ok"].iterrows() for line in _lines(row)])
    of_basis = "GMRES(100): iterations and mean bits read of a basis value, by the basis"
    left_out = _left_out(table)
    out.table(table, caption=of_basis, timed=False)
    held = table[table.comparable & (table.basis != "fp64")]
    means = [
        {
            "basis": basis,
            "matrices": named,
            "systems": len(part),
            "iterations over float64's, geometric mean": float(np.exp(np.log(part["over float64"]).mean())),
            "mean bits": part["mean bits"].mean(),
            "bits allowed": (OF_POISSON if named == NAMED["gmres_bits_poisson"] else LIMITS).get(basis),
            "iterations allowed": MOST_OF_POISSON if named == NAMED["gmres_bits_poisson"] else MOST,
        }
        for (named, basis), part in held.groupby(["matrices", "basis"], sort=False)
    ]
    of_means = f"Means over the systems that both solve{left_out}"
    out.table(pd.DataFrame(means), suffix="_means", caption=of_means, timed=False)
    out.table(
        _beside_ginkgo(table[table.matrices == NAMED["gmres_bits_poisson"]]),
        suffix="_poisson",
        caption="GMRES(100) on the 7-point Laplacian of 64^3 nodes, b of ones: iterations, bits of a basis value "
        "(ours: mean bits read), and iterations over those of the program's own float64 basis. Ginkgo's were counted "
        "by a program outside this repository: fp64 is its plain GMRES, the others have a compressed basis, keep in "
        "float64",
        of=["gmres_bits_poisson"],
        timed=False,
    )
    out.figure(
        _figure(held, out),
        caption="GMRES(100) with a basis of few bits: iterations over those with a float64 basis. A mark is a system "
        f"that both solve{left_out}: a tick within {100 * NEAR:g} % of 1, above the line, or below it if its matrix "
        f"was held out; else a circle, hollow if held out, and named beyond {100 * FAR:g} %. Bytes: as many whole "
        "bytes of a basis value are read as the residual asks for; blocks: of values that share exponents",
        alt=_in_words(held),
        timed=False,
    )


def _beside_ginkgo(ours):
    """Return the iterations on the Poisson problem by program and basis."""
    found = [
        of.assign(program=program)[["program", "basis", "bits", "iterations"]]
        for program, of in (("cpms", ours.rename(columns={"mean bits": "bits"})), ("Ginkgo", printed("ginkgo")))
    ]
    both = pd.concat(found, ignore_index=True)
    of_double = both[both.basis == "fp64"].set_index("program").iterations
    return both.assign(**{"over its float64": both.iterations / both.program.map(of_double)})


def _left_out(table):
    """Return how many systems one of both bases does not solve, and of these float64's, as a text in brackets."""
    systems = ["matrix", "right-hand side"]
    missed = table[~table.comparable].drop_duplicates(systems)
    solved = table[(table.basis == "fp64") & (table.status == "CONVERGED")].merge(missed[systems], on=systems)
    of_double = f"of which float64 solves {len(solved)}" if len(solved) else "which float64 does not solve either"
    return f" (left out: {len(missed)} of {len(table.drop_duplicates(systems))}, {of_double})" if len(missed) else ""


def _in_words(held):
    """Return the marks of each panel in words."""
    texts = []
    for basis, part in held.groupby("basis", sort=False):
        near = (part["over float64"] - 1).abs() <= NEAR
        far = part[~near].assign(matrix=[*map(shortened, part[~near].matrix)])
        extremes = ends(far, "over float64", ["matrix", "right-hand side"], "iterations", drawn="circles")
        texts.append(f"{basis}: {near.sum()} ticks at 1; {extremes}")
    return "Iterations over float64's against mean bits read of a basis value. " + " ".join(texts)


def _figure(held, out):
    """Draw a panel a basis: most systems take as many iterations as in float64, and would hide each other in one."""
    from matplotlib.markers import TICKDOWN, TICKUP

    above, below = ({**TICK, "marker": marker} for marker in (TICKUP, TICKDOWN))
    bases, at = list(dict.fromkeys(held.basis)), ["mean bits", "over float64"]
    figure, axes = panels.grid(
        out.width, len(bases), 2.2 if out.double else 1.9, columns=(1, 2), sharex=True, sharey=True
    )
    for panel, basis in zip(axes, bases, strict=True):
        part = held[held.basis == basis]
        for _, line in part.iterrows():
            filled = line.matrices != NAMED["gmres_bits_held"]
            bits = line["mean bits"]
            near = abs(line["over float64"] - 1) <= NEAR
            if near:
                panel.plot(bits, 1.0, **(above if filled else below))
            else:
                panels.point(panel, bits, line["over float64"], None, filled=filled, size=3.2)
        panels.unity(panel, across=True)
        panel.margins(y=0.1)
        panel.set_title(basis)
    figure.supxlabel("mean bits read of a basis value")
    figure.supylabel("iterations over float64's")
    is_held, is_near = held.matrices == NAMED["gmres_bits_held"], (held["over float64"] - 1).abs() <= NEAR
    looks = {
        "not held out": (panels.FILLED, ~is_held & ~is_near),
        f"not held out, within {100 * NEAR:g} %": (above, ~is_held & is_near),
        "held out": (panels.HOLLOW, is_held & ~is_near),
        f"held out, within {100 * NEAR:g} %": (below, is_held & is_near),
    }
    panels.legend(figure, panels.key(lines={name: style for name, (style, some) in looks.items() if some.any()}))
    sides = held.groupby("matrix")["right-hand side"].nunique()
    for panel, basis in zip(axes, bases, strict=True):
        part = held[held.basis == basis]
        far = part[(part["over float64"] - 1).abs() > FAR]
        names = [
            f"{name}, {rhs}" if sides[matrix] > 1 else name
            for name, matrix, rhs in zip(
                out.names(map(shortened, far.matrix)), far.matrix, far["right-hand side"], strict=True
            )
        ]
        labels.place(panel, names, [*far[at].to_numpy(float)[:, None]], others=part[at], all_or_none=False)
    return figure


def _lines(row):
    first = row.ways_found[0]
    for way in row.ways_found:
        both = first["status"] == way["status"] == "CONVERGED"
        yield {
            "matrices": NAMED.get(row.experiment, row.experiment),
            "matrix": row.graph,
            "right-hand side": row.rhs,
            "unknowns": row.rows,
            "basis": " ".join(way["vectors"]),
            "status": way["status"],
            "iterations": way["iterations"],
            "over float64": way["iterations"] / max(1, first["iterations"]),
            "mean bits": way["mean_bits"],
            "comparable": both,
        }
