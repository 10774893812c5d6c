"""Linear systems: iterations, bytes and times by way; residuals against iterations and bytes, coloured by bits."""

import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.captions import three_digits
from cpms.experiment.report.output import shortened
from cpms.experiment.report.palette import colour

NEEDS = ["linear_cpu", "linear_gpu"]
MARKS = "osD^vP*"
BY_NUMBER = ", by number"
"""The end of the name of a way that reads which row of a few each row is, in place of its entries."""
DASHES = ["-", (0, (5, 1.5)), (0, (2.5, 1.2)), (0, (1, 1))]
"""Of the curves of a panel, so that those below others are seen."""
LOGARITHMIC = 8.0
"""Quotient of the bytes of the ways from which on their axis is logarithmic: beside the most, few would not be seen."""


def show(rows, out):
    rows = rows[rows.status == "ok"]
    table = pd.DataFrame([line for _, row in rows.iterrows() for line in _lines(row)])
    out.table(
        table,
        caption="Linear systems: what each way takes to the same certified residual; GB read: by all iterations, with "
        "the residuals in float64 between them, which the curves leave out; SciPy counts none. Times faster: than the "
        f"first way of a system{_wrong(table)}"
        + (". SciPy uses one thread" if (table.engine == "scipy").any() else "")
        + _search(rows),
        best={"solve ms": "least by matrix,right-hand side"},
        among=("solves that converged", table.status == "CONVERGED"),
    )
    for experiment, here in rows.groupby("experiment", sort=False):
        of_gpu = "_gpu" if experiment.endswith("gpu") else ""
        is_alike = any(_drawn(row) != row.ways_found for _, row in here.iterrows())
        alike = ". The format that auto chose, fp32, gives the same curve" if is_alike else ""
        repeated = _by_number(here)
        for along, suffix, of in (
            ("iteration", "", "iterations"),
            ("GB read", "_bytes", "the bytes of matrix and vectors that iterations read"),
        ):
            curves = _curves(here, along, repeated if suffix else set())
            wide = along != "iteration" and any(map(_wide, curves.values()))
            whole = "from the first iteration on; it may rise at first"
            start = "on logarithmic axes without the first iterations" if wide else whole
            of_matrix = "how the matrix is read" if suffix and repeated else "of the matrix"
            out.figure(
                _figure(here, out, along, curves),
                suffix=f"{of_gpu}{suffix}",
                caption=f"Conjugate gradients to {here.tol.iloc[0]:g}: residual relative to the right-hand side, as "
                f"the recurrence has it, against {of}, {start}. A panel is a stencil of so many points on a grid of "
                "that side, and a right-hand side. A curve is one run, in the colour of the fewest bits of a vector's "
                f"value; its mark names the formats of vectors and {of_matrix}{_coincide(curves)}"
                f"{_exact(here, curves)}{alike}"
                f"{_repeating(repeated, curves) + ('' if of_gpu else _decoded(curves)) if suffix else ''}",
                alt=_in_words(curves, along),
                timed=False,
                of=[experiment],
            )


def _wrong(table):
    """Return on which systems the residual of the first way is above the tolerance, as a text for a caption."""
    first = table.drop_duplicates(["matrix", "right-hand side"])
    wrong = [f"{shortened(line.matrix)} {line[2]}" for line in first.itertuples() if line.status == "WRONG"]
    return f", whose residual is above the tolerance on {' and '.join(wrong)}" if wrong else ""


def _by_number(rows):
    """Return the ways that read as many bytes a row of every matrix: rows that repeat, by their number."""
    found = {}
    for _, row in rows.iterrows():
        for way in _drawn(row):
            if way["history"]:
                found.setdefault(_way(way), {})[row.entries / row.rows] = way["history"][0][3] / row.rows
    return {
        way
        for way, each in found.items()
        if max(each) > 1.5 * min(each) and max(each.values()) < 1.01 * min(each.values())
    }


def _search(rows):
    """Return how long solves on a GPU look for rows that repeat, as a sentence behind others; empty where unknown.

    That is the time until the first step of a solve with a lossless matrix.
    """
    ways = [way for found in rows.ways_found for way in found if way["engine"] == "cuda" and way.get("step_s")]
    until = sorted(1e3 * way["step_s"][0] for way in ways if way["storage"] == "auto")
    if not until:
        return ""
    return (
        ". On a GPU each call finds the rows of a lossless matrix that repeat before its first step, within the time "
        f"of the solve ({until[0]:.0f} to {until[-1]:.0f} ms where steps were timed); in table gpu_cg_time they are "
        "found once"
    )


def _repeating(repeated, curves):
    """Return a sentence on the matrices whose rows are read by number; empty without any."""
    if not repeated:
        return ""
    names = {curve["name"] for each in curves.values() for curve in each}
    others = sorted(name for name in names if not name.endswith(BY_NUMBER))
    entries = f"; iterations in {' and '.join(others)} read all entries" if others else ""
    number = "two bytes that say which row it is are read in place of a row's entries"
    return f". Rows of these grids repeat{BY_NUMBER.replace(',', ';')}: {number}{entries}"


def _decoded(curves):
    """Return what processors move besides vectors in block floats, as a sentence; empty without these."""
    blocks = sorted({curve["name"].split(",")[0] for each in curves.values() for curve in each} & {"bfp16", "bfp24"})
    moved = "the direction is moved as decoded, too, and the product with the matrix in float32"
    return f". In {' and '.join(blocks)}, {moved}" if blocks else ""


def _coincide(curves):
    """Return which curves lie on each other in all panels, as a phrase: their values agree to 1 %."""
    pairs = {}
    for each in curves.values():
        for place, one in enumerate(each):
            for other in each[place + 1 :]:
                ends_of = [(c["x"][-1], len(c["x"]), c["y"][len(c["y"]) // 2]) for c in (one, other)]
                alike = all(abs(a - b) <= 0.01 * abs(a) for a, b in zip(*ends_of, strict=True))
                pairs.setdefault((one["name"], other["name"]), []).append(alike)
    same = [pair for pair, alike in pairs.items() if all(alike)]
    return "".join(f"; {one} and {other} give one curve" for one, other in same)


def _exact(rows, curves):
    """Return which formats in the names of curves hold all entries of the matrices, as a sentence; empty without any.

    Storage that is chosen holds all entries, so that the system is the same. For fp32 alone this may not hold.
    """
    names = {curve["name"] for each in curves.values() for curve in each}
    ways = [way for _, row in rows.iterrows() for way in _drawn(row) if _way(way) in names]
    formats = {way["stored_as"] for way in ways if way["stored_as"] not in ("fp32", "fp64")}
    asked = {way["stored_as"] for way in ways if way["storage"] != "auto"}
    found = sorted(formats - asked)
    return f". Entries of these matrices are exact in {' and '.join(found)}" if found else ""


def _curves(rows, along, repeated):
    """Return the curves of each panel, by its title: name, bits, residuals, and iterations or bytes."""
    found = {}
    for _, row in rows.iterrows():
        each = found[f"{shortened(row.graph)} {row.rhs}"] = []
        for way in _drawn(row):
            steps = pd.DataFrame(way["history"], columns=["iteration", "residual", "bits", "bytes"])
            if steps.empty:
                continue
            steps["GB read"] = (steps.bytes * steps.iteration.diff().fillna(steps.iteration)).cumsum() / 1e9
            name = _way(way)
            name = f"{name.split(',')[0]}{BY_NUMBER}" if name in repeated else name
            each.append({"name": name, "bits": int(steps.bits.min()), "x": [*steps[along]], "y": [*steps.residual]})
    return found


def _in_words(curves, along):
    """Return where the curves of each panel end, in words."""
    unit = " GB" if along == "GB read" else ""
    texts = []
    for title, each in curves.items():
        ends_of = sorted((curve["x"][-1], curve["name"]) for curve in each)
        first, last = (f"{three_digits(at)}{unit} ({name})" for at, name in (ends_of[0], ends_of[-1]))
        texts.append(f"{title}: {len(each)} curves, which end from {first} to {last}.")
    return f"Relative residual against {along}, {len(curves)} panels of falling curves. {' '.join(texts)}"


def _figure(rows, out, along, curves):
    figure, axes = panels.grid(out.width, len(rows), 1.85, columns=(2, 4), sharey=True)
    names = list(dict.fromkeys(curve["name"] for each in curves.values() for curve in each))
    marks = {name: MARKS[place % len(MARKS)] for place, name in enumerate(names)}
    wide = any(_wide(each) for each in curves.values()) and along != "iteration"
    for panel, (title, each) in zip(axes, curves.items(), strict=True):
        for place, curve in enumerate(each):
            dashes = DASHES[place % len(DASHES)]
            panel.plot(curve["x"], curve["y"], color=colour(curve["bits"]), linewidth=0.9, linestyle=dashes, zorder=1)
            level = 10.0 ** (-2 - 8 * names.index(curve["name"]) / len(names))
            at = next((k for k, residual in enumerate(curve["y"]) if residual <= level), len(curve["y"]) - 1)
            style = {"ms": 4.5, "color": colour(curve["bits"]), "mfc": "white", "mew": 0.8}
            panel.plot(curve["x"][at], curve["y"][at], marks[curve["name"]], **style)
        panel.set_title(title, fontsize=7)
        if wide:
            panels.logarithmic(panel, most=5)
            panel.set_xlim(left=min(curve["x"][-1] for curve in each) / 30)
        else:
            panel.set_xlim(left=0)
            last = max((curve["x"][-1] for curve in each), default=0)
            panel.locator_params(axis="x", nbins=5 if last < 1000 else 4, steps=[1, 2, 5, 10])
        if panel.get_subplotspec().is_last_row():
            panel.set_xlabel(along)
    panels.logarithmic(axes[0], "y")
    figure.supylabel("relative residual")
    bits = {curve["bits"] for each in curves.values() for curve in each}
    panels.legend(figure, panels.key(bits, lines={name: {**panels.HOLLOW, "marker": marks[name]} for name in marks}))
    return figure


def _wide(curves):
    """Return whether the bytes of some curve of a panel are many times those of another."""
    ends_of = [curve["x"][-1] for curve in curves]
    return bool(ends_of) and max(ends_of) > LOGARITHMIC * min(ends_of)


def _drawn(row):
    """Return the ways of a row without auto, where it is the one in fp32."""
    other = [way["history"] for way in row.ways_found if way["vectors"] == ["fp32"]]
    return [way for way in row.ways_found if way["method"] != "auto" or way["history"] not in other]


def _way(way):
    """Return the name of a way: whose it is, and the formats of vectors and matrix."""
    vectors = "SciPy" if way["engine"] == "scipy" else "auto" if way["method"] == "auto" else " ".join(way["vectors"])
    return f"{vectors}, matrix {way['stored_as']}"


def _lines(row):
    first = row.ways_found[0]
    for way in row.ways_found:
        yield {
            "matrix": row.graph,
            "right-hand side": row.rhs,
            "method": way["used"],
            "engine": way["engine"],
            "storage": way["stored_as"],
            "vectors": "fp64" if way["engine"] == "scipy" else " ".join(way["vectors"]),
            "status": way["status"],
            "iterations": way["iterations"],
            "residual": way["residual"],
            "GB read": way["bytes_read"] / 1e9 or float("nan"),
            "solve ms": 1e3 * way["solve_s"],
            "times faster": first["solve_s"] / way["solve_s"] if way["solve_s"] else 1.0,
        }
