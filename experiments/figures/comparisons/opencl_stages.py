"""Jiang's stages in OpenCL: Figures 1 to 7, work-group sizes, and the table of sub-graphs beside the report's."""

import itertools

import numpy as np
import pandas as pd

from cpms.base.text.counted import counted
from cpms.experiment.report import panels
from cpms.experiment.report.captions import spread
from cpms.experiment.report.intervals import UNSEEN, interval_text, median_ends, ratio_ends
from cpms.experiment.report.output import printed
from cpms.experiment.report.palette import NEUTRAL, colour
from cpms.formats.formats import format_named

NEEDS = ["opencl_stages", "gpu_opencl"]
STAGES = {"coo": "edges, atomic", "coo_exchange": "edges, exchange", "pattern": "rows"}
GROUP = "work-items in a group"
_APART = 0.01
"""Million nodes by which marks of our ratios lie beside their number, so that none hides another."""
KERNELS = (
    "Edges: a work-item each, whose sum is atomic; rows: a work-item each; exchange: a kernel that stores first what "
    "each node passes on"
)
"""The names of stages, for captions."""
ADDS = {"add_atomically": "atomic sum", "add_plainly": "plain sum (wrong)", "add_nothing": "no sum (wrong)"}


def show(rows, out):
    rows = rows[rows.status == "ok"]
    for experiment in NEEDS:
        here = rows[rows.experiment == experiment]
        if len(here):
            _tables_and_figures(here, out, experiment, "_gpu" if experiment.startswith("gpu") else "")


def _results(rows):
    """Return a line a contestant."""
    results = pd.DataFrame(
        [
            {"purpose": row.purpose, "graph": row.graph_name, "nodes": row.nodes, "edges": row.edges,
             "iterations": row.iterations, **result}
            for row in rows.itertuples() for result in row.results if result.get("status", "ok") == "ok"
        ]
    )  # fmt: skip
    results["ms an iteration"] = 1e3 * results.run_s / results.iterations
    results["place"] = [_place(result) for _, result in results.iterrows()]
    results["contestant"] = [f"{_name(result)} {_where(result)}".strip() for _, result in results.iterrows()]
    return results


def _tables_and_figures(rows, out, experiment, suffix):
    results = _results(rows)
    first = rows.iloc[0]
    platform = first.opencl_platform.partition("  ")[0]  # PoCL names all options of its build after two spaces.
    where = f"{platform} on {first.opencl_cores} shared cores, {first.cpu}"
    if suffix:
        where = f"{first.opencl_device} ({platform}); cores are of {first.cpu}"
    found = dict(list(results.groupby("purpose", sort=False)))
    for purpose, write in {"stages": _stages, "work_groups": _work_groups, "scaling": _scaling}.items():
        if purpose in found:
            write(found[purpose], where, out, suffix, [experiment])
    parts, curves = _parts(found), _curves(found)
    if parts:
        out.figure(
            _figure(parts, out),
            suffix=suffix,
            caption=f"Stages of Jiang's report on {where}: medians, of whole runs with "
            f"{interval_text(rows, 'run_samples_s')}; of parts of an iteration only medians were recorded. Numbers in "
            f"brackets: the figures of his report that a panel repeats. {KERNELS}. Wrong: sums that lose terms, or are "
            "none, timed to show what atomic ones cost. Copies: of the ranks, beside the kernel of the exchange; "
            "memcpy: in main memory. The serial program has no parts: its bar in 2 is a whole "
            f"iteration{_long_alone(found)}",
            of=[experiment],
        )
    if curves:
        out.figure(
            _curved(curves, out),
            suffix=f"{suffix}_curves",
            caption=f"Speed-up by nodes, and times by work-groups, on {where}: medians with "
            f"{interval_text(rows, 'run_samples_s')}{UNSEEN}, in 32 bits, the serial program in 64. Above, the stage "
            "that the title names on sub-graphs of the first nodes of its graph; grey: Figure 7 of Jiang's report "
            "as printed, of a GPU over 4 cores of another machine. Marks of one number of nodes, or of work-items, lie "
            f"beside each other. Driver's: work-groups of the size that the driver chooses{_between(found)}. {KERNELS}",
            of=[experiment],
        )
    if not (parts or curves):
        out.leave_out(f"figure opencl_stages{suffix}", "its panels compare contestants that the rows do not have")


def _long_alone(found):
    """Return where the long runs were made, if not everywhere that the others were."""
    if not {"stages", "long"} <= found.keys():
        return ""
    here, everywhere = (
        dict.fromkeys(_where(result) for _, result in found[purpose].iterrows() if result.engine == "opencl")
        for purpose in ("long", "stages")
    )
    return f". Of the OpenCL devices 6 was run on {' and '.join(here)} alone" if set(here) < set(everywhere) else ""


def _between(found):
    """Return where a curve of work-groups breaks, as a text for a caption."""
    given = found["work_groups"].work_group if "work_groups" in found else pd.Series(dtype=int)
    sizes = np.sort(given[given > 0].unique())
    gaps = [f"{low:g} and {high:g}" for low, high in itertools.pairwise(sizes) if high > 2 * low]
    return f"; no size between {', nor between '.join(gaps)} was run" if gaps else ""


def _stages(results, where, out, suffix, of):
    table = pd.DataFrame(
        {
            "graph": results.graph,
            "what": [_name(result) for _, result in results.iterrows()],
            "storage": results.storage,
            "on": results.place,
            "busy cores": results.busy_cores,
            "edges add by": results["add"].map(ADDS).where(results.layout.isin(["coo", "coo_exchange"]), ""),
            "ms an iteration": results["ms an iteration"],
            "spread, %": [100 * spread(samples) for samples in results.run_samples_s],
            "calc, ms": 1e3 * results.add_s,
            "begin or exchange, ms": 1e3 * results.begin_s,
            "norms, ms": 1e3 * results.norms_s,
            "copy on device, ms": 1e3 * results.copy_on_device_s,
            "copy through host, ms": 1e3 * results.copy_through_host_s,
            "memcpy, ms": 1e3 * results.copy_in_memory_s,
            "error": results.error_l1,
        }
    )
    caption = f"Figures 1 to 5: {where}; medians; spread: interquartile range of whole runs over their median"
    best = {"ms an iteration": "least by graph,storage"}
    right = ("right sums", ~table["edges add by"].str.contains("wrong"))
    out.table(table, suffix=f"{suffix}_parts", caption=caption, best=best, among=right, of=of)


def _work_groups(results, where, out, suffix, of):
    table = results.pivot_table(index="work_group", columns="layout", values="ms an iteration")
    table = table.reindex(columns=list(STAGES)).rename(columns=STAGES)
    table = table.rename_axis(index=GROUP, columns=None).reset_index()
    # The driver's choice last.
    table = table.sort_values(GROUP, key=lambda sizes: sizes.replace(0, np.inf))
    table[GROUP] = table[GROUP].astype(int).astype(str).replace("0", "driver's choice")
    out.table(
        table,
        suffix=f"{suffix}_work_groups",
        caption=f"Milliseconds an iteration by work-items in a work-group, {results.graph.iloc[0]}: {where}; medians",
        of=of,
    )


def _scaling(results, where, out, suffix, of):
    table = _speedups(results)
    if table.empty:
        out.leave_out(f"table opencl_stages{suffix}", "engine opencl has no rows of sub-graphs")
        return
    paper, texts = (printed("jiang", as_text=as_text) for as_text in (False, True))
    places = {"CPU, 4 cores": "cpu_4_cores_s", "GPU, 280 cores": "gpu_280_cores_s"}
    for name, column in {**{f"Jiang, {place}, s": column for place, column in places.items()},
                         "Jiang, GPU / CPU": "speedup"}.items():  # fmt: skip
        table[name] = table.nodes.map(dict(zip(paper.nodes, texts[column], strict=True)))
    like = list(places)[bool(suffix)]
    theirs = table.nodes.map(paper.set_index("nodes")[places[like]])
    table[f"Jiang, {like}, time over the first line's"] = theirs / theirs.iloc[0]
    caption = (
        f"Sub-graphs: {where}; medians, float32 (serial: float64). Jiang's report used sub-graphs of Wikipedia's links "
        "and does not state its iterations, so only ratios compare"
    )
    out.table(table, suffix=suffix, caption=caption, of=of)


def _speedups(results):
    """Return a line a sub-graph: milliseconds in each place and of the serial program, and how the last compares."""
    lines = []
    for nodes, cells in results.groupby("nodes"):
        ours = cells[cells.engine == "opencl"].set_index("place")["ms an iteration"]
        if ours.empty:
            continue
        serial = cells[cells.engine == "serial"]["ms an iteration"].min()
        lines.append(
            {
                "nodes": nodes,
                "edges": cells.edges.iloc[0],
                **{f"{place}, ms an iteration": ms for place, ms in ours.items()},
                "serial program, ms": serial,
                f"{ours.index[-1]} / {ours.index[0]}": ours.iloc[0] / ours.iloc[-1],
                f"{ours.index[-1]} / serial": serial / ours.iloc[-1],
                f"{ours.index[-1]}, time over the first line's": ours.iloc[-1],
            }
        )
    table = pd.DataFrame(lines)
    if lines:
        table.iloc[:, -1] /= table.iloc[0, -1]
    return table


def _parts(found):
    """Return the panels of bars that there is something for: their number, title, and function that draws one."""
    drawn = []
    if "stages" in found:
        drawn += _stage_panels(found["stages"])
    if "long" in found:
        long = found["long"]
        title = f"{long.graph.iloc[0]}, {long.iterations.iloc[0]:,} iterations (6)"
        drawn += _bars(title, long, lambda r: r.run_s, lambda _: 1.0, of="s a run")
    return drawn


def _curves(found):
    """Return the panels of curves that there is something for: title, and function that draws one."""
    drawn = []
    if "scaling" in found and not _speedups(found["scaling"]).empty:
        first = found["scaling"][found["scaling"].engine == "opencl"].iloc[0]
        title = f"{first.graph.partition(':')[0]}, {STAGES[first.layout]}, as Figure 7"
        drawn.append((title, lambda axes: _speedup_panel(axes, found["scaling"])))
    if "work_groups" in found and (found["work_groups"].work_group > 0).any():
        title = f"work-group sizes, {found['work_groups'].graph.iloc[0]}"
        drawn.append((title, lambda axes: _work_group_panel(axes, found["work_groups"])))
    return drawn


def _figure(drawn, out):
    """Draw panels of bars below each other, in two columns of about one height where there is room for these."""
    from matplotlib.figure import Figure

    heights = [0.61 + 0.135 * count for count, _, _ in drawn]
    columns = [range(len(drawn))]
    if out.double and len(drawn) > 1:
        cut = min(range(1, len(drawn)), key=lambda at: max(sum(heights[:at]), sum(heights[at:])))
        columns = [range(cut), range(cut, len(drawn))]
    figure = Figure(figsize=(out.width, 0.3 + max(sum(heights[place] for place in column) for column in columns)))
    for side, column in zip(figure.add_gridspec(1, len(columns)), columns, strict=True):
        # Bars of a column are as thick as each other, however many a panel has.
        rows = side.subgridspec(len(column), 1, height_ratios=[drawn[place][0] + 0.6 for place in column])
        for cell, place in zip(rows, column, strict=True):
            _, title, draw = drawn[place]
            axes = figure.add_subplot(cell)
            draw(axes)
            axes.set_title(title)
    panels.legend(figure, panels.key((32, 64)))
    return figure


def _curved(drawn, out):
    """Draw panels of curves, with their legends above them."""
    figure, axes = panels.grid(out.width, len(drawn), 2.2, columns=(1, 2))
    for panel, (title, draw) in zip(axes, drawn, strict=True):
        draw(panel)
        panels.legend_above(panel, title)
    return figure


def _stage_panels(stages):
    graph = stages.graph.iloc[0]
    small = stages[stages.graph == graph]
    atomic = small[(small["add"] == "add_atomically") & (small.storage == "fp32")]
    naive, serial = atomic[atomic.layout == "coo"], small[small.engine == "serial"]

    def ten(result):
        return 10 * result["ms an iteration"]

    def of_ten(result):
        return 1e4 / result.iterations

    exchanged = atomic[atomic.layout == "coo_exchange"]
    drawn = _bars(f"{graph}, 10 iterations (1, 4)", pd.concat([naive, exchanged, serial]), ten, of_ten, of="ms a run")
    drawn += _bars(f"{graph}, sums (2)", pd.concat([naive, serial]), _calc)
    if len(naive) and len(exchanged):
        first, second = naive.iloc[-1], exchanged.iloc[-1]
        drawn.append((4, f"{graph}, copies, {_where(first)} (3)", lambda axes: _copies(axes, first, second)))
    large = stages[(stages.graph == stages.graph.iloc[-1]) & (stages.layout == "coo") & (stages.storage == "fp32")]
    title = f"{stages.graph.iloc[-1]}, sums (5)"
    return drawn + _bars(title, large, lambda r: 1e3 * r.add_s, by_sum=True)


def _calc(result):
    """Return the time of the sums of an iteration; of the serial program, of a whole one."""
    return result["ms an iteration"] if result.engine == "serial" else 1e3 * result.add_s


def _bars(title, chosen, value, run_factor=None, *, of="ms an iteration", by_sum=False):
    """Return a panel with a bar a contestant; with intervals where a factor from seconds of a run to it is given."""
    if chosen.empty:
        return []
    results = [result for _, result in chosen.iterrows()]
    names = [
        ", ".join(filter(None, [ADDS[result["add"]] if by_sum else _name(result), _where(result)]))
        for result in results
    ]

    def draw(axes):
        for place, result in enumerate(results):
            axes.barh(place, value(result), color=colour(format_named(result.storage).bits(None)), height=0.7)
            if run_factor is not None:
                low, high = (run_factor(result) * end for end in median_ends(result.run_samples_s))
                axes.plot([low, high], [place, place], color="#222222", linewidth=0.8)
        _finish(axes, names, [value(result) for result in results], of)

    return [(len(names), title, draw)]


def _finish(axes, names, lengths, of):
    """Name bars, and state the lengths of those that are too short to be seen."""
    panels.named_rows(axes, names)
    axes.locator_params(axis="x", nbins=5)
    panels.state_small(axes, lengths, range(len(names)), share=0.06, digits=3)
    axes.grid(visible=False)
    axes.set_xlabel(of, labelpad=1.5)


def _copies(axes, naive, exchanged):
    values = {
        "through the host": naive.copy_through_host_s,
        "on the device": naive.copy_on_device_s,
        "exchange": exchanged.begin_s,
        "memcpy": naive.copy_in_memory_s,
    }
    axes.barh(range(len(values)), [1e3 * value for value in values.values()], color=colour(32), height=0.7)
    _finish(axes, list(values), [1e3 * value for value in values.values()], "ms an iteration")


def _speedup_panel(axes, results):
    table, paper = _speedups(results), printed("jiang")
    axes.plot(paper.nodes / 1e6, paper.speedup, "o-", color=NEUTRAL, ms=4, label="printed, GPU / 4 cores")
    samples = [_samples(results[results.nodes == nodes]) for nodes in table.nodes]
    for base, (ratio, marker, apart) in enumerate(zip(table.columns[-3:-1], "s^", (-_APART, _APART), strict=True)):
        style = {"marker": marker, "color": colour(32), "ms": 4, "lw": 0.8, "mfc": "white" if marker == "^" else None}
        _curve(axes, table.nodes / 1e6 + apart, table[ratio], [ratio_ends(each[base], each[2]) for each in samples],
               table.nodes / 1e6, "", label=ratio.removeprefix("NVIDIA "), **style)  # fmt: skip
    axes.set(xlabel="million nodes", ylabel="speed-up", xlim=(0, None))
    axes.locator_params(axis="x", nbins=5)
    panels.logarithmic(axes, "y")
    axes.set_ylim(bottom=min(1.0, axes.get_ylim()[0]))


def _samples(cells):
    """Return the samples of the runs in the first place, of the serial program and of those in the last place."""
    ours, serial = cells[cells.engine == "opencl"].run_samples_s, cells[cells.engine == "serial"].run_samples_s
    return ours.iloc[0], serial.iloc[0] if len(serial) else None, ours.iloc[-1]


def _curve(axes, x, y, ends_of, places, name, **style):
    """Draw a curve with an interval through each mark, at places that have names."""
    reach = [[max(middle - low, 0.0), max(high - middle, 0.0)] for middle, (low, high) in zip(y, ends_of, strict=True)]
    curve = axes.errorbar(x, y, yerr=np.transpose(reach), elinewidth=0.7, **style)
    panels.name_places(curve[0], places, name)


def _work_group_panel(axes, results):
    """Draw times by size, joined if a size is twice the last; at the right, the driver's, whose size is not known."""
    sizes = np.sort(results[results.work_group > 0].work_group.unique())
    octaves, stages = np.log2(sizes[-1] / sizes[0]), results.layout.unique()
    own = np.log2(sizes[-1]) + max(1.5, 0.2 * octaves)
    for place, (stage, cells) in enumerate(results.groupby("layout", sort=False)):
        style = {"marker": panels.marker(stage), "ms": 3.5, "color": colour(32), "lw": 0.8}
        style |= {"markerfacecolor": "white"} if stage == "coo_exchange" else {}
        apart = panels.beside(place, len(stages), 0.018 * len(stages) * (own - np.log2(sizes[0])))
        known, chosen = cells[cells.work_group > 0].sort_values("work_group"), cells[cells.work_group == 0]
        runs = [run for _, run in known.groupby((np.log2(known.work_group).diff() > 1).cumsum())]
        for part, line in (*((run, "-") for run in runs), (chosen, "")):
            at = np.log2(part.work_group.where(part.work_group > 0, 2.0**own)) + apart
            if len(part):
                ends_of = [
                    [1e3 * end / count for end in median_ends(samples)]
                    for samples, count in zip(part.run_samples_s, part.iterations, strict=True)
                ]
                style |= {"label": STAGES[stage] if line and part is runs[0] else None}
                places = part.work_group if line else ["driver's"]
                _curve(axes, at, part["ms an iteration"], ends_of, places, STAGES[stage], linestyle=line, **style)
    ticks = [sizes[-1]]
    for size in sizes[::-1]:
        if np.log2(ticks[-1] / size) >= max(1, np.ceil(octaves / 5)):
            ticks.append(size)
    axes.set_xticks([*np.log2(ticks), own], [*(f"{size:g}" for size in ticks), "driver's"])
    axes.set_xticks(np.log2(sizes), minor=True)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("work-items in a work-group")
    axes.set_ylabel("ms an iteration")


def _name(result):
    return STAGES[result.layout] if result.engine == "opencl" else result.engine


def _place(result):
    """Return where a contestant ran: the name of its GPU, or how many cores of a processor."""
    if result.engine != "opencl":
        return "1 core" if result.engine == "serial" else ""
    if str(result.get("device")).startswith("NVIDIA"):
        return result.device
    return counted(int(result.cores), "core")


def _where(result):
    return result.place.removeprefix("NVIDIA ") if result.engine == "opencl" else ""
