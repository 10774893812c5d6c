"""Table II: iterations at each precision, beside what the paper prints."""

import pandas as pd

from cpms.experiment.report.output import label, printed

NEEDS = ["table2", "standins"]
CAPTION = (
    "Iterations by bits written, as the paper counts the sweep of a rise, which reads fewer; "
    "right, what the paper prints for its graph"
)
COLUMNS = {"fp64": (64,), "cpms2": (32, 64), "cpms4": (16, 32, 48, 64)}


def show(rows, out):
    rows = rows[rows.status == "ok"]
    golden = printed("golden").set_index("graph").iterations
    paper = printed("table2").set_index("graph")
    lines = []
    for _, cells in rows.groupby("graph", sort=False):
        by_storage = {row.storage: row for _, row in cells.iterrows()}
        first, double = cells.iloc[0], by_storage.get("fp64")
        line = {"graph": label(first), "expected": golden.get(first.graph_name, "")}
        for storage, all_bits in COLUMNS.items():
            if storage not in by_storage:
                continue
            counts = by_storage[storage].iterations_by_bits_written
            if len(all_bits) > 1:
                line |= {f"{storage} {bits}": counts.get(str(bits), 0) for bits in all_bits}
            line[f"{storage} total"] = by_storage[storage].iterations
        line["more than fp64"] = "" if double is None else ", ".join(_slower(by_storage, double.iterations))
        lines.append(line | _printed(paper, first.stand_in_for))
    out.table(pd.DataFrame(lines), caption=CAPTION)


def _slower(by_storage, iterations):
    """Return the storages whose iterations differ from those of fp64 by more than 2 % and one."""
    allowed = max(1, 0.02 * iterations)
    return [s for s in ("cpms2", "cpms4") if s in by_storage and abs(by_storage[s].iterations - iterations) > allowed]


def _printed(paper, graph):
    if graph not in paper.index:
        return {"paper fp64": "", "paper cpms2": "", "paper cpms4": ""}
    row = paper.loc[graph]
    return {
        "paper fp64": f"{row.fp64}",
        "paper cpms2": _parts([row.cpms2_32, row.cpms2_64], row.cpms2_total),
        "paper cpms4": _parts([row.cpms4_16, row.cpms4_32, row.cpms4_48, row.cpms4_64], row.cpms4_total),
    }


def _parts(parts, total):
    """Return parts and printed total; a total that is not their sum is marked."""
    text = "+".join(str(part) for part in parts)
    return f"{text} = {total}" if sum(parts) == total else f"{text} = {sum(parts)} (printed {total})"
