"""What sweeps on a GPU gain where sources of edges take 16 bits, and degrees 8."""

from cpms.experiment.report.output import label, shortened
from cpms.experiment.report.speedup_figures import show_faster, without_and_with

NEEDS = ["gpu_codes"]


def show(rows, out):
    show_faster(
        rows,
        out,
        _lines,
        by="by codes",
        caption="Sweeps on {gpu}, medians: sources and degrees of 32 bits against sources by codes of 16 (32 where "
        "those of 256 edges lie 2^15 nodes apart) and degrees of 8; bytes that a sweep must move, values "
        "gathered not counted; gathers alone, by the same names of sources",
    )


def _lines(row):
    for result, coded in without_and_with(row, "codes"):
        yield {
            "graph": shortened(label(row)),
            "storage": result["storage"],
            "bits": result["bits"],
            "us": result["sweep_us"],
            "by codes us": coded["sweep_us"],
            "times faster": result["sweep_us"] / coded["sweep_us"],
            "MB": result["bytes"] / 1e6,
            "by codes MB": coded["bytes"] / 1e6,
            "gathers us": result["gather_us"],
            "by codes gathers us": coded["gather_us"],
        }
