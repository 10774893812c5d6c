"""Whole solves by method refine on a GPU, by kind of graph, and what the bits and the levers buy."""

from collections import Counter

from cpms.experiment.derived.sweep_times import sweep_times
from cpms.experiment.pages.numbers import counted, ratio, spread
from cpms.experiment.report.output import label, shortened

SHOW = "refine"
MERGED = "web-Google-scc"
KINDS = {
    "all": "all",
    "swept": "swept",
    "acyclic": "acyclic, solved in one pass",
    "real": "real",
    "generated": "generated",
}


class Suite:
    """The solves of `gpu_refine` by graph: samples of each contestant."""

    def __init__(self, rows):
        self.rows = {row["graph"]: row for row in rows.measured("gpu_refine")}
        if not self.rows:
            raise LookupError("gpu_refine")

    def solve(self, graph, engine, storage="fp64", method="power", layout=None, whole=False, plain=False):
        """Return a contestant's result."""
        wanted = (engine, storage, method, layout, whole, plain)
        for result in self.rows[graph]["results"]:
            held = result["layout"] if engine == "cusparse" else None
            found = (result["engine"], result["storage"], result.get("method", "power"), held)
            found += (bool(result.get("whole")), bool(result.get("plain")))
            if found == wanted and result["status"] == "ok":
                return result
        raise LookupError(f"{graph}: {wanted}")

    def refine(self, graph, storage="auto", **options):
        """Return a result of method refine."""
        return self.solve(graph, "cuda_fused", storage, "refine", **options)

    def own(self, graph):
        """Return the better of our float64 power iterations."""
        return min((self.solve(graph, engine) for engine in ("cuda", "cuda_fused")), key=lambda each: each["solve_s"])

    def library(self, graph):
        """Return the better of cuSPARSE in CSR and COO."""
        both = (self.solve(graph, "cusparse", layout=layout) for layout in ("csr", "coo"))
        return min(both, key=lambda each: each["solve_s"])

    def of(self, kind):
        """Return the graphs of a kind."""
        return [graph for graph in self.rows if kind == "all" or kind in self.kinds(graph)]

    def kinds(self, graph):
        """Return whether a graph is swept or solved in one pass, and real or generated."""
        is_swept = min(self.refine(graph)["bits"]) < 64
        return ("swept" if is_swept else "acyclic", "generated" if ":" in graph else "real")

    def all(self, graphs=None):
        """Return the rows of some graphs."""
        return [self.rows[graph] for graph in graphs or self.rows]


def _samples(result):
    return result["solve_samples_s"]


BASELINES = {
    "cusparse": ("cuSPARSE in CSR and cuBLAS", lambda suite, graph: suite.solve(graph, "cusparse", layout="csr")),
    "library": ("the better of CSR and COO", lambda suite, graph: suite.library(graph)),
    "fp64": ("our own best float64 power iteration", lambda suite, graph: suite.own(graph)),
}


def solves(rows):
    """Yield `refine` over its baselines by kind of graph, and the least of each."""
    suite = Suite(rows)
    for base, (called, baseline) in BASELINES.items():
        for kind, named in KINDS.items():
            graphs = suite.of(kind)
            pairs = [(_samples(baseline(suite, graph)), _samples(suite.refine(graph))) for graph in graphs]
            what = f"`refine` against {called}, {len(graphs)} graphs: {named}"
            yield ratio(f"refine.{base}.{kind}", what, pairs, suite.all(graphs), SHOW)
        values = {g: baseline(suite, g)["solve_s"] / suite.refine(g)["solve_s"] for g in suite.rows}
        least = min(values, key=values.get)
        what = f"`refine` against {called}, least, on {shortened(label(suite.rows[least]))}"
        pairs = [(_samples(baseline(suite, least)), _samples(suite.refine(least)))]
        yield ratio(f"refine.{base}.least", what, pairs, suite.all([least]), SHOW)


def slower(rows):
    """Yield the graphs on which `refine` is slower than our float64."""
    suite = Suite(rows)
    graphs = [g for g in suite.rows if suite.own(g)["solve_s"] < suite.refine(g)["solve_s"]]
    what = f"graphs of {len(suite.rows)} on which `refine` is slower than our float64"
    yield counted("refine.count", "graphs of the suite", "graphs", len(suite.rows), suite.all(), SHOW)
    yield counted("refine.slower", what, "graphs", len(graphs), suite.all(graphs or None), SHOW)
    for graph in graphs:
        name = shortened(label(suite.rows[graph]))
        pairs = [(_samples(suite.own(graph)), _samples(suite.refine(graph)))]
        what = f"speed of `refine` over our float64, on {name}"
        yield ratio(f"refine.slower.{name}", what, pairs, suite.all([graph]), SHOW)


def over_cugraph(rows):
    """Yield the ratio over cuGraph's quoted times of solves alone."""
    suite = Suite(rows)
    quoted = {row["graph"]: row for row in rows.measured("cugraph_quoted", purpose="solve", storage="fp64")}
    graphs = [graph for graph in suite.rows if graph in quoted]
    pairs = [([quoted[graph]["solve_s"]], _samples(suite.refine(graph))) for graph in graphs]
    what = f"solves alone against cuGraph in float64, quoted, {len(graphs)} graphs"
    yield ratio("refine.cugraph", what, pairs, [*suite.all(graphs), *(quoted[graph] for graph in graphs)], SHOW)


def bits(rows):
    """Yield what the bits alone buy: 16 bits, no level solve, no Anderson acceleration, against fused float64."""
    suite = Suite(rows)

    def pair(graph):
        alone = suite.refine(graph, "fp16", whole=True, plain=True)
        return _samples(suite.own(graph)), _samples(alone)

    for kind, named in KINDS.items():
        graphs = suite.of(kind)
        what = f"16 bits alone against our own float64, {len(graphs)} graphs: {named}"
        yield ratio(f"bits.{kind}", what, [pair(graph) for graph in graphs], suite.all(graphs), SHOW)
    values = {
        g: suite.own(g)["solve_s"] / suite.refine(g, "fp16", whole=True, plain=True)["solve_s"] for g in suite.rows
    }
    for of, graph in (("least", min(values, key=values.get)), ("most", max(values, key=values.get))):
        name = shortened(label(suite.rows[graph]))
        what = f"16 bits alone against our own float64, {of}, on {name}"
        yield ratio(f"bits.{of}", what, [pair(graph)], suite.all([graph]), SHOW)
    pairs = [(_samples(suite.own(graph)), _samples(suite.refine(graph, "fp32"))) for graph in suite.rows]
    what = f"`refine` in float32 with all levers against our own float64, {len(pairs)} graphs"
    yield ratio("bits.fp32", what, pairs, suite.all(), SHOW)


def few_bit_sweeps(rows):
    """Yield the least share of sweeps that read few bits, over graphs of more than 80 float64 sweeps."""
    suite = Suite(rows)
    graphs = [g for g in suite.rows if len(suite.solve(g, "cuda_fused")["bits"]) > 80]
    for storage, called in (("fp16", "`fp16`"), ("cpms4-nearest", "16-bit heads of `cpms4`"), ("e5m2", "8 bits")):
        results = [suite.refine(graph, storage, whole=True, plain=True) for graph in graphs]
        shares = [100 * sum(each < 64 for each in result["bits"]) / len(result["bits"]) for result in results]
        what = (
            f"share of sweeps in few bits, least of {len(graphs)} graphs of over 80 sweeps, not accelerated, {called}"
        )
        yield spread(f"sweeps.few.{storage}", what, "%", shares, suite.all(graphs), SHOW, of="least")
    held = [(g, r) for g in suite.rows for r in suite.rows[g]["results"] if r["status"] == "ok" and "error_bound" in r]
    above = [suite.rows[g] for g, r in held if r["error_l1"] > r["error_bound"] + 1e-14 / 0.15]
    what = "answers whose error exceeds their bound"
    yield counted("refine.above_bound", what, "answers", len(above), above or suite.all(), SHOW)
    yield counted("refine.answers", "answers with a bound", "answers", len(held), suite.all(), SHOW)


def levers(rows):
    """Yield what Anderson acceleration and the level solve buy."""
    suite = Suite(rows)
    crawled = [g for g in ("web-Google-scc", "cnr-2000", "web-NotreDame") if g in suite.rows]
    for which, plain in (("with", False), ("without", True)):
        counts = [len(suite.refine(graph, "fp16", whole=True, plain=plain)["bits"]) for graph in crawled]
        what = f"sweeps {which} Anderson acceleration, crawled web graphs"
        yield spread(f"extrapolation.{which}", what, "sweeps", counts, suite.all(crawled), SHOW)

    def pair(graph):
        return (
            _samples(suite.refine(graph, "fp16", whole=True, plain=True)),
            _samples(suite.refine(graph, "fp16", whole=True)),
        )

    pairs = [pair(graph) for graph in suite.rows]
    what = f"solves with Anderson acceleration against solves without, {len(pairs)} graphs"
    yield ratio("extrapolation.solves", what, pairs, suite.all(), SHOW)
    passed = suite.of("acyclic")
    pairs = [(_samples(suite.own(graph)), _samples(suite.refine(graph))) for graph in passed]
    what = f"one level solve of graphs without cycles against float64 sweeps, {len(passed)} graphs"
    yield ratio("passes", what, pairs, suite.all(passed), SHOW)


def _sweep(row, storage, **arrangement):
    for result in row["results"]:
        held = result["arrangement"]
        if result["storage"] == storage and all(held[key] == value for key, value in arrangement.items()):
            return result
    raise LookupError(f"{row['graph']}: {storage} {arrangement}")


def _us(row, storage, **arrangement):
    return sweep_times(row, _sweep(row, storage, **arrangement)).us


def lever_sweeps(rows):
    """Yield what a lever buys 16-bit sweeps, over the graphs of its experiment."""
    for experiment, key, called in (
        ("gpu_cached", "cached", "in-cache sweeps against other sweeps"),
        ("gpu_merged", "merge", "lumping against none"),
    ):
        held = rows.measured(experiment)
        values = [_us(row, "fp16", **{key: False}) / _us(row, "fp16", **{key: True}) for row in held]
        what = f"{called}, 16 bits, {len(held)} graphs"
        yield spread(f"lever.{key}", what, "times", values, held, "levers", of="mean")
        if key == "merge":
            row = next(row for row in held if row["graph"] == MERGED)
            off, on = (_sweep(row, "fp16", merge=lumped)["bytes"] for lumped in (False, True))
            share = [100 * on / off]
            yield spread(
                "lever.merge.bytes", f"bytes of a sweep of {MERGED} after lumping", "%", share, [row], "levers"
            )
    held = rows.measured("gpu_cached")
    values = [
        _us(row, "fp64", cached=False) / _us(row, "fp64", cached=True)
        for row in held
        if any(result["storage"] == "fp64" for result in row["results"])
    ]
    yield spread(
        "lever.cached.fp64",
        f"in-cache sweeps against other sweeps, float64, {len(held)} graphs",
        "times",
        values,
        held,
        "levers",
        of="mean",
    )


def limits(rows):
    """Yield how near 16-bit sweeps come to the bytes that a sweep without levers moves, or to gathers alone."""
    large, shares, faster = [], [], []
    for row in rows.measured("gpu_sweeps"):
        if row["edges"] > 1e7:
            result, taken_us = _first(row), sweep_times(row, _first(row)).us
            bandwidth = row["ceilings"]["copy_gbps"] * 1e3
            moved = (4 * row["edges"] + (16 + result["bits"] / 8) * row["nodes"]) / bandwidth
            shares.append(100 * max(moved, result["gather_us"]) / taken_us)
            faster.append(sweep_times(row, _first(row, "fp64")).us / taken_us)
            large.append(row)
    what = f"share of the bound without levers, 16-bit sweeps, least of {len(large)} graphs over 10M edges"
    yield spread("limits.plain", what, "%", shares, large, "sweeps", of="least")
    what = f"a 16-bit sweep against a float64 sweep, {len(large)} graphs over 10M edges"
    yield spread("limits.bits", what, "times", faster, large, "sweeps", of="mean")


def _first(row, storage="fp16"):
    own = row["results"][0]["arrangement"]
    return next(r for r in row["results"] if r["arrangement"] == own and r["storage"] == storage)


def moved(rows):
    """Yield the share of the bound by the bytes that sweeps move, and the shortest sweeps."""
    shares, held = [], []
    for row in rows.measured("gpu_sweeps"):
        result = _first(row)
        if row["edges"] > 1e7 and not row["graph"].startswith("rmat"):
            times, gathers = sweep_times(row, result), 0.0 if result["in_bins"] else result["gather_us"]
            shares.append(100 * max(times.bytes / row["ceilings"]["copy_gbps"] / 1e3, gathers) / times.us)
            held.append(row)
    what = f"share of the bound by the bytes they move, 16-bit sweeps, {len(held)} graphs over 10M edges but R-MAT"
    yield spread("limits.moved", what, "%", shares, held, "roofline")
    crawled = [
        row for row in rows.measured("gpu_sweeps") if row["graph"] in ("web-Google-scc", "cnr-2000", "web-NotreDame")
    ]
    times = [min(sweep_times(row, r).us for r in row["results"] if r["storage"] == "fp16") for row in crawled]
    yield spread("limits.crawled", "a 16-bit sweep of a crawled web graph", "µs", times, crawled, "sweeps")
    every = {row["graph"]: min(sweep_times(row, r).us for r in row["results"]) for row in rows.measured("gpu_sweeps")}
    shortest = min(every, key=every.get)
    what = f"the shortest sweep of all, on {shortest}"
    yield spread(
        "limits.shortest", what, "µs", [every[shortest]], rows.measured("gpu_sweeps", graph=shortest), "sweeps"
    )


def orders(rows):
    """Yield what order by out-degree saves the sweeps of an R-MAT graph, and what it costs."""
    row = rows.measured("gpu_orders", graph=lambda graph: graph.startswith("rmat"))[0]
    on, off = (_us(row, "fp16", renumber=value) for value in (True, False))
    yield spread(
        "orders.rmat",
        "order by out-degree against the order of ids, sweeps of R-MAT 22",
        "times",
        [off / on],
        [row],
        "orders",
    )
    what = "order by out-degree, time of the reordering of R-MAT 22"
    yield spread(
        "orders.rmat.cost", what, "ms", [1e3 * _sweep(row, "fp16", renumber=True)["numbering_s"]], [row], "orders"
    )


def counts_of_bits(rows):
    """Yield the numbers of sweeps of the random graph with 8 and 16 bits."""
    suite = Suite(rows)
    graph = min(graph for graph in suite.rows if graph.startswith("uniform"))
    for storage, called in (("e5m2", "8"), ("fp16", "16")):
        result = suite.refine(graph, storage)
        low = Counter(bits < 64 for bits in result["bits"])
        what = f"sweeps in {called} bits, 67M edges uniformly random"
        yield counted(f"uniform.{storage}", what, "sweeps", low[True], suite.all([graph]), SHOW)
        pairs = [(_samples(suite.solve(graph, "cusparse", layout="csr")), _samples(result))]
        what = f"{called} bits against cuSPARSE, 67M edges uniformly random"
        yield ratio(f"uniform.{storage}.cusparse", what, pairs, suite.all([graph]), SHOW)


NUMBERS = [
    *(slower, solves, over_cugraph, bits, few_bit_sweeps, levers, lever_sweeps),
    *(orders, counts_of_bits, limits, moved),
]
