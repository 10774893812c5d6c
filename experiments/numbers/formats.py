"""Products, conversions and power iteration in the paper's formats."""

from cpms.experiment.pages.numbers import counted, ratio, spread
from cpms.experiment.report.output import label, printed

LARGE_MESHES = ("europe_osm", "road_usa", "adaptive", "hugebubbles-00020", "delaunay_n22", "rgg_n_2_24_s0")


def whole_solves(rows):
    """Yield power iteration in the formats against float64 in the same kernels, by kernel and tolerance."""
    for engine, called in (("cuda", "ours"), ("cuda_thread_rows", "the paper's kernel")):
        for storage in ("cpms2", "cpms4"):
            for tol, text in ((1e-10, "1e-10"), (1e-4, "1e-4")):
                pairs, held = [], []
                for row in rows.measured("gpu_speedup", layout="csr", tol=tol):
                    found = {
                        result["storage"]: result["solve_samples_s"]
                        for result in row["results"]
                        if result["status"] == "ok" and result["engine"] == engine and not result.get("most_read")
                    }
                    if {"fp64", storage} <= found.keys():
                        pairs.append((found["fp64"], found[storage]))
                        held.append(row)
                what = f"`{storage}` against float64, whole solves to {text}, {called}, {len(pairs)} stand-ins in CSR"
                yield ratio(f"rule.{engine}.{storage}.{text}", what, pairs, held, "fig6")


def on_a_v100(rows):
    """Yield what the authors print for their V100, in CSR to 1e-10."""
    del rows
    printed_there = printed("v100")
    for storage in ("cpms2", "cpms4"):
        pairs = [([each.total_fp64_ms], [each[f"total_{storage}_ms"]]) for _, each in printed_there.iterrows()]
        what = f"`{storage}` against float64, whole solves to 1e-10, the authors' V100, as printed"
        yield ratio(f"v100.{storage}", what, pairs, [], "fig6")


def products(rows):
    """Yield products that read few bits against float64 in the same layout, on large meshes and roads."""
    for storage, bits in (("cpms4", 16), ("cpms2", 32)):
        values, held = [], {}
        for row in rows.measured("gpu_spmv"):
            if row["stand_in_for"] not in LARGE_MESHES:
                continue
            own = {c["layout"]: c for c in row["contestants"] if (c["engine"], c["storage"]) == ("cuda", "fp64")}
            for c in row["contestants"]:
                is_wanted = (c["engine"], c["storage"], c["bits"]) == ("cuda", storage, bits)
                if is_wanted and c["layout"] in ("csr", "ell") and c["layout"] in own:
                    values.append(own[c["layout"]]["median_ms"] / c["median_ms"])
                    held[row["cell"]] = row
        where = f"{len(held)} products in CSR or ELL with large meshes and roads"
        what = f"reading {bits} bits of `{storage}` against float64, {where}"
        yield spread(f"product.{bits}", what, "times", values, held.values(), "fig4", of="mean")


def conversions(rows):
    """Yield the share of the copy bandwidth that conversion in place reaches, in blocks and of whole planes."""
    for experiment, called in (("gpu_conversion", "on a GPU"), ("conversion_cpu", "on two threads")):
        for kind, is_plane in (("in blocks", False), ("of whole planes", True)):
            held = [row for row in rows.measured(experiment) if ("planes" in row["storage"]) == is_plane]
            shares = [100 * row[f"{way}_gbps"] / row["copy_gbps"] for row in held for way in ("convert", "restore")]
            what = f"conversion in place {called}, {kind}, least share of copy bandwidth, {len(held)} formats"
            key = f"conversion.{'gpu' if 'gpu' in experiment else 'cpu'}.{'planes' if is_plane else 'blocks'}"
            yield spread(key, what, "%", shares, held, "conversion", of="least")


def roundings(rows):
    """Yield the time of others that round arrays to a format over that of `cpms.quantize`, the least over formats."""
    for experiment, called in (("rounding_cpu", "an array"), ("rounding_blocks_cpu", "blocks of OCP's formats")):
        measured = list(rows.measured(experiment))
        for name in ("gfloat", "pychop", "cast"):
            ratios, held = [], []
            for row in measured:
                times = {result["contestant"]: result["median_ms"] for result in row["results"]}
                if name in times:
                    ratios.append(times[name] / times["cpms"])
                    held.append(row)
            if held:
                by = "a cast of NumPy or ml_dtypes" if name == "cast" else name
                what = f"time of {by} over `cpms.quantize`, {called}, least of {len(held)} formats"
                yield spread(f"{experiment}.{name}", what, "times", ratios, held, "rounding", of="least")


def roundings_on_a_gpu(rows):
    """Yield the time of `cpms.quantize` in device memory over that of a copy of the array, the most over formats."""
    held = list(rows.measured("rounding_gpu"))
    if not held:
        return
    ratios = [
        result["median_ms"] / row["copy"]["median_ms"]
        for row in held
        for result in row["results"]
        if result["contestant"] == "cpms"
    ]
    what = f"time of `cpms.quantize` over a copy, an array in device memory, most of {len(held)} formats"
    yield spread("rounding_gpu.copy", what, "times", ratios, held, "rounding", of="most")


def iterations(rows):
    """Yield on how many graphs the formats need as many iterations as float64, to within one."""
    found = {}
    for experiment in ("table2", "standins"):
        for row in rows.measured(experiment):
            found.setdefault(row["graph"], {})[row["storage"]] = row
    whole = {graph: cells for graph, cells in found.items() if {"fp64", "cpms2", "cpms4"} <= cells.keys()}
    near = [
        graph
        for graph, cells in whole.items()
        if all(abs(cells[each]["iterations"] - cells["fp64"]["iterations"]) <= 1 for each in ("cpms2", "cpms4"))
    ]
    held = [row for cells in whole.values() for row in cells.values()]
    if not held:
        raise LookupError("table2")
    yield counted(
        "iterations.near",
        "graphs on which `cpms2` and `cpms4` take as many iterations as float64, or one more or fewer",
        "graphs",
        len(near),
        held,
        "table2",
    )
    yield counted("iterations.graphs", "graphs whose iterations are counted", "graphs", len(whole), held, "table2")


def coo(rows):
    """Yield products in COO against cuSPARSE in COO."""
    values, held = [], []
    for row in rows.measured("gpu_coo"):
        for storage in ("fp64", "fp32"):
            times = {
                c["engine"]: c["median_ms"]
                for c in row["contestants"]
                if c["storage"] == storage and c["layout"] == "coo"
            }
            if "cusparse" in times:
                values += [times[e] / times["cusparse"] for e in ("coo_streams", "reduce_by_key") if e in times]
                held.append(row)
    held = list({row["cell"]: row for row in held}.values())
    what = f"time of `coo_streams` and `reduce_by_key` over cuSPARSE's COO, {len(held)} graphs"
    yield spread("coo", what, "times", values, held, "coo", of="mean")


def on_processors(rows):
    """Yield how many times as long as float64 the formats take on two threads."""
    for storage in ("cpms2", "cpms4"):
        pairs, held = [], []
        for row in rows.measured("systems_cpu"):
            found = {
                result["storage"]: result["solve_samples_s"]
                for result in row["results"]
                if result["status"] == "ok"
                and result["engine"] == "cpu"
                and result.get("method", "power") == "power"
                and (result["layout"] or row["layout"]) == "csr"
            }
            pairs.append((found[storage], found["fp64"]))
            held.append(row)
        what = f"time of power iteration in `{storage}` over float64, two threads, {len(pairs)} graphs"
        yield ratio(f"processors.{storage}", what, pairs, held, "systems")


def differing_iterations(rows):
    """Yield the graphs on which counts of iterations differ by more than one."""
    by_graph = {}
    for experiment in ("table2", "standins"):
        for row in rows.measured(experiment):
            by_graph.setdefault(row["graph"], {})[row["storage"]] = row
    for cells in by_graph.values():
        counts = {storage: cells[storage]["iterations"] for storage in ("fp64", "cpms2", "cpms4")}
        for storage in ("cpms2", "cpms4"):
            more = counts[storage] - counts["fp64"]
            if abs(more) > 1:
                row = cells[storage]
                what = f"iterations of `{storage}` beyond float64's on {label(row)}"
                yield counted(f"iterations.{label(row)}.{storage}", what, "iterations", more, [row], "table2")


NUMBERS = [
    on_processors,
    whole_solves,
    on_a_v100,
    conversions,
    roundings,
    roundings_on_a_gpu,
    coo,
    products,
    iterations,
    differing_iterations,
]
