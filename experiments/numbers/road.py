"""The whole road from edges to certified ranks, and whole calls."""

from cpms.experiment.pages.numbers import counted, machine, median, ratio
from cpms.experiment.report.output import label, shortened

SHOW = "road"
WAYS = {
    "road": "edges in main memory to ranks there",
    "device_road": "edges and ranks on the device",
    "prepared": "a second solve of a prepared graph, ranks home",
    "old_road": "built and certified on processors",
}


def _name(row):
    kind = row["graph"].partition(":")[0]
    kind = row["graph"].partition("family=")[2].partition(",")[0] if kind == "models" else kind
    edges = row["edges"]
    return f"{kind}, {edges / 1e6:.0f}M edges" if edges >= 5e5 else f"{kind}, {edges / 1e3:.0f}k edges"


def _solved(rows, experiment, method="refine"):
    return {row["graph"]: (row, result) for row, result in rows.results(experiment, method=method)}


def times(rows):
    """Yield the medians of all ways."""
    for experiment, suite in (("gpu_road", "road"), ("gpu_road_held", "held")):
        for row, result in _solved(rows, experiment).values():
            for way, called in WAYS.items():
                key = f"{suite}.{_name(row).replace(', ', '-').split(' ')[0]}.{way}"
                yield median(key, f"{_name(row)}: {called}", "ms", result[f"{way}_samples_s"], [row], SHOW, 1e3)


def over_processors(rows):
    """Yield the ratios over building and certifying on processors."""
    for experiment, suite, named in (
        ("gpu_road", "road", "graphs that cuGraph was timed on"),
        ("gpu_road_held", "held", "held-out families"),
    ):
        found = _solved(rows, experiment)
        pairs = [(result["old_road_samples_s"], result["road_samples_s"]) for _, result in found.values()]
        what = f"edges to ranks over the same by processors, {len(pairs)} {named}"
        yield ratio(f"{suite}.over_processors", what, pairs, [row for row, _ in found.values()], SHOW)
        for row, result in found.values():
            pair = (result["old_road_samples_s"], result["road_samples_s"])
            key = f"{suite}.{_name(row).replace(', ', '-').split(' ')[0]}.over_processors"
            yield ratio(key, f"{_name(row)}: over processors", [pair], [row], SHOW)


def over_cugraph(rows):
    """Yield cuGraph's quoted times, and their ratios to ours."""
    quoted = {
        row["graph"]: row for row in rows.measured("cugraph_quoted", purpose="edges in main memory to ranks there")
    }
    for row, result in _solved(rows, "gpu_road").values():
        cugraph = quoted.get(row["graph"])
        if cugraph is None:
            continue
        name = _name(row).replace(", ", "-").split(" ")[0]
        yield counted(
            f"road.{name}.cugraph",
            f"{_name(row)}: cuGraph, quoted of an {machine(cugraph)}, without certificate",
            "ms",
            round(1e3 * cugraph["solve_s"]),
            [cugraph],
            SHOW,
        )
        yield ratio(
            f"road.{name}.over_cugraph",
            f"{_name(row)}: cuGraph's quoted time on an {machine(cugraph)} over ours",
            [([cugraph["solve_s"]], result["road_samples_s"])],
            [row, cugraph],
            SHOW,
        )


def over_own_float64(rows):
    """Yield how refine and float64 power iteration compare from edges to ranks."""
    found = []
    for experiment in ("gpu_road", "gpu_road_held"):
        power = _solved(rows, experiment, "power")
        for graph, (row, result) in _solved(rows, experiment).items():
            found.append((row, power[graph][1]["road_samples_s"], result["road_samples_s"]))
    if not found:
        raise LookupError("gpu_road")
    slower = [row for row, double, own in found if sorted(double)[len(double) // 2] < sorted(own)[len(own) // 2]]
    yield counted(
        "road.later", "graphs on which `refine` is later than our float64", "graphs", len(slower), slower, SHOW
    )
    yield counted(
        "road.graphs", "graphs of both suites of the road", "graphs", len(found), [row for row, *_ in found], SHOW
    )
    for row, double, own in found:
        key = f"road.{_name(row).replace(', ', '-').split(' ')[0]}.over_fp64"
        yield ratio(key, f"{_name(row)}: our float64 over `refine`, edges to ranks", [(double, own)], [row], SHOW)


def calls(rows):
    """Yield whole calls on a GPU and on processors."""
    totals = {}
    for row in rows.measured("gpu_calls"):
        totals.setdefault(row["graph"], {}).setdefault(row["engine"], []).append(
            (row, row["prepare_s"] + row["solve_s"] + row["certify_s"])
        )
    if not totals:
        raise LookupError("gpu_calls")
    sooner = []
    for by_engine in totals.values():
        one = by_engine["cuda"][0][0]
        graph = shortened(label(one))
        for engine, called in (("cuda", "a whole call on a GPU"), ("cpu", "on 16 threads of its machine")):
            held = by_engine[engine]
            samples, of = [taken for _, taken in held], [row for row, _ in held]
            yield median(f"calls.{graph}.{engine}", f"{graph}: {called}", "ms", samples, of, "calls", 1e3)
        medians = {name: sorted(taken for _, taken in held)[len(held) // 2] for name, held in by_engine.items()}
        if medians["cpu"] < medians["cuda"]:
            sooner += [row for held in by_engine.values() for row, _ in held]
    count = len({row["graph"] for row in sooner})
    yield counted("calls.sooner", "graphs done sooner on 16 threads than on a GPU", "graphs", count, sooner, "calls")
    yield counted("calls.graphs", "graphs of whole calls", "graphs", len(totals), rows.measured("gpu_calls"), "calls")


NUMBERS = [times, over_processors, over_cugraph, over_own_float64, calls]
