"""What sweeps on a GPU gain where nodes whose edges lead to the same nodes are one."""

from cpms.experiment.report.speedup_figures import faster_lines, show_faster

NEEDS = ["gpu_merged"]


def show(rows, out):
    show_faster(
        rows,
        out,
        lambda row: faster_lines(row, "merge", "merged"),
        by="where nodes are merged",
        caption="Sweeps on {gpu} over all nodes, and over one for those whose edges lead to the same, medians and "
        "how far apart the fastest and the slowest are; bytes are those of the one over the other; the "
        "engine merges where it pays for a solve",
    )
