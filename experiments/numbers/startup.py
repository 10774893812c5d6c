"""Cold starts: `cpms rank` in a fresh process, with compiled code at hand and without."""

from cpms.experiment.pages.numbers import median

SHOW = "all"
CACHES = {"empty": "no compiled code at hand", "warm": "code compiled in an earlier run"}


def starts(rows):
    """Yield the medians of all commands, and of processes that import cpms or Numba and end."""
    for experiment in ("startup_cpu", "startup_gpu"):
        for row, result in rows.results(experiment):
            if "name" in result:
                key, what = result["name"].replace(" ", "_"), f"`{result['name']}` and the end of the process"
            else:
                key = f"{result['method']}.{result['caches']}"
                called = f"`cpms rank --method {result['method']} --engine {result['engine']}`"
                what = f"{called} of {row['nodes']:,} nodes and {row['edges']:,} edges, {CACHES[result['caches']]}"
            device = experiment.removeprefix("startup_")
            yield median(f"startup.{device}.{key}", what, "s", result["run_samples_s"], [row], SHOW)


NUMBERS = [starts]
