"""Figures without a program: they hold the rows' numbers, are printable, and the same rows give the same bytes."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from drawn_speedups import of_speedups, rows_of_ratios
from hypothesis import given, settings
from hypothesis import strategies as st
from one_drawing import drawn_alone

from cpms.base.errors import InputError
from cpms.cli.main import main
from cpms.experiment.report.generic.contestants import _word
from cpms.experiment.report.intervals import bootstrap
from cpms.experiment.report.observations import observations
from cpms.experiment.report.page.legends import key
from cpms.experiment.report.page.room import sample
from cpms.experiment.report.palette import PALETTE, colour
from cpms.experiment.report.show import _matplotlib
from cpms.experiment.report.style import WIDTHS
from cpms.experiment.report.templates import TEMPLATES, drawings, speedups

matplotlib = _matplotlib()
CONFIG = 'name = "mine"\nkind = "pagerank"\ngraphs = ["weblike:nodes=300,edges=1200", "rgg:scale=7"]\n'
CONFIG += 'storages = ["fp64", "cpms2"]\nrepetitions = 3\nrecord_history = true\nreference_tol = 1e-13\n'


@pytest.fixture(scope="module")
def folder_of_rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mine")
    (folder / "mine.toml").write_text(CONFIG)
    assert main(["run", str(folder / "mine.toml"), "--output", str(folder), "--show"]) == 0
    return folder


@pytest.fixture
def rows(folder_of_rows):
    return [json.loads(line) for line in (folder_of_rows / "mine.jsonl").read_text().splitlines()]


def test_run_with_show_draws_every_template_with_its_texts(folder_of_rows, rows):
    for name in TEMPLATES:
        described = json.loads((folder_of_rows / f"mine_{name}.json").read_text())
        assert "Commit:" in described["caption"]
        of_times = name not in {"residual", "error"}
        assert ("Samples of each result: 3" in described["caption"]) is of_times
        assert described["cells"] == [row["cell"] for row in rows]
        assert len(described["alt"]) > 20
        pdf = (folder_of_rows / f"mine_{name}.pdf").read_bytes()
        assert b"/Type3" not in pdf
        assert b"/FontFile2" in pdf


@pytest.mark.parametrize("width", WIDTHS)
def test_figures_have_their_width_and_legible_text(rows, width):
    for drawing in drawings(rows, width=width):
        assert drawing.figure.get_figwidth() == WIDTHS[width]
        drawing.figure.canvas.draw()
        texts = drawing.figure.findobj(matplotlib.text.Text)
        assert min(text.get_fontsize() for text in texts if text.get_text()) >= 7


def test_bars_are_the_medians_of_the_rows_in_the_colours_of_bits(rows):
    figure = drawn_alone(rows, "time").figure
    bars = [bar for bar in figure.axes[0].patches if bar.get_fill() and bar.get_width() > 0]
    assert {matplotlib.colors.to_hex(bar.get_facecolor()).upper() for bar in bars} <= {*PALETTE.values(), "#000000"}
    seconds = [row["solve_s"] for row in rows if row["storage"] == "fp64" and row["graph"] == rows[0]["graph"]]
    assert np.median(seconds) in observations(rows).seconds.tolist()


@settings(max_examples=25)
@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=6), st.floats(1e-2, 1e2))
def test_a_speedup_by_one_factor_has_no_width(times, factor):
    found = bootstrap([([time], [time / factor]) for time in times])
    assert found == pytest.approx((factor,) * 3)


@settings(max_examples=25)
@given(st.lists(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=4), min_size=2, max_size=8))
def test_the_inverse_speedup_lies_within_its_interval(samples):
    pairs = list(zip(samples[::2], samples[1::2], strict=False))
    mean, low, high = bootstrap(pairs)
    assert low <= mean <= high
    assert bootstrap([pair[::-1] for pair in pairs])[0] * mean == pytest.approx(1)


@pytest.mark.slow
def test_the_same_rows_give_the_same_bytes(folder_of_rows, tmp_path, capsys):
    config = str(folder_of_rows / "mine.toml")
    assert main(["show", config, "--results", str(folder_of_rows), "--output", str(tmp_path)]) == 0
    files = sorted(path.name for path in tmp_path.iterdir())
    assert len(files) == 4 * len(TEMPLATES) + 3  # A table has three files.
    assert all((tmp_path / name).read_bytes() == (folder_of_rows / name).read_bytes() for name in files)


def test_the_table_holds_medians_and_quartiles_of_the_rows(folder_of_rows, rows):
    table = pd.read_csv(folder_of_rows / "mine_table.csv")
    columns = ["graph", "contestant", "ms", "from", "to", "iterations", "residual", "error", "bits"]
    assert table.columns.tolist() == columns
    assert len(table) == 4
    line = table.iloc[0]
    own = [row for row in rows if row["graph"] == rows[0]["graph"] and row["storage"] == "fp64"]
    times = [1e3 * row["solve_s"] for row in own]
    assert line.ms == pytest.approx(np.median(times))
    assert [line["from"], line.to] == pytest.approx(np.quantile(times, [0.25, 0.75]))
    assert (line.contestant, line.iterations, line.residual) == ("fp64", own[0]["iterations"], own[0]["residual_l1"])
    text = (folder_of_rows / "mine_table.md").read_text()
    assert "quartile, iterations, residual, error in the 1-norm and the mean of the bits read. Machine" in text
    assert r"\caption{Experiment mine: median time" in (folder_of_rows / "mine_table.tex").read_text()


def test_a_recorded_experiment_is_drawn_by_its_name(tmp_path, capsys):
    assert main(["show", "gpu_conversion", "--results", "experiments/results", "--output", str(tmp_path)]) == 0
    assert (tmp_path / "gpu_conversion_time.pdf").is_file()


def test_figures_without_the_baseline_are_drawn_and_a_wrong_one_is_refused_with_all_names():
    shared = {"experiment": "mine", "kind": "pagerank", "status": "ok", "graph": "path", "engine": "cpu", "cpu": "a"}
    shared |= {"nodes": 2, "edges": 2, "layout": "csr", "host_copy_gbps": 1.0, "iterations_by_bits": {"64": 1}}
    rows = [
        {**shared, "cell": f"{method} {storage}", "method": method, "storage": storage, "solve_s": float(place)}
        for place, storage in enumerate(("fp64", "fp32", "fp16", "bf16", "cpms2", "cpms4", "e5m2"), 1)
        for method in ("power", "refine")
    ]
    every = [drawing.name for drawing in drawings(rows)]
    assert "roofline" in every
    assert [drawing.name for drawing in drawings(rows, baseline="refine fp64")] == every
    with pytest.raises(InputError, match="no contestant is called 'posit'") as error:
        next(drawings(rows, baseline="posit"))
    assert all(f"{row['method']} {row['storage']}" in str(error.value) for row in rows)


def test_baselines_are_named(rows):
    assert "over cpms2" in drawn_alone(rows, "speedup", baseline="cpms2").caption
    with pytest.raises(InputError, match="there is fp64, cpms2"):
        list(drawings(rows, baseline="posit"))
    with pytest.raises(InputError, match="single or double"):
        list(drawings(rows, width="triple"))


def test_a_mean_of_five_ratios_has_an_interval_and_the_median_below_it():
    rows = rows_of_ratios([1.0, 2.0, 2.5, 3.0, 8.0], ("cpms2", "cpms4"))
    line, _ = speedups(observations(rows))
    assert (line["speedup"], line["median"], line["graphs"]) == (pytest.approx(120 ** (1 / 5)), 2.5, 5)
    made, lines, intervals = of_speedups(rows)
    stroke = lines.pop("|")
    (mean,) = lines.values()
    assert [*stroke.get_xdata()] == [2.5]
    assert intervals == 2
    made.figure.draw_without_rendering()
    to_points = 72 / made.figure.dpi
    below, above = (line.get_transform().transform(line.get_xydata())[0][1] * to_points for line in (stroke, mean))
    assert above - below > (stroke.get_markersize() + mean.get_markersize()) / 2
    assert ", with 95 % bootstrap interval; strokes: medians;" in made.caption
    assert "the ratios of a mean" not in made.caption


def test_the_only_contestant_has_its_ratio_on_each_graph_and_their_mean():
    ratios = [1.0, 2.0, 2.5, 3.0, 8.0]
    made, _, _ = of_speedups(rows_of_ratios(ratios))
    (axes,) = made.figure.axes
    places = dict(zip(axes.get_yticks(), [text.get_text() for text in axes.get_yticklabels()], strict=True))
    marks = [line for line in axes.lines if line.get_marker() == "o"]
    ends = [(line.get_xdata()[0], line.get_ydata()[0]) for line in marks]
    drawn = {places[min(places, key=lambda at, y=y: abs(at - y))]: ratio for ratio, y in ends}
    assert drawn == dict(zip("abcde", ratios, strict=True)) | {"geometric mean": pytest.approx(120 ** (1 / 5))}
    assert axes.get_xlabel() == "speed-up of cpms2 over fp64"
    assert "speed-up of cpms2 over fp64; a row for each graph, and their geometric mean" in made.caption


@pytest.mark.parametrize("count", [2, 3, 4])
def test_a_mean_of_few_ratios_has_these_below_it_and_no_interval(count):
    ratios = [1.0, 2.0, 8.0, 4.0][:count]
    made, _, intervals = of_speedups(rows_of_ratios(ratios))
    strokes = [line for line in made.figure.axes[0].lines if line.get_marker() == "|"]
    assert [[*line.get_xdata()] for line in strokes] == [ratios]
    assert intervals == 0
    assert "; strokes: the ratios of a mean of fewer than 5, which has no interval" in made.caption
    assert "medians" not in made.caption
    assert "bootstrap" not in made.caption


def test_every_caption_with_stand_ins_says_so():
    rows = rows_of_ratios([1.0, 2.0, 3.0])
    named = [{**row, "graph": f"standin:{row['graph']}" if row["graph"] == "b" else row["graph"]} for row in rows]
    named = [{**row, "bytes": 4 if row["storage"] == "fp64" else 2, "error_l1": 1e-9} for row in named]
    found = {each.name: each.caption for each in drawings(named)}
    assert {"time", "speedup", "traffic"} <= found.keys()
    assert all("made in place of the collection's" in text for text in found.values())
    assert "; 1 of 3 graphs made in place of the collection's (*)" in found["speedup"]
    assert "; *: a graph made in place of the collection's" in found["traffic"]
    assert not any("in place of" in each.caption for each in drawings(rows))


def test_panels_without_a_stand_in_do_not_mention_them():
    named = [
        {**rows_of_ratios([2.0])[place], "graph": name, "cell": f"{name} {place}", "bytes": 4 >> place, "edges": size}
        for size, name in enumerate(["standin:first", *"abcdefghijk"])
        for place in (0, 1)
    ]
    found = {each.name: each.caption for each in drawings(named)}
    assert "among the larger half" in found["traffic"]
    assert {name for name, text in found.items() if "in place of" in text} == {"speedup", "time"}


def test_a_single_ratio_has_neither_a_stroke_nor_a_dot():
    made, lines, _ = of_speedups(rows_of_ratios([2.0]))
    assert len(lines) == 1
    assert "strokes" not in made.caption
    assert "the ratios of a mean" not in made.caption


def test_bars_of_a_solve_add_up_to_its_time_by_the_ends_of_its_steps():
    row = {"cell": "0", "experiment": "mine", "status": "ok", "graph": "path", "engine": "cpu", "solve_s": 4.0}
    assert observations([{**row, "step_s": [1.0, 3.0, 4.0], "bits": [64, 16, 64]}]).by_bits[0] == {64: 2.0, 16: 2.0}


def test_bars_of_repetitions_add_up_to_their_median_and_its_preparation():
    shared = {"cell": "", "experiment": "x", "status": "ok", "graph": "g", "bits_json": "[16, 64]"}
    rows = [
        {**shared, "repetition": place, "solve_s": time, "prepare_s": 10 * time, "step_s_json": f"[{time / 4}, {time}]"}
        for place, time in enumerate([9.0, 2.0, 4.0])
    ]
    (line,) = observations(rows).itertuples()
    assert line.by_bits == pytest.approx({16: 1.0, 64: 3.0})
    assert (line.seconds, line.prepare) == (4.0, 40.0)


def rows_by_tolerance(tolerances):
    """Return rows of two contestants; the baseline takes as many seconds as its tolerance has places."""
    at = [(storage, tol) for storage in ("fp64", "cpms2") for tol in tolerances[storage]]
    return [
        {"cell": f"{k}", "experiment": "mine", "status": "ok", "graph": "path", "engine": "cpu", "storage": storage}
        | {"tol": 10.0**-tol, "solve_s": tol / (1 if storage == "fp64" else 2)}
        for k, (storage, tol) in enumerate(at)
    ]


def test_times_are_compared_at_one_tolerance():
    (line,) = speedups(observations(rows_by_tolerance({"fp64": [2, 4, 8], "cpms2": [2, 4, 8]})))
    assert (line["called"], line["speedup"], line["low"], line["high"]) == ("cpms2", *(pytest.approx(2),) * 3)


def test_a_looser_tolerance_of_one_contestant_is_no_speedup():
    found = observations(rows_by_tolerance({"fp64": [8], "cpms2": [4]}))
    assert found.called.tolist() == ["fp64", "cpms2"]
    assert found.problem.tolist() == ["tol=1e-08", "tol=0.0001"]
    assert speedups(found, "fp64") == []


def test_a_query_of_a_batch_takes_its_share_of_the_batch():
    row = {"cell": "0", "experiment": "mine", "status": "ok", "graph": "path", "engine": "cpu", "query_s": 0.5}
    batched = {**row, "cell": "1", "batch": 4, "answered": 10, "query_samples_s": [4.0, 4.0, 1.0]}
    alone = {**row, "batch": 0, "answered": 3, "query_samples_s": [3.0, 2.0, 4.0]}
    assert observations([alone, batched]).samples.tolist() == [[3.0, 2.0, 4.0], [1.0, 1.0, 0.5]]


def test_runs_for_different_purposes_are_not_pooled():
    row = {"cell": "0", "experiment": "mine", "status": "ok", "graph": "path", "engine": "cpu", "nodes": 10}
    runs = [{"purpose": "stages", "run_s": 1.0}, {"purpose": "long", "run_s": 900.0}]
    parts = [{"purpose": "scaling", "nodes": nodes, "run_s": float(nodes)} for nodes in (2, 1000)]
    found = observations([{**row, "cell": str(place), **run} for place, run in enumerate([*runs, *parts])])
    assert found.graph.tolist() == [
        "path, stages",
        "path, long",
        "path, scaling to 2 nodes",
        "path, scaling to 1,000 nodes",
    ]
    assert found.seconds.tolist() == [1.0, 900.0, 2.0, 1000.0]


@pytest.mark.parametrize("times", [1.0, 30.0, 33.0, 2000.0])
def test_times_that_are_decades_apart_are_dots_on_a_logarithmic_axis(times):
    row = {"cell": "0", "experiment": "mine", "status": "ok", "graph": "path", "engine": "cpu", "solve_s": 4.0}
    fast = {"cell": "1", "engine": "cuda", "solve_s": 4.0 / times, "iterations_by_bits": {"16": 3, "64": 1}}
    drawing = next(drawings([{**row, "storage": "fp64"}, {**row, **fast, "storage": "cpms4"}]))
    axes, dots = drawing.figure.axes[0], times > 10**1.5
    assert drawing.name == "time"
    assert axes.get_xscale() == ("log" if dots else "linear")
    assert ("hollow where several" in drawing.caption) == dots
    marks = {line.get_xdata()[0]: line for line in axes.lines if line.get_marker() == "o"}
    bars = [bar.get_width() for bar in axes.patches if bar.get_width() > 0]
    assert sorted(marks if dots else bars) == pytest.approx([4.0 / times, 4.0])
    if dots:
        hollow = marks[min(marks)]
        assert (hollow.get_color(), hollow.get_markerfacecolor()) == (colour(16), "none")
        assert marks[4.0].get_markerfacecolor() == colour(64)
    assert "fewest bits of several" in [each.get_text() for each in drawing.figure.legends[0].get_texts()]


def test_graphs_with_few_of_the_contestants_are_left_out_of_a_page_that_has_no_room_for_all():
    line = {"problem": "", "engine": "cpu", "layout": "", "kind": ""}
    full = [{"case": f"g{k}", "called": f"c{m}", "seconds": 1.0 + k + m, **line} for k in range(9) for m in range(20)]
    sparse = [{"case": f"lone{k}", "called": "c3", "seconds": 4.0, **line} for k in range(9)]
    found, some = sample(pd.DataFrame([*sparse, *full]), "c7", 4, 5)
    assert set(found.case) == {"g0", "g3", "g5", "g8"}
    assert "c7" in set(found.called)
    assert (found.groupby("case").called.nunique() == 5).all()
    assert some == "; 4 of 18 graphs; 5 of 20 contestants, evenly chosen"


def test_contestants_are_counted_as_they_are_drawn():
    """Contestants of graphs that are not shown are not drawn, though they were chosen."""
    line = {"problem": "", "kind": ""}
    lines = [{"case": f"g{k}", "called": f"c{m}", **line, "seconds": 1.0 + k} for k in range(3) for m in range(4)]
    lines = [*lines, *({"case": "lone", "called": f"d{m}", **line, "seconds": 1.5 + m / 9} for m in range(3))]
    for most in (3, 5, 7):
        found, some = sample(pd.DataFrame(lines), "c1", 2, most)
        assert f"; {found.called.nunique()} of 7 contestants" in some
        assert f"; {found.case.nunique()} of 4 graphs" in some


def test_plug_ins_of_the_user_are_not_left_out():
    lines = [{"case": "g", "called": f"c{k}", "problem": "", "seconds": 1.0 + k, "own": k in (3, 8)} for k in range(20)]
    kept = set(sample(pd.DataFrame(lines), "c5", 4, 5)[0].called)
    assert {"c3", "c5", "c8"} < kept
    assert len(kept) == 5


def test_bytes_that_hardly_differ_are_not_drawn():
    shared = {"experiment": "x", "status": "ok", "graph": "g", "engine": "cpu"}
    for most, drawn in ((1.05, False), (2.0, True)):
        rows = [
            {
                **shared,
                "cell": name,
                "storage": name,
                "solve_s": 1.0 + k,
                "bytes_read": 100.0 * (1 + k * (most - 1) / 2),
            }
            for k, name in enumerate(["fp64", "fp32", "fp16"])
        ]
        assert (TEMPLATES["traffic"](observations(rows), 3.3, None) is not None) == drawn


def test_bits_of_vectors_are_the_means_that_rows_hold():
    way = {"status": "ok", "vectors": "blocks", "iterations": 9, "mean_bits": 24.5}
    row = {"cell": "0", "experiment": "x", "kind": "vector_bits", "status": "ok", "graph": "g", "ways_found": [way]}
    assert observations([row]).bits.tolist() == [24.5]


def test_rules_are_named_first():
    rule = json.dumps({"at_most": 1, "rises": {"0": 1}, "rule": "schedule"})
    assert _word("controller_json", rule, set()) == "schedule+at_most=1+rises=0:1"


def test_rows_without_measurements_have_no_figures(rows):
    assert list(drawings([{**row, "status": "unavailable"} for row in rows])) == []


def test_a_legend_names_the_bits_that_were_read_where_several_share_a_colour():
    assert [entry.get_label() for entry in key([20, 12, 16, 64])] == ["64 bits", "20, 16 bits", "12 bits"]
    assert [entry.get_label() for entry in key(range(29, 35))] == ["29 to 34 bits"]


def test_every_number_of_bits_has_a_colour():
    assert all(colour(bits) == shade for bits, shade in PALETTE.items())
    assert colour(2) == PALETTE[8]


def test_the_time_of_a_conversion_is_that_of_its_bytes_read_and_written():
    row = {"cell": "0", "experiment": "mine", "status": "ok", "values": 10, "storage": "fp32", "bytes": 80}
    rates = {"convert_gbps": 2e-9 * 80 / 0.5, "convert_least_gbps": 2e-9 * 80, "convert_most_gbps": 2e-9 * 80 / 0.25}
    (line,) = observations([{**row, **rates}]).itertuples()
    assert (line.seconds, line.least, line.most) == pytest.approx((0.5, 0.25, 1.0))


def rows_on(cases):
    """Return rows of contestants of which each is twice as fast as the one before, and slower on its last graph."""
    return [
        {"cell": f"{name} {graph}", "experiment": "mine", "status": "ok", "graph": graph, "engine": "cpu"}
        | {"storage": name, "solve_s": 2.0**-place * (1 + 9 * (graph == "d"))}
        for place, (name, graphs) in enumerate(cases.items())
        for graph in graphs
    ]


def test_means_of_speedups_are_over_the_graphs_that_all_have_and_the_caption_says_who_is_left_out():
    rows = rows_on({"fp64": "abcd", "fp32": "abcd", "cpms2": "abc", "cpms4": "a"})
    assert {line["called"]: line["speedup"] for line in speedups(observations(rows))} == {"fp32": 2.0, "cpms2": 4.0}
    drawing = drawn_alone(rows, "speedup")
    assert "over the same 3 graphs for all" in drawing.caption
    assert "; 3 of 4 graphs: those with results of all contestants here; not ranked" in drawing.caption
    assert "; not ranked, since without results on some of these: cpms4" in drawing.caption


def caption_of_speedup(rows):
    return drawn_alone(rows, "speedup").caption


@pytest.mark.parametrize("graphs", ["a", "abc"])
def test_captions_of_speedups_count_the_graphs_and_those_that_grow_with_the_ranks(graphs):
    grown = ["uniform:nodes=RANKS*5,edges=RANKS*9,seed=1", "rmat:scale=4+LOG2RANKS"]
    count = "on 1 graph (a)" if graphs == "a" else "over the same 3 graphs for all"
    for more in range(3):
        caption = caption_of_speedup(rows_on({storage: [*graphs, *grown[:more]] for storage in ("fp64", "fp32")}))
        assert count in caption
        assert ["grow" not in caption, "1 graph grows with" in caption, "2 graphs grow with" in caption][more]


def test_bits_of_the_problem_are_told_apart_and_formats_of_a_choice_are_stated():
    rows = [
        {**row, "dtype": "float64" if row["graph"] == "a" else "float32"} for row in rows_on({"x": "ab", "y": "ab"})
    ]
    rows = [{**row, "cell": f"{row['cell']}{k}", "k": k} for row in rows for k in (5, 10)]
    found = {line["called"]: line["fewest_bits"] for line in speedups(observations(rows), "x")}
    assert found == {"y, 64 bits": 64, "y, 32 bits": 32}
    assert "2 problems of 64 bits and 2 of 32 bits" in caption_of_speedup(rows)
    chosen = rows_on({"fp64": "abc", "lossless": "abc"})
    for row in chosen:
        few = row["storage"] == "lossless" and row["graph"] != "a"
        row |= {"stored_as": "codes8", "bits": 8} if few else {"stored_as": "fp64", "bits": 64}
    assert "; by graph: lossless as codes8 (2), fp64 (1);" in caption_of_speedup(chosen).replace(". Cont", "; Cont")


def test_contestants_with_wrong_ranks_are_not_ranked():
    rows = [{**row, "add": row["storage"]} for row in rows_on({"add_rightly": "ab", "once": "ab", "add_nothing": "ab"})]
    rows = [{**row, "storage": "fp64"} for row in rows]
    assert [line["called"] for line in speedups(observations(rows), "add_rightly")] == ["once"]


def test_captions_promise_an_interval_where_one_is_drawn_alone():
    one = drawn_alone(rows_on({"fp64": "a", "fp32": "a"}), "speedup")
    assert "interval;" in one.caption
    assert "95 %" not in one.caption


@pytest.mark.parametrize(("column", "noun"), [("error_l1", "errors"), ("residual_l1", "residuals")])
def test_errors_that_differ_are_stated_beside_speedups(column, noun):
    rows = [
        {**row, column: 1e-9 if row["storage"] == "fp64" else 1e-3}
        for row in rows_on(dict.fromkeys(["fp64", "fp32"], "a"))
    ]
    one = drawn_alone(rows, "speedup")
    assert f"not at equal {noun}: they are 1 to 1e+06 times" in one.caption


def test_contestants_are_named_by_every_key_of_their_names():
    row = {"cell": "0", "experiment": "mine", "status": "ok", "graph": "path", "engine": "mpi", "solve_s": 1.0}
    found = observations([{**row, "ranks": 1}, {**row, "cell": "1", "ranks": 2}])
    assert found.called.tolist() == ["ranks=1", "ranks=2"]
    assert set(found.named_by) == {"ranks"}
