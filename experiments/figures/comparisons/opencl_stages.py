"""Jiang's stages in OpenCL: Figures 1 to 7, work-group sizes, and the table of sub-graphs beside the report's."""

import numpy as np
import pandas as pd

from cpms.experiment.report.output import printed

NEEDS = ["opencl_stages", "gpu_opencl"]
STAGES = {"coo": "edges, atomic", "coo_exchange": "edges, exchange", "pattern": "rows"}
ADDS = {"add_atomically": "atomic sum", "add_plainly": "plain sum (wrong)", "add_nothing": "no sum (wrong)"}


def show(rows, out):
    rows = rows[rows.status == "ok"]
    for experiment in NEEDS:
        here = rows[rows.experiment == experiment]
        if len(here):
            _tables_and_figures(here, out, "_gpu" if experiment.startswith("gpu") else "")


def _tables_and_figures(rows, out, suffix):
    results = pd.DataFrame(
        [
            {"purpose": row.purpose, "graph": row.graph_name, "nodes": row.nodes, "edges": row.edges,
             "iterations": row.iterations, **result}
            for row in rows.itertuples() for result in row.results if result.get("status", "ok") == "ok"
        ]
    )  # fmt: skip
    results["ms an iteration"] = 1e3 * results.run_s / results.iterations
    results["place"] = [_place(result) for _, result in results.iterrows()]
    first = rows.iloc[0]
    where = f"{first.opencl_platform} on {first.opencl_cores} shared cores, {first.cpu}"
    if suffix:
        where = f"{first.opencl_device} ({first.opencl_platform}); cores are of {first.cpu}"
    found = dict(list(results.groupby("purpose", sort=False)))
    for purpose, write in {"stages": _stages, "work_groups": _work_groups, "scaling": _scaling}.items():
        if purpose in found:
            write(found[purpose], where, out, suffix)
    figure = _figure(found)
    if figure is None:
        out.leave_out(f"figure opencl_stages{suffix}", "its panels compare contestants that the rows do not have")
    else:
        out.figure(figure, suffix=suffix)


def _stages(results, where, out, suffix):
    table = pd.DataFrame(
        {
            "graph": results.graph,
            "what": [_name(result) for _, result in results.iterrows()],
            "storage": results.storage,
            "on": results.place,
            "busy": results.busy_cores,
            "edges add by": results["add"].map(ADDS).where(results.layout.isin(["coo", "coo_exchange"]), ""),
            "ms an iteration": results["ms an iteration"],
            "calc, ms": 1e3 * results.add_s,
            "begin or exchange, ms": 1e3 * results.begin_s,
            "norms, ms": 1e3 * results.norms_s,
            "copy on device, ms": 1e3 * results.copy_on_device_s,
            "copy through host, ms": 1e3 * results.copy_through_host_s,
            "memcpy, ms": 1e3 * results.copy_in_memory_s,
            "error": results.error_l1,
        }
    )
    out.table(table, suffix=f"{suffix}_parts", caption=f"Figures 1 to 5: {where}; medians")


def _work_groups(results, where, out, suffix):
    table = results.pivot_table(index="work_group", columns="layout", values="ms an iteration")
    table = table.reindex(columns=list(STAGES)).rename(columns=STAGES).reset_index()
    # The driver's choice last.
    table = table.sort_values("work_group", key=lambda sizes: sizes.replace(0, np.inf))
    table["work_group"] = table["work_group"].astype(int).astype(str).replace("0", "driver's choice")
    out.table(
        table,
        suffix=f"{suffix}_work_groups",
        caption=f"Milliseconds an iteration by work-items in a work-group, {results.graph.iloc[0]}: {where}; medians",
    )


def _scaling(results, where, out, suffix):
    table = _speedups(results)
    if table.empty:
        out.leave_out(f"table opencl_stages{suffix}", "engine opencl has no rows of sub-graphs")
        return
    paper = printed("jiang").set_index("nodes")
    for column, name in (("cpu_4_cores_s", "theirs, CPU 4 cores, s"), ("gpu_280_cores_s", "theirs, GPU 280 cores, s"),
                         ("speedup", "theirs, GPU / CPU")):  # fmt: skip
        table[name] = table.nodes.map(paper[column])
    like = "GPU 280 cores" if suffix else "CPU 4 cores"
    table[f"theirs, {like}, time against first"] = table[f"theirs, {like}, s"] / table[f"theirs, {like}, s"].iloc[0]
    caption = (
        f"Sub-graphs: {where}; medians, float32 (serial: float64). The report used sub-graphs of Wikipedia's links "
        "and does not state its iterations, so only ratios compare"
    )
    out.table(table, suffix=suffix, caption=caption)


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
                f"{ours.index[-1]}, time against first": ours.iloc[-1],
            }
        )
    table = pd.DataFrame(lines)
    if lines:
        table.iloc[:, -1] /= table.iloc[0, -1]
    return table


def _figure(found):
    import matplotlib.pyplot as plt

    figure, grid = plt.subplots(2, 4, figsize=(14, 5.5))
    panels = iter(grid.flat)
    if "stages" in found:
        _stage_panels(panels, found["stages"])
    if "long" in found:
        long = found["long"]
        _bars(
            panels,
            f"Figure 6: {long.iterations.iloc[0]:,} iterations, {long.graph.iloc[0]}",
            long,
            lambda r: 1e3 * r.run_s,
        )
    if "scaling" in found and not _speedups(found["scaling"]).empty:
        _speedup_panel(next(panels), found["scaling"])
    if "work_groups" in found and (found["work_groups"].work_group > 0).any():
        _work_group_panel(next(panels), found["work_groups"])
    for unused in panels:
        unused.set_axis_off()
    return figure if any(panel.axison for panel in grid.flat) else None


def _stage_panels(panels, stages):
    graph = stages.graph.iloc[0]
    small = stages[stages.graph == graph]
    atomic = small[(small["add"] == "add_atomically") & (small.storage == "fp32")]
    naive, serial = atomic[atomic.layout == "coo"], small[small.engine == "serial"]
    _bars(
        panels,
        f"Figure 1: ten iterations, {graph}",
        pd.concat([naive, serial]),
        lambda r: 10 * r["ms an iteration"],
    )
    _bars(panels, f"Figure 2: calc, {graph}", naive, lambda r: 1e3 * r.add_s)
    exchanged = atomic[atomic.layout == "coo_exchange"]
    if len(naive) and len(exchanged):
        _copies(next(panels), naive.iloc[-1], exchanged.iloc[-1])
    both = atomic[atomic.layout.isin(["coo", "coo_exchange"])]
    _bars(panels, f"Figure 4: with exchange, {graph}", both, lambda r: 10 * r["ms an iteration"])
    large = stages[(stages.graph == stages.graph.iloc[-1]) & (stages.layout == "coo") & (stages.storage == "fp32")]
    _bars(panels, f"Figure 5: calc, {stages.graph.iloc[-1]}", large, lambda r: 1e3 * r.add_s, by_sum=True)


def _bars(panels, title, chosen, value, *, by_sum=False):
    """Draw a bar a contestant into the next panel, if there are some."""
    if chosen.empty:
        return
    axes = next(panels)
    values = [value(result) for _, result in chosen.iterrows()]
    names = [
        ", ".join(filter(None, [ADDS[result["add"]] if by_sum else _name(result), _where(result)]))
        for _, result in chosen.iterrows()
    ]
    axes.barh(range(len(values)), values, color="#0072B2")
    axes.set_yticks(range(len(values)), names)
    axes.invert_yaxis()
    axes.set_title(title, fontsize=8)
    axes.set_xlabel("ms")


def _copies(axes, naive, exchanged):
    values = {
        "through the host": naive.copy_through_host_s,
        "on the device": naive.copy_on_device_s,
        "exchange": exchanged.begin_s,
        "memcpy": naive.copy_in_memory_s,
    }
    axes.barh(list(values), [1e3 * value for value in values.values()], color="#009E73")
    axes.invert_yaxis()
    axes.set_title(f"Figure 3: copy, {naive.graph}", fontsize=8)
    axes.set_xlabel("ms")


def _speedup_panel(axes, results):
    table, paper = _speedups(results), printed("jiang")
    axes.plot(paper.nodes / 1e6, paper.speedup, "o-", color="#999999", label="report: GPU of 280 cores / CPU of 4")
    for ratio, marker, colour in zip(table.columns[-3:-1], "s^", ("#0072B2", "#D55E00"), strict=True):
        axes.plot(table.nodes / 1e6, table[ratio], f"{marker}-", color=colour, label=ratio)
    axes.set_title("Figure 7: speedup", fontsize=8)
    axes.set_yscale("log")
    axes.set_xlabel("million nodes")
    axes.set_ylim(0.5, 400)
    axes.legend(fontsize=6, loc="upper left")


def _work_group_panel(axes, results):
    sized = results[results.work_group > 0]
    colours = dict(zip(STAGES, ("#D55E00", "#E69F00", "#0072B2"), strict=True))
    for stage, cells in sized.groupby("layout", sort=False):
        axes.plot(cells.work_group, cells["ms an iteration"], "o-", color=colours[stage], label=STAGES[stage])
        for driver in results[(results.work_group == 0) & (results.layout == stage)]["ms an iteration"].head(1):
            axes.axhline(driver, color=colours[stage], linestyle=":", linewidth=0.7)
    axes.set_xscale("log", base=2)
    axes.set_title("Work-groups (dotted: driver's)", fontsize=8)
    axes.set_xlabel("work-items in a work-group")
    axes.set_ylabel(f"ms an iteration, {results.graph.iloc[0]}", fontsize=7)
    axes.legend(fontsize=6)


def _name(result):
    return STAGES[result.layout] if result.engine == "opencl" else result.engine


def _place(result):
    """Return where a contestant ran: the name of its GPU, or how many cores of a processor."""
    if result.engine != "opencl":
        return "1 core" if result.engine == "serial" else ""
    if str(result.get("device")).startswith("NVIDIA"):
        return result.device
    return f"{int(result.cores)} core{'s' if result.cores > 1 else ''}"


def _where(result):
    return result.place if result.engine == "opencl" else ""
