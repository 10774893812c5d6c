"""Solves, selection and ranks on two threads of a processor."""

import numpy as np

from cpms.experiment.pages.numbers import counted, machines, median, ratio, spread
from cpms.experiment.report.output import label, shortened

LOOP = "Gauss-Seidel"


def peers(rows):
    """Yield `refine` against the fastest other program on each graph, with our own Gauss-Seidel loop and without."""
    held = rows.measured("cpu_peers")
    for key, left_out, called in (
        ("programs", LOOP, "SciPy and PRPACK (one thread), NetworKit, SuiteSparse GraphBLAS"),
        ("loop", "", "these and our own Gauss-Seidel loop"),
    ):
        pairs, least = [], {}
        for row in held:
            times = {r["name"]: r["solve_samples_s"] for r in row["results"] if r["status"] == "ok"}
            medians = {r["name"]: r["solve_s"] for r in row["results"] if r["status"] == "ok"}
            others = {
                name: taken for name, taken in medians.items() if not name.startswith("cpms") and name != left_out
            }
            fastest = min(others, key=others.get)
            pairs.append((times[fastest], times["cpms refine auto"]))
            least[row["graph"]] = (medians[fastest] / medians["cpms refine auto"], pairs[-1], row)
        what = f"`refine` on two threads against the fastest of {called}, {len(held)} graphs"
        yield ratio(f"peers.{key}", what, pairs, held, "cpu_peers")
        _, pair, row = min(least.values(), key=lambda each: each[0])
        what = f"`refine` on two threads against the fastest of {called}, least, on {shortened(label(row))}"
        yield ratio(f"peers.{key}.least", what, [pair], [row], "cpu_peers")
        slower = [row for value, _, row in least.values() if value < 1]
        yield counted(
            f"peers.{key}.slower",
            f"graphs on which `refine` is slower than the fastest of {called}",
            "graphs",
            len(slower),
            slower or held,
            "cpu_peers",
        )


def power(rows):
    """Yield `refine` against our own float64 power iteration on two threads."""
    held, pairs, least = rows.measured("cpu_peers"), [], {}
    for row in held:
        times = {r["name"]: r["solve_samples_s"] for r in row["results"] if r["status"] == "ok"}
        pairs.append((times["cpms power fp64"], times["cpms refine auto"]))
        least[np.median(pairs[-1][0]) / np.median(pairs[-1][1])] = (pairs[-1], row)
    what = f"`refine` on two threads against our own float64 power iteration, {len(held)} graphs"
    yield ratio("peers.power", what, pairs, held, "cpu_peers")
    pair, row = least[min(least)]
    what = f"`refine` on two threads against our own float64 power iteration, least, on {shortened(label(row))}"
    yield ratio("peers.power.least", what, [pair], [row], "cpu_peers")


def peers_from_edges(rows):
    """Yield `refine` against the fastest other program on each graph, from edges in memory to ranks."""
    held, pairs, least = rows.measured("cpu_peers_road"), [], {}
    for row in held:
        found = {r["name"]: r for r in row["results"] if r["status"] == "ok"}
        ours = found["cpms refine auto"]
        others = [result for name, result in found.items() if not name.startswith("cpms")]
        fastest = min(others, key=lambda result: result["road_s"])
        pairs.append((fastest["road_samples_s"], ours["road_samples_s"]))
        least[row["graph"]] = (fastest["road_s"] / ours["road_s"], pairs[-1], row)
    called = "SciPy and PRPACK (one thread), NetworKit, SuiteSparse GraphBLAS, from edges to ranks"
    what = f"`refine` on two threads against the fastest of {called}, {len(held)} graphs"
    yield ratio("peers.road", what, pairs, held, "cpu_peers_road")
    _, pair, row = min(least.values(), key=lambda each: each[0])
    what = f"`refine` on two threads against the fastest of {called}, least, on {shortened(label(row))}"
    yield ratio("peers.road.least", what, [pair], [row], "cpu_peers_road")
    slower = [row for value, _, row in least.values() if value < 1]
    what = f"graphs on which `refine` is slower than the fastest of {called}"
    yield counted("peers.road.slower", what, "graphs", len(slower), slower or held, "cpu_peers_road")


def formats_of_refine(rows):
    """Yield the time of `refine` in 16 bits over 32 where the default is 16."""
    pairs, held = [], []
    for row in rows.measured("cpu_peers"):
        found = {r["name"]: r for r in row["results"] if r["status"] == "ok"}
        auto, double = found["cpms refine auto"], found["cpms refine fp32"]
        if "16" in auto["iterations_by_bits"]:
            pairs.append((auto["solve_samples_s"], double["solve_samples_s"]))
            held.append(row)
    what = f"time of `refine` in 16 bits over 32, two threads, {len(held)} graphs where 16 is the default"
    yield ratio("peers.16_over_32", what, pairs, held, "cpu_peers")


def scipy(rows):
    """Yield float64 power iteration against a SciPy loop."""
    for graph in dict.fromkeys(row["graph"] for row in rows.measured("cpu_speed")):
        samples = {
            engine: [row["solve_s"] for row in rows.measured("cpu_speed", graph=graph, engine=engine, layout=layout)]
            for engine, layout in (("scipy", "csr"), ("cpu", "pattern"))
        }
        held = rows.measured("cpu_speed", graph=graph)
        name = shortened(label(held[0]))
        what = f"float64 on two threads against a SciPy loop on one, {name}"
        yield ratio(f"scipy.{name}", what, [(samples["scipy"], samples["cpu"])], held, "cpu_speed")


def largest(rows):
    """Yield the selection of the 32 largest of 1e8 values."""
    for experiment in ("gpu_topk", "topk"):
        for dtype in ("float64", "float32"):
            held = [row for row in rows.measured(experiment, dtype=dtype) if row["values"] == 10**8]
            if not held:
                continue
            found = [next(r for r in row["results"] if (r["contestant"], r["k"]) == ("cpms", 32)) for row in held]
            alone = [
                next((r for r in row["results"] if (r["contestant"], r["k"]) == ("launch", 32)), own)
                for row, own in zip(held, found, strict=True)
            ]
            what = f"the 32 largest of 10^8 values, random to all equal, {dtype}, {machines(held)}"
            key = f"topk.{experiment}.{dtype}"
            yield spread(key, what, "ms", [r["median_ms"] for r in found], held, "topk")
            copy_ms = float(np.median([row["copy"]["median_ms"] for row in held]))
            shares = [100 * copy_ms / own["median_ms"] / 2 for own in alone]
            what = f"the same{', kernel alone' if experiment == 'gpu_topk' else ''}, share of copy bandwidth"
            yield spread(f"{key}.share", what, "%", shares, held, "topk")


def ranks(rows):
    """Yield two ranks against one on two cores, on the largest graph."""
    row = max(rows.measured("scaling_cpu"), key=lambda row: row["edges"])
    found = {(r["engine"], r.get("local"), r["ranks"]): r for r in row["results"]}
    name = f"{row['nodes'] / 1e6:.0f}M nodes, {row['edges'] / 1e6:.0f}M edges"
    serial, two = found["serial", None, 1]["solve_samples_s"], found["mpi", "cpu", 2]["solve_samples_s"]
    yield median("ranks.serial", f"{name}: serial program", "ms", serial, [row], "scaling", 1e3)
    yield median("ranks.two", f"{name}: two ranks", "ms", two, [row], "scaling", 1e3)


NUMBERS = [peers, power, peers_from_edges, formats_of_refine, scipy, ranks, largest]
