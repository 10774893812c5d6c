"""Figures of the shipped programs are printable: widths, sizes of text, nothing cut off or on top of other text."""

from __future__ import annotations

import itertools
import json
import re

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from alternative_texts import OWN, check_texts, panels_of
from figure_laws import faults, hidden, marks, shown, undrawn
from latex_check import check_latex
from matplotlib.backends.backend_agg import FigureCanvasAgg
from recorded_rows import RECORDED, recorded
from table_laws import table_faults

from cpms.base.package_data import show_programs
from cpms.experiment.report import figures, output, panels, show, solve_tables
from cpms.experiment.report.captions import provenance
from cpms.experiment.report.page.nested import lay_out
from cpms.experiment.report.speedup_figures import mean_rows
from cpms.experiment.report.stand_ins import STARRED
from cpms.experiment.report.style import WIDTHS
from cpms.experiment.rows.standing import earlier

PICTURES = {"fig1", "fig2"}
"""Drawn from layouts and formats, without rows."""
ALL = itertools.product(show_programs(), WIDTHS)
QUICK = [("road", "single"), ("tolerance", "double")]
MOST_OF_CAPTION = 920
"""Characters of the caption of a shipped figure, with machine, commit, repetitions and spread."""
SCATTERED = {"roofline", "gmres_bits", "scaling"}
"""Figures of which both axes of a panel are measured: marks lie where they lie."""


@pytest.fixture
def kept():
    """What the panels of figures draw."""
    return {}


@pytest.fixture
def drawn(monkeypatch, kept):
    """Figures with their faults, as found before they are written."""
    found = {}

    def saved(figure, stem, endings=figures.ENDINGS):
        kept[stem.name] = panels_of(figure)
        figures._escape(figure)
        figures._centre(figure)
        found[stem.name] = [*faults(figure), *undrawn(figure), *([] if stem.name in SCATTERED else hidden(figure))]
        plt.close(figure)
        return [stem.with_suffix(".pdf")]

    monkeypatch.setattr(figures, "save", saved)
    return found


@pytest.mark.parametrize(
    ("name", "width"),
    [*QUICK, *(pytest.param(*each, marks=pytest.mark.slow) for each in ALL if each not in QUICK)],
)
def test_figures_are_printable_and_described(tmp_path, drawn, kept, name, width):
    needs = show._program(show_programs()[name]).NEEDS
    if not any((RECORDED / f"{need}.jsonl").exists() for need in needs):
        pytest.skip(f"no rows of {needs} are recorded")
    written = show.show(name, results=recorded(), output=tmp_path, width=width)
    assert {stem: found for stem, found in drawn.items() if found} == {}
    assert list(table_faults(written)) == []
    if width == "single" and name not in OWN:
        check_texts(kept, tmp_path)
    if width == "single":
        check_latex([path for path in written if path.suffix == ".tex"], tmp_path)
    for stem in drawn:
        described = json.loads((tmp_path / f"{stem}.json").read_text())
        assert len(described["alt"]) > 30
        assert len(described["caption"]) < MOST_OF_CAPTION, stem
        if name in PICTURES:
            assert described["cells"] == []
            continue
        assert re.search(r"Machines?: .*Commits?: [0-9a-f]{7}", described["caption"])
        assert not ("no spread" in described["caption"] and re.search(r"range [\d.]+ %", described["caption"]))
        assert described["cells"]
        counted = len(described["cells_without_commit"])
        assert not counted or f"{counted} of {len(described['cells'])} rows by code" in described["caption"]


def test_the_files_embed_their_fonts_and_hold_the_alternative_text(tmp_path):
    show.show("tolerance", results=recorded(), output=tmp_path)
    pdf = (tmp_path / "tolerance.pdf").read_bytes()
    assert b"/Type3" not in pdf
    assert b"/FontFile2" in pdf
    alt = json.loads((tmp_path / "tolerance.json").read_text())["alt"]
    assert alt in (tmp_path / "tolerance.svg").read_text()
    assert alt.encode() in (tmp_path / "tolerance.png").read_bytes()


@pytest.mark.parametrize(("program", "table"), [("refine", "MARKS"), ("rounding", "MARKS"), ("topk", "PATTERNS")])
def test_contestants_of_a_figure_have_marks_of_their_own(program, table):
    marks = getattr(show._program(show_programs()[program]), table)
    assert len(set(marks.values())) == len(marks)


def test_each_contestant_of_the_products_has_a_row_of_its_own(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(output.Output, "figure", lambda _, figure, **_more: made.append(figure))
    show.show("products", results=recorded(), output=tmp_path)
    for axes in made[0].axes:
        names = [text.get_text() for text in axes.get_yticklabels()]
        assert len(set(names)) == len(names) > 10
        places = [tuple(place) for place, *_ in marks(axes)]
        assert len(set(places)) == len(places)


def test_means_of_few_ratios_have_no_interval_those_held_out_are_hollow_and_a_single_ratio_is_a_circle():
    ratios = {"few": [1.0, 2.0, 4.0, 8.0], "many": [1.0, 2.0, 3.0, 4.0, 5.0], "one": [3.0]}
    lines = [
        {"name": name, "held out": name == "few", "bits": 16, "times faster": ratio}
        for name, each in ratios.items()
        for ratio in each
    ]
    with show.styled():
        figure, axes = plt.subplots()
        mean_rows(axes, pd.DataFrame(lines), list(ratios))
        plt.close(figure)
    means = [line for line in axes.lines if line.get_marker() == "D"]
    assert [line.get_xdata()[0] for line in means] == pytest.approx(
        [np.prod(ratios[name]) ** (1 / len(ratios[name])) for name in ("few", "many")]
    )
    assert [line.get_markerfacecolor() for line in means] == ["none", panels.colour(16)]
    assert [len(each.get_segments()) for each in axes.collections] == [1]
    circles = [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "o" and line.get_alpha() is None]
    assert circles == ratios["one"]
    assert sum(len(line.get_xdata()) for line in axes.lines if line.get_alpha() == panels.DOT["alpha"]) == 9


@pytest.mark.parametrize(
    ("held", "size", "expected"),
    [
        ([True, False], [2, 1], "; dots: single matrices, those held out below, hollow"),
        ([True, False], [2, 2], "; dots: single matrices, those tuned on above a mean, those held out below, hollow"),
        ([True, False], [1, 1], ""),
        ([False], [2], "; dots above a mean are its matrices"),
    ],
)
def test_captions_of_solves_promise_dots_only_where_they_are_drawn(held, size, expected):
    text = solve_tables._dots(pd.DataFrame({"held out": held, "size": size}))
    assert text.startswith(expected)
    assert bool(text) == bool(expected)
    assert ("above" in text) == any(not kind and count > 1 for kind, count in zip(held, size, strict=True))


def test_dots_in_a_legend_of_solves_are_those_drawn(tmp_path, monkeypatch):
    kept = []
    monkeypatch.setattr(output.Output, "figure", lambda _, figure, **texts: kept.append((figure, texts["caption"])))
    lines = [("a", False, 2.0), ("diffusion:side=1000", True, 3.0), ("diffusion:side=200", True, 4.0)]
    table = pd.DataFrame(
        {"matrix": matrix, "right-hand side": "random", "way": "w", "bits": 16, "times faster than r": ratio}
        | {"status": "CONVERGED", "least over r": ratio - 1.0, "most over r": ratio + 1.0}
        for matrix, _, ratio in lines
    )
    with show.styled():
        out = output.Output(tmp_path, "mine", print)
        held_out = ("diffusion",)
        solve_tables._show_ways(
            table,
            out,
            held_out=held_out,
            over="r",
            called="r",
            names={"w": "ours"},
            caption="Ours",
            not_timed="",
            more="",
        )
    ((figure, caption),) = kept
    entries = {each.get_label(): each for legend in figure.legends for each in legend.legend_handles}
    dots = [line for line in figure.axes[0].lines if line.get_alpha() == panels.DOT["alpha"]]
    assert {line.get_markerfacecolor() for line in dots} == {"none"}
    assert entries["a matrix, held out"].get_markerfacecolor() == "none"
    assert "a matrix, tuned" not in entries
    assert "random right-hand sides" in caption


def test_a_legend_above_a_panel_lies_between_its_title_and_its_curves():
    with show.styled():
        figure, axes = plt.subplots(figsize=(3.3, 2.0))
        for name in ("one", "two", "three"):
            axes.plot([0, 1], [1, 1], label=name)
        panels.legend_above(axes, "title")
        figure.draw_without_rendering()
        renderer = FigureCanvasAgg(figure).get_renderer()
        legend, title = axes.get_legend().get_window_extent(renderer), axes.title.get_window_extent(renderer)
        plt.close(figure)
    assert axes.get_window_extent().y1 <= legend.y0 + 1
    assert legend.y1 <= title.y0 + 1
    assert title.y1 <= figure.bbox.y1


def test_captions_of_counts_have_no_spread_and_those_of_times_have_theirs(tmp_path):
    row = {"cell": "1", "experiment": "x", "cpu": "a CPU", "results": [{"solve_samples_s": [1.0, 2.0, 3.0]}]}
    out = output.Output(tmp_path, "x", print, rows=[row])
    for timed, ending in ((True, "50 % of the median."), (False, "Counts, which have no spread.")):
        figure, axes = plt.subplots()
        axes.plot([1], [1])
        out.figure(figure, caption="Points", timed=timed)
        assert json.loads((tmp_path / "x.json").read_text())["caption"].endswith(ending)


def test_few_rows_that_no_commit_explains_are_named(tmp_path):
    row = {"experiment": "x", "stand_in_for": None, "git_commit": "c" * 40, "git_dirty": False, "cpu": "a CPU"}
    rows = [{**row, "cell": str(cell), "graph_name": f"g{cell}"} for cell in range(3)]
    out = output.Output(tmp_path, "x", print, "1 of 3 rows by code that was not committed", rows=rows, apart=rows[:1])
    assert out.names(["g0", "g1", "g2 (stand-in)"]) == ["g0 †", "g1", "g2*"]
    figure, axes = plt.subplots()
    axes.plot([1], [1])
    out.figure(figure, caption="Points")
    caption = json.loads((tmp_path / "x.json").read_text())["caption"]
    assert caption.startswith(f"Points. {STARRED}. Machine: a CPU. Commit: cccccccccc.")
    assert caption.endswith("(1 of 3 rows by code that was not committed: g0)")
    assert figure.get_supxlabel() == "*: stand-in\n†: 1 of 3 rows by code that was not committed"


def test_a_figure_has_caveats_on_its_own_rows_alone(tmp_path):
    rows = [{"experiment": name, "cell": name, "cpu": "a CPU"} for name in ("x", "x_held")]
    out = output.Output(tmp_path, "x", print, "; ".join(earlier(row["experiment"]) for row in rows), rows=rows)
    for of, ending in ((["x"], f"({earlier('x')})"), (["x_held"], f"({earlier('x_held')})")):
        figure, axes = plt.subplots()
        axes.plot([1], [1])
        out.figure(figure, caption="Points", of=of)
        assert json.loads((tmp_path / "x.json").read_text())["caption"].endswith(f". {ending}")
        assert figure.get_supxlabel() == ending.strip("()")


def test_names_are_cut_by_the_characters_that_figures_draw(tmp_path):
    out = output.Output(tmp_path, "x", print)
    # The font lacks these characters, of which [U+30B0] and [U+1F578] are drawn.
    assert out.names(["グ" * 10, "🕸" * 10, "a" * 24], 24) == ["ググ…", "🕸🕸…", "a" * 24]


def test_spread_is_of_samples_or_of_their_ends():
    sampled = {"results": [{"solve_samples_s": [1.0, 2.0, 3.0]}, {"status": "unsupported"}]}
    assert "Samples of each result: 3; median interquartile range 50 % of the median" in provenance([sampled])
    ends = {"samples": 5, "results": [{"least_ms": 1.0, "most_ms": 2.0, "median_ms": 2.0}]}
    assert "Samples of each result: 5; median range 50 % of the median" in provenance([ends])
    assert "Repetitions: 1; the rows hold no spread" in provenance([{}])
    assert "Samples of each result: 7; the rows hold their median alone" in provenance([{"samples": 7, "solve_s": 1.0}])


def test_captions_name_the_devices_of_the_results_and_not_all_of_their_machines():
    beside = {"cpu": "Xeon", "threads": 8, "gpu": "H200", "status": "ok"}
    alone = {"cpu": "EPYC", "threads": 1, "status": "ok", "engine": "cpu"}
    assert provenance([{**beside, "engine": "cpu"}, alone]).startswith("Machines: Xeon, 8 threads; EPYC, 1 thread.")
    assert provenance([{**beside, "engine": "cuda_fused"}]).startswith("Machine: H200.")
    assert provenance([{**beside, "device": "cpu-skylake"}]).startswith("Machine: Xeon, 8 threads.")
    assert provenance([{**beside, "engine": "mine"}]).startswith("Machines: Xeon, 8 threads; H200.")
    hosted = {**beside, "engine": "cuda", "old_road_s": 1.0}
    assert provenance([hosted]).startswith("Machines: Xeon, 8 threads; H200.")
    lacking = [{"engine": "cuda"}, {"engine": "serial", "status": "unsupported"}]
    assert provenance([{**beside, "results": lacking}]).startswith("Machine: H200.")


def test_a_number_of_an_alternative_text_that_is_not_drawn_is_found():
    figure, axes = plt.subplots()
    axes.barh([0, 1], [0.25, 0.5])
    axes.plot([3.0], [0], "o")
    figure.set_label("Share of 3 marks, from 0.25 (one) to 3 (two).")
    assert list(undrawn(figure)) == []
    figure.set_label("Share of 3 marks, from 0.25 times (one) to 1210 (two).")
    assert list(undrawn(figure)) == ["1210 of the alternative text is not drawn"]
    plt.close(figure)


@pytest.mark.parametrize("width", WIDTHS.values())
@pytest.mark.parametrize("marks", [1, 2, 5])
@pytest.mark.parametrize("colours", [1, 3, 4])
def test_colours_and_marks_have_columns_of_their_own_in_a_legend(colours, marks, width):
    shapes = {f"contestant number {place}": mark for place, mark in zip(range(marks), "osD^v", strict=False)}
    with show.styled():
        figure = plt.figure(figsize=(width, 3))
        panels.legend(figure, panels.key([8, 16, 32, 64][:colours], shapes))
        figure.draw_without_rendering()
        (legend,) = figure.legends
        kinds = {}
        for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True):
            if shown(text):
                place = round(text.get_window_extent().x0)
                kinds.setdefault(place, set()).add(handle.get_marker() in ("", "None", None))
        inside = legend.get_window_extent().x1 <= figure.bbox.x1 + 1
        plt.close(figure)
    assert inside
    assert all(len(each) == 1 for each in kinds.values())
    assert {False, True} == set().union(*kinds.values())


@pytest.mark.parametrize("width", WIDTHS.values())
@pytest.mark.parametrize("colours", [0, 4])
@pytest.mark.parametrize("letters", [10, 15, 20, 44, 50, 90])
def test_a_legend_is_within_its_figure_whatever_the_length_of_its_names(letters, colours, width):
    names = {("wide names " * 9)[:letters] + str(place): mark for place, mark in enumerate("osD")}
    with show.styled():
        figure = plt.figure(figsize=(width, 4))
        panels.legend(figure, panels.key([8, 16, 32, 64][:colours], names), most=50)
        figure.draw_without_rendering()
        box = figure.legends[0].get_window_extent()
        plt.close(figure)
    assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1


@pytest.mark.parametrize(("count", "step"), [(1, 1.0), (2, 0.5), (2, 0.3), (9, 1.0)])
def test_an_axis_that_is_cut_says_where_the_intervals_end(count, step):
    with show.styled():
        figure, axes = plt.subplots()
        beyond = panels.cut(axes, 2.0, [step * place for place in range(count + 1)], [1.5] + [4.0] * count)
        texts, arrows = [text.get_text() for text in axes.texts], len(axes.lines)
        right = axes.get_xlim()[1]
        plt.close(figure)
    assert (beyond, right) == ([4.0] * count, 2.0)
    assert (texts, arrows) == ((["4\u2192"] * count, 0) if count < 9 and step >= 0.5 else ([], count))


def test_sizes_of_graphs_stay_in_names_that_are_too_long(tmp_path):
    out = output.Output(tmp_path, "x", print)
    names = out.names(["small-world, 300k nodes", "bipartite, 20k nodes", "weblike, 1M edges"], 20)
    assert names == ["small-world 300k", "bipartite 20k", "weblike, 1M edges"]


def test_titles_are_divided_alike_whether_or_not_a_figure_has_been_laid_out():
    titles = []
    for is_laid_out in (False, True):
        with show.styled():
            figure, (panel, _) = plt.subplots(1, 2, figsize=(WIDTHS["single"], 2.0))
            panel.set_title("diffusion 1000")
            panel.set_yticks([0, 1], ["a name of a contestant", "another"])
            if is_laid_out:
                lay_out(figure)
            figures._escape(figure)
        titles.append(panel.get_title())
        plt.close(figure)
    assert titles[0] == titles[1]
