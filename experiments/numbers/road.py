"""The whole road from edges to certified ranks."""

from cpms.experiment.pages.numbers import counted, machine, median, ratio

SHOW = "road"
WAYS = {
    "road": "edges in main memory to ranks there",
    "device_road": "edges and ranks on the device",
    "prepared": "a second solve of a prepared graph, ranks in main memory",
    "old_road": "built and certified on processors",
}


def _name(row):
    kind = row["graph"].partition(":")[0]
    kind = row["graph"].partition("family=")[2].partition(",")[0] if kind == "models" else kind
    edges = row["edges"]
    return f"{kind}, {edges / 1e6:.0f}M edges" if edges >= 5e5 else f"{kind}, {edges / 1e3:.0f}k edges"


def _key(row):
    """Return the part of a number's name that tells its graph."""
    return _name(row).replace(", ", "-").split(" ")[0]


def _solved(rows, experiment, method="refine"):
    return {row["graph"]: (row, result) for row, result in rows.results(experiment, method=method)}


def times(rows):
    """Yield the medians of all ways."""
    for experiment, suite in (("gpu_road", "road"), ("gpu_road_held", "held")):
        for row, result in _solved(rows, experiment).values():
            for way, called in WAYS.items():
                if f"{way}_samples_s" not in result:
                    continue
                key = f"{suite}.{_key(row)}.{way}"
                yield median(key, f"{_name(row)}: {called}", "ms", result[f"{way}_samples_s"], [row], SHOW, 1e3)


def over_processors(rows):
    """Yield the ratios over building and certifying on processors."""
    for experiment, suite, named in (
        ("gpu_road", "road", "graphs that cuGraph was timed on"),
        ("gpu_road_held", "held", "held-out families"),
    ):
        found = _solved(rows, experiment)
        pairs = [(result["old_road_samples_s"], result["road_samples_s"]) for _, result in found.values()]
        what = f"edges to ranks, processors' time over ours, {len(pairs)} {named}"
        yield ratio(f"{suite}.over_processors", what, pairs, [row for row, _ in found.values()], SHOW)
        for row, result in found.values():
            pair = (result["old_road_samples_s"], result["road_samples_s"])
            key = f"{suite}.{_key(row)}.over_processors"
            yield ratio(key, f"{_name(row)}: processors' time over ours", [pair], [row], SHOW)


def over_cugraph(rows):
    """Yield cuGraph's quoted times, and their ratios to ours."""
    quoted = {
        row["graph"]: row for row in rows.measured("cugraph_quoted", purpose="edges in main memory to ranks there")
    }
    for row, result in _solved(rows, "gpu_road").values():
        cugraph = quoted.get(row["graph"])
        if cugraph is None:
            continue
        name = _key(row)
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
        "road.later", "graphs on which `refine` is slower, edges to ranks", "graphs", len(slower), slower, SHOW
    )
    yield counted(
        "road.graphs", "graphs timed from edges to ranks", "graphs", len(found), [row for row, *_ in found], SHOW
    )
    for row, double, own in found:
        key = f"road.{_key(row)}.over_fp64"
        yield ratio(key, f"{_name(row)}: our float64 over `refine`, edges to ranks", [(double, own)], [row], SHOW)


def solves_held_out(rows):
    """Yield the solve alone, by float64 over refine, on families that no other experiment uses."""
    power, refine = (_solved(rows, "gpu_road_held", method) for method in ("power", "refine"))
    pairs = [
        (power[graph][1]["road_solve_samples_s"], result["road_solve_samples_s"])
        for graph, (_, result) in refine.items()
    ]
    what = f"`refine` against our own float64 power iteration, solves alone, {len(pairs)} held-out families"
    yield ratio("refine.fp64.held", what, pairs, [row for row, _ in refine.values()], SHOW)


def updates(rows, experiment="gpu_updates", prefix="updates"):
    """Yield times of updates that exchange one edge in 10,000, and their ratios to whole calls in the same run."""
    found = _solved(rows, experiment)
    for row, result in found.values():
        name, key = _name(row), f"{prefix}.{_key(row)}"
        what = f"{name}: 1e-4 of the edges exchanged and solved again, ranks in main memory"
        yield median(key, what, "ms", result["update_samples_s"], [row], SHOW, 1e3)
        if "device_update_samples_s" in result:
            what = f"{name}: the same with graph and ranks on the device"
            yield median(f"{key}.device", what, "ms", result["device_update_samples_s"], [row], SHOW, 1e3)
        called = {"road": "edges to ranks", "call": "a call on a ready graph"}
        for way, named in called.items():
            pair = (result[f"{way}_samples_s"], result["update_samples_s"])
            yield ratio(f"{key}.over_{way}", f"{name}: {named} over an update", [pair], [row], SHOW)
        sweeps = sum(result["iterations_by_bits"].values())
        what = f"{name}: sweeps of an update, where a whole solve takes {sweeps}"
        yield counted(f"{key}.sweeps", what, "sweeps", result["update_iterations"], [row], SHOW)


def updates_on_processors(rows):
    """Yield times of updates on processors, and their ratios to whole calls in the same run."""
    yield from updates(rows, "updates_cpu", "updates.cpu")


NUMBERS = [times, over_processors, over_cugraph, over_own_float64, solves_held_out, updates, updates_on_processors]
