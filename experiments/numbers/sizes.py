"""Large graphs, queries, and several GPUs."""

import re

from cpms.experiment.pages.numbers import machine, median, ratio
from cpms.experiment.report.output import label, shortened

_KINDS = {"weblike": "web", "uniform": "uniformly random", "rmat": "R-MAT"}


def large(rows):
    """Yield whole times of 100M nodes."""
    cells = [row for row in rows.measured("gpu_large_refine") if row["nodes"] == 10**8]
    whole = [row["prepare_s"] + row["solve_s"] for row in cells]
    sweeps = [sum(row["seconds_by_bits_s"].values()) for row in cells]
    yield median(
        "large.whole", "100M nodes, 200M edges: prepared, solved, ranks in main memory", "s", whole, cells, "large"
    )
    yield median("large.sweeps", "the same, sweeps alone", "s", sweeps, cells, "large")


def queries(rows):
    """Yield the time of a personalised query on a GPU, alone and in batches."""
    chosen = rows.measured("gpu_ppr", method="refine", storage="fp16", tol=1e-10)
    by_batch = {row["batch"]: row for row in chosen}
    alone, together = by_batch[0], by_batch[100]
    name = shortened(label(alone))
    means = [alone["query_s"]], [together["query_s"]]
    yield median(
        "query.alone", f"a personalised query by `refine` to 1e-10, {name}", "ms", means[0], [alone], "ppr", 1e3
    )
    yield median(
        "query.reset", "another teleport vector for a prepared graph", "ms", [alone["reset_s"]], [alone], "ppr", 1e3
    )
    yield median("query.together", "each of 100 personalised queries together", "ms", means[1], [together], "ppr", 1e3)
    whole = [alone["query_s"] + alone["reset_s"]]
    what = "a batch of 100 against one query at a time, by query"
    yield ratio("query.batch", what, [(whole, means[1])], [together, alone], "ppr")


def several(rows):
    """Yield strong and weak scaling over GPUs of one host."""
    for row in rows.measured("scaling_gpu"):
        card, most = machine(row), max(result["ranks"] for result in row["results"])
        fastest = {}
        for result in row["results"]:
            if result["ranks"] == 1:
                known = fastest.setdefault(result["method"], result)
                fastest[result["method"]] = min(known, result, key=lambda each: each["solve_s"])
        kind = _KINDS[re.split("[-:]", row["graph"])[0]]
        size = f"{row['results'][0]['nodes'] / 1e6:.0f}M"
        for result in row["results"]:
            ranks, method = result["ranks"], result["method"]
            if result["engine"] != "mpi_cuda" and ranks > 1:
                continue
            is_web = row["scaling"] == "strong" and method == "refine" and kind == "web"
            if is_web and (ranks > 1 or result is fastest["refine"]):
                what = f"{size} nodes of a web by `refine` on {ranks} {card}{'s' if ranks > 1 else ''}"
                samples = result["solve_samples_s"]
                yield median(f"gpus.strong.{ranks}", what, "ms", samples, [row], "scaling_gpu", 1e3)
            if row["scaling"] == "weak" and ranks == most > 1:
                called = "`refine`" if method == "refine" else "power iteration"
                grown = f"a graph that grows with them: {kind}"
                what = f"efficiency of {most} {card}s against the fastest on one, {grown}, {called}"
                pair = ([100 * s for s in fastest[method]["solve_samples_s"]], result["solve_samples_s"])
                yield ratio(f"gpus.weak.{kind}.{method}", what, [pair], [row], "scaling_gpu", "%")
        if row["scaling"] == "strong" and kind == "web":
            found = {(result["engine"], result["method"], result["ranks"]): result for result in row["results"]}
            one = found["mpi_cuda", "refine", 1]
            what = "time of one rank over one GPU without ranks, `refine`, web"
            pair = (one["solve_samples_s"], fastest["refine"]["solve_samples_s"])
            yield ratio("gpus.alone", what, [pair], [row], "scaling_gpu")


NUMBERS = [large, queries, several]
