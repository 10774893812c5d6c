"""The example of a paper: LaTeX stops at numbers that rows lack, and one command rebuilds the example from its rows."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from cpms.base.errors import InputError, UnavailableError
from cpms.cli.main import main
from cpms.experiment.artifact.numbers import numbers
from cpms.experiment.artifact.paper import compiled
from cpms.experiment.report.templates import TEMPLATES, drawings
from cpms.experiment.rows.flat import read_rows

EXAMPLE = Path(__file__).parents[2] / "experiments" / "paper_example"
needs_latex = pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")


def test_the_rows_have_every_number_and_figure_of_the_paper():
    text = (EXAMPLE / "paper.tex").read_text()
    for name, value in re.findall(r"\\newcommand\{(\\\w+)\}\{(paper_example/.+)\}", text):
        text = text.replace(f"{name}/", f"{value}/")
    rows = read_rows(EXAMPLE)
    used = {name for name in re.findall(r"\\cpmsnumber\{([^{}]+)\}", text) if "#1" not in name}
    assert len(used) > 20
    assert used <= set(re.findall(r"cpmsdefine\{([^{}]+)\}", numbers(rows)))
    assert set(re.findall(r"\\figurefromrows\{paper_example_(\w+)\}", text)) <= set(TEMPLATES)
    assert all(row["git_dirty"] is False for row in rows)


def test_all_bits_in_the_legend_of_residuals_have_a_mark_in_their_colour():
    from matplotlib.colors import to_hex

    drawn = {each.name: each for each in drawings([row for row in read_rows(EXAMPLE) if row["status"] == "ok"])}
    figure = drawn["residual"].figure
    legend = figure.legends[0]
    named = {text.get_text(): handle for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True)}
    marks = {to_hex(shade) for each in figure.axes[0].collections for shade in each.get_facecolor()}
    shades = {name: to_hex(handle.get_color()) for name, handle in named.items() if name.endswith("bits")}
    assert set(shades) == {"64 bits", "48 bits", "32 bits", "16 bits"}
    assert set(shades.values()) <= marks


@needs_latex
def test_a_number_that_the_rows_lack_stops_latex(tmp_path):
    row = {"cell": "0", "experiment": "mine", "status": "ok", "graph": "a_b=1,c", "engine": "cpu", "solve_s": 0.25}
    (tmp_path / "numbers.tex").write_text(numbers([row], [{"file": "x.pdf", "caption": "50 % of a_b $"}]))
    texts = r"\cpmsnumber{mine/a_b=1,c/cpu/seconds}, \cpmsnumber{caption/x}", r"\cpmsnumber{mine/other/cpu/seconds}"
    for name, body in zip(("good", "bad"), texts, strict=True):
        (tmp_path / f"{name}.tex").write_text(
            r"\documentclass{article}\input{numbers}\begin{document}" + body + r"\end{document}"
        )
    assert compiled(tmp_path / "good.tex", [row]).read_bytes().startswith(b"%PDF")
    with pytest.raises(InputError, match=r"no number mine/other/cpu/seconds. Did you mean mine/a_b=1,c/cpu/seconds\?"):
        compiled(tmp_path / "bad.tex", [row])
    (tmp_path / "wide.tex").write_text(r"\documentclass{article}\begin{document}\begin{landscape}\end{document}")
    with pytest.raises(InputError, match=r"landscape undefined\. The first line of a table"):
        compiled(tmp_path / "wide.tex", [row])


def test_without_latex_the_command_that_installs_it_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="apt-get install texlive"):
        compiled(tmp_path / "paper.tex", [])


@pytest.mark.slow
@needs_latex
def test_one_command_makes_the_paper_from_its_rows(tmp_path):
    target = tmp_path / "paper"
    assert main(["artifact", str(EXAMPLE), "--output", str(target), "--paper", str(EXAMPLE / "paper.tex")]) == 0
    assert (target / "paper.pdf").stat().st_size > 20_000
    assert not re.search(r"Overfull|undefined", (target / "paper.log").read_text())
