"""Tables of the shipped programs: means of ratios, the best among comparable lines, spreads, results beside keys."""

import numpy as np
import pandas as pd
import pytest
from recorded_rows import recorded

from cpms.experiment.report import output, show

SPREADS = {
    "conversion": [(f"{way}, least", f"{way}, GB/s", f"{way}, most") for way in ("convert", "restore")],
    "rounding": [("least, ms", "median, ms", "most, ms")],
    "tolerance": [("low", "over own fp64", "high")],
    "fig6": [("low", "over own fp64", "high")],
    "coo_kernels": [("least ms", "ms", "most ms")],
    "regret_time": [("low", "regret", "high")],
}


@pytest.fixture
def shown(tmp_path, monkeypatch):
    """Return a function that shows a program without its figures, and reads a table of it."""
    monkeypatch.setattr(output.Output, "figure", lambda *_, **__: None)

    def read(program, table=None):
        show.show(program, results=recorded(), output=tmp_path)
        return pd.read_csv(tmp_path / f"{table or program}.csv"), (tmp_path / f"{table or program}.md").read_text()

    return read


@pytest.mark.parametrize(
    ("program", "ratio", "mean"),
    [
        ("cg_time", "times faster, whole call", "times faster, whole call"),
        ("cg_bits", "over float64", "iterations over float64's"),
    ],
)
def test_means_of_ratios_are_geometric(shown, program, ratio, mean):
    means, _ = shown(program, f"{program}_means")
    values, _ = shown(program)
    assert len(means)
    for line in means.to_dict("records"):
        part = values[values.vectors == line["vectors"]]
        if program == "cg_time":
            held = str(line["matrices"]).endswith("held out")
            part = part[(part["held out"] == held) & (part.method != "scipy cg")]
        else:
            unsolved = set(values.matrix[values.status != "CONVERGED"])
            part = part[(part["right-hand side"] == line["right-hand side"]) & ~part.matrix.isin(unsolved)]
        assert line[mean] == pytest.approx(np.prod(part[ratio]) ** (1 / len(part)))


def test_the_fastest_conversion_is_that_of_a_device(shown):
    table, text = shown("conversion")
    heads = [cell.strip() for cell in text.split("\n")[2].split("|")]
    lines = [[cell.strip() for cell in line.split("|")] for line in text.strip().split("\n")[4:]]
    for column in ("convert / copy", "restore / copy"):
        bold = [line[heads.index("device")] for line in lines if line[heads.index(column)].startswith("**")]
        assert sorted(bold) == sorted(set(table.device))


@pytest.mark.parametrize("name", SPREADS)
def test_medians_lie_between_the_ends_of_their_samples(shown, name):
    table, _ = shown({"coo_kernels": "coo", "regret_time": "regret"}.get(name, name), name)
    for low, middle, high in SPREADS[name]:
        known = table[[low, middle, high]].dropna()
        assert len(known)
        assert (known[low] <= known[middle]).all()
        assert (known[middle] <= known[high]).all()


def test_regret_stands_beside_the_choices_that_it_compares(shown):
    for name in ("regret", "regret_time"):
        table, _ = shown("regret", name)
        assert list(table.columns[:5]) == ["matrix", "held out", "auto", "best", "regret"]
