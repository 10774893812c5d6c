"""What sweeps on a GPU gain of graphs that fit in its cache where they are made for these."""

from cpms.experiment.report.speedup_figures import faster_lines, show_faster

NEEDS = ["gpu_cached"]


def show(rows, out):
    show_faster(
        rows,
        out,
        lambda row: faster_lines(row, "cached", "made for these"),
        by="made for graphs in the cache",
        caption="Sweeps on {gpu} of graphs that fit in its cache, medians and how far apart the fastest and the "
        "slowest are: as those of other graphs, and made for these; gathers alone, in a kernel of their own",
    )
