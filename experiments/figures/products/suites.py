"""Products on the suites of matrices: times faster than cuSPARSE's best CSR, and the share of copy bandwidth."""

import pandas as pd

from cpms.experiment.report import panels
from cpms.experiment.report.intervals import geometric
from cpms.experiment.report.output import printed
from cpms.experiment.report.speedup_figures import OF_MEANS, looks_of_means, mean_rows
from cpms.experiment.rows.products import FAMILIES, fastest, is_product

NEEDS = [f"gpu_suite_{suite}_{part}" for suite in "ab" for part in ("grids", "irregular")]
BESIDE = ["cpu_product"]
BASELINE = "cuSPARSE's fastest algorithm in CSR"
BITS = {"fp64": 64, "fp32": 32, "fp16": 16, "fp16-scaled": 16}
"""The bits by which products are named."""
SELL, CSR = ("cuda", ("sell",)), ("cuda", ("csr",))


def show(rows, out, beside):
    rows, beside = (each[each.status == "ok"] if len(each) else each for each in (rows, beside))
    wrong = [f"{row.graph} by {_name(c)}" for _, row in rows.iterrows() for c in row.contestants if not is_product(c)]
    without = f". Left out, since their products are wrong: {', '.join(wrong)}" if wrong else ""
    packsell = printed("packsell").set_index("what").times["most"]
    out.table(
        pd.DataFrame(_targets(rows, beside)),
        caption="Targets of products, over the matrices of a suite: geometric mean, least and most, and the median of "
        f"the samples' most over least. On processors the baseline is SciPy, on one thread, on a GPU "
        f"cuSPARSE. PackSELL's authors state up to {packsell:g} times cuSPARSE's SELL in FP16{without}",
        suffix="_targets",
    )
    table = pd.DataFrame([line for _, row in rows.iterrows() for line in _lines(row)])
    out.table(
        table.drop(columns=["bits", "family", "held out"]),
        best={"ms": "least by suite,matrix"},
        of=NEEDS,
        caption=f"Products on suites A and B: times faster than {BASELINE}; named by layout, and bits of values and of "
        f"vectors{_choices(table)}",
    )
    table = table.dropna(subset="times faster")
    summary = table.pivot_table("times faster", "product", "suite", aggfunc=_mean, sort=False)
    out.table(
        summary.reset_index().rename_axis(columns=None),
        caption="Geometric means of times faster, by suite",
        of=NEEDS,
        suffix="_means",
        best=dict.fromkeys(summary, "most"),
    )
    drawn = table[table["product"] != "cuSPARSE, CSR, 64/64"].rename(columns={"product": "name"})
    out.figure(
        _figure(drawn, out),
        caption=f"Products of sparse matrices and vectors, times faster than {BASELINE} in float64. A row is a layout "
        "with the bits of values / of vectors; lossless is the shortest format that holds all values of a matrix. "
        "Diamonds: geometric means, in the colour of the bits of values, grey where these differ by matrix; "
        f"{OF_MEANS}. Dots above a row are matrices of suite A, hollow ones below it of B, on which no kernel was "
        "tuned. Wrong products are left out: in brackets the number of matrices of a mean that has fewer than its "
        f"panel{_none(drawn)}. Axes differ",
        of=NEEDS,
    )


def _none(drawn):
    """Return which products have no matrix of a suite and family at all, as a text for a caption."""
    cases = drawn.drop_duplicates(["family", "held out"])[["family", "held out"]].itertuples(index=False)
    lacking = [
        f"{name} on {family} of {'B' if held_out else 'A'}"
        for family, held_out in cases
        for name in sorted(
            set(drawn.name) - set(drawn.name[(drawn.family == family) & (drawn["held out"] == held_out)])
        )
    ]
    return f"; without any: {'; '.join(lacking)}" if lacking else ""


def _choices(table):
    """Return as what each suite's matrices are stored where the format is chosen for each, as a text for a caption."""
    chosen = table[table["product"].str.contains("lossless")].drop_duplicates(["suite", "matrix"])
    texts = [
        f"{suite}: " + ", ".join(f"{name} ({count})" for name, count in part["stored as"].value_counts().items())
        for suite, part in chosen.groupby("suite", sort=False)
    ]
    return f". Lossless is the shortest format that holds all values of a matrix: {'; '.join(texts)}" if texts else ""


def _targets(rows, beside):
    """Yield a line a target and suite: the measured ratios, and whether the target's own statistic meets it."""
    for suite in "ab":
        part = [row for _, row in rows.iterrows() if row.experiment.startswith(f"gpu_suite_{suite}_")]
        for name, family, ratio, statistic, target in TARGETS:
            of_family = [row for row in part if row.graph.startswith(FAMILIES.get(family, ""))]
            yield from _line_of(f"{suite.upper()}: {family}", name, of_family, ratio, statistic, target)
    on_cpu = [row for _, row in beside.iterrows()]
    for name, ratio, target in ON_PROCESSORS:
        yield from _line_of("two threads", name, on_cpu, ratio, "mean", target)


def _line_of(of, name, rows, ratio, statistic, target):
    found = {row.graph: value for row in rows if (value := ratio(row)) is not None}
    if found:
        least, most = min(found, key=found.get), max(found, key=found.get)
        values = {"mean": _mean(list(found.values())), "least": found[least]}
        spreads = [c["most_ms"] / c["least_ms"] for row in rows for c in row.contestants]
        met = {} if target is None else {"target": target, "in the": statistic, "met": values[statistic] >= target}
        yield {
            "of": of,
            "measured": name,
            "matrices": len(found),
            **values,
            "most": found[most],
            "least on": least,
            "spread of samples": float(pd.Series(spreads).median()),
            **{"target": None, "in the": "", "met": ""} | met,
        }


def _faster(first, *others):
    """Return how many times faster than ``first`` the fastest of the others is, all given as `fastest` takes them."""

    def ratio(row):
        base, own = fastest(row, *first), [c for c in (fastest(row, *other) for other in others) if c]
        return base["median_ms"] / min(c["median_ms"] for c in own) if base and own else None

    return ratio


def _of_bytes(storage):
    """Return the time that few bits save over that of float64 in the same layout, as a share of the bytes' ratio."""

    def ratio(row):
        base, own = fastest(row, *SELL, ("fp64",), "fp64"), fastest(row, *SELL, (storage,), "fp64")
        if not (base and own):
            return None
        return base["median_ms"] / own["median_ms"] / (base["least_bytes"] / own["least_bytes"])

    return ratio


def _of_copy(vectors):
    def share(row):
        own = fastest(row, *SELL, ("fp16-scaled",), vectors)
        return own and own["least_bytes"] / own["median_ms"] / 1e6 / row.copy_gbps

    return share


VENDOR = ("cusparse", ("csr",), ("fp64",), "fp64")
HALF = ("cusparse", ("sell",), ("fp16",), "fp16")
OWN = [(*layout, ("fp64",), "fp64") for layout in (CSR, SELL)]
FEW = {vectors: (*SELL, ("lossless", "fp16-scaled"), vectors) for vectors in ("fp64", "fp32")}
FEW_IN_ANY = [FEW["fp64"], (*CSR, ("fp16-scaled",), "fp64")]
TARGETS = [
    ("float64 in CSR, times cuSPARSE", "all", _faster(VENDOR, OWN[0]), "least", 1.0),
    ("float64 in the best layout, times cuSPARSE", "all", _faster(VENDOR, *OWN), "mean", 1.3),
    ("32 bits in SELL, of the bytes' ratio", "all", _of_bytes("fp32"), "mean", 0.92),
    ("16 bits in SELL, of the bytes' ratio", "all", _of_bytes("fp16-scaled"), "mean", 0.92),
    ("16 bits, of copy bandwidth", "stencils", _of_copy("fp64"), "mean", 0.85),
    ("16 bits, vectors in float32, of copy bandwidth", "stencils", _of_copy("fp32"), "mean", 0.75),
    ("few bits, times cuSPARSE", "stencils", _faster(VENDOR, FEW["fp64"]), "mean", 3.2),
    ("few bits, vectors in float32, times cuSPARSE", "stencils", _faster(VENDOR, FEW["fp32"]), "mean", 3.8),
    ("few bits, times cuSPARSE", "finite elements", _faster(VENDOR, FEW["fp64"]), "mean", 1.5),
    ("few bits, times cuSPARSE", "graphs", _faster(VENDOR, *FEW_IN_ANY), "mean", 1.15),
    (
        "16 bits, vectors in float32, times cuSPARSE's SELL in FP16",
        "all",
        _faster(HALF, (*SELL, ("fp16-scaled",), "fp32")),
        "mean",
        None,
    ),
]
"""What is measured, on which matrices, how, in which statistic, and the least that it should be."""
ON_PROCESSORS = [
    (
        "float64 in the best layout, times SciPy",
        _faster(("scipy", ("csr",), ("fp64",), "fp64"), ("cpu", ("csr", "sell"), ("fp64",), "fp64")),
        1.5,
    ),
    (
        "16-bit planes in SELL, times float64 in SELL",
        _faster(("cpu", ("sell",), ("fp64",), "fp64"), ("cpu", ("sell",), ("cpms4-planes",), "fp64", 1)),
        1.3,
    ),
]


def _mean(ratios):
    return geometric(ratios)["mean"]


def _figure(table, out):
    families = list(dict.fromkeys(table.family))
    names = sorted(dict.fromkeys(table.name), key=lambda name: not name.startswith("CSR"))
    figure, axes = panels.grid(
        out.width, len(families), panels.rows_height(names, 0.185, 0.72), columns=(1, 3), sharey=True
    )
    for panel, family in zip(axes, families, strict=True):
        part = table[table.family == family]
        mean_rows(panel, part, names)
        counts = part.groupby("held out").matrix.nunique()
        for (name, held_out), found in part.groupby(["name", "held out"]):
            if len(found) < counts[held_out]:
                at = geometric(found["times faster"])["mean"], names.index(name) + (0.12 if held_out else -0.12)
                style = {"textcoords": "offset points", "va": "center", "fontsize": 7}
                panel.annotate(f"({len(found)})", at, (5, 0), **style)
        over = "" if out.double else " than cuSPARSE in CSR"
        panel.set(title=f"{family}: {_counted(counts)}", xlabel=f"times faster{over}")
    panels.legend(figure, panels.key(table.bits, lines=looks_of_means("A", "B")))
    return figure


def _counted(counts):
    return ", ".join(f"{count} in {'B' if held_out else 'A'}" for held_out, count in counts.items())


def _family(matrix):
    """Return the family of a matrix; the grids are stencils, elasticity, convection and bands."""
    found = (family for family, beginnings in FAMILIES.items() if matrix.startswith(beginnings))
    return next((family for family in found if family != "stencils"), "grids")


def _suite(experiment):
    """Return the name of a suite's part: ``gpu_suite_a_grids`` is suite A, grids."""
    suite, _, part = experiment.removeprefix("gpu_suite_").partition("_")
    return f"{suite.upper()}, {part}"


def _name(contestant):
    """Return the name of a product: layout, and the bits of values and of vectors."""
    values, vectors = (BITS.get(contestant[key], contestant[key]) for key in ("storage", "vectors"))
    vendor = "cuSPARSE, " if contestant["engine"] == "cusparse" else ""
    return f"{vendor}{contestant['layout'].upper()}, {values}/{vectors}"


def _lines(row):
    base = fastest(row, *VENDOR)
    for c in filter(is_product, row.contestants):
        gbps = c["least_bytes"] / c["median_ms"] / 1e6
        yield {
            "suite": _suite(row.experiment),
            "family": _family(row.graph),
            "held out": row.experiment.startswith("gpu_suite_b"),
            "matrix": row.graph,
            "product": _name(c),
            "stored as": c["stored_as"],
            "ms": c["median_ms"],
            "least ms": c["least_ms"],
            "most ms": c["most_ms"],
            "times faster": base["median_ms"] / c["median_ms"] if base else float("nan"),
            "of copy bandwidth": gbps / row.copy_gbps,
            "bits": c["bits"],
            "error": c["error"],
        }
