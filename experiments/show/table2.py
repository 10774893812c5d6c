"""Table II: iterations at each precision, beside what the paper prints."""

import pandas as pd

from cpms.experiment.present import label, printed

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
        if set(by_storage) != set(COLUMNS):
            continue
        double = by_storage["fp64"]
        line = {"graph": label(double), "expected": golden.get(double.graph_name, "")}
        for storage, all_bits in COLUMNS.items():
            counts = by_storage[storage].iterations_by_bits_written
            if len(all_bits) > 1:
                line |= {f"{storage} {bits}": counts.get(str(bits), 0) for bits in all_bits}
            line[f"{storage} total"] = by_storage[storage].iterations
        allowed = max(1, 0.02 * double.iterations)
        over = [s for s in ("cpms2", "cpms4") if abs(by_storage[s].iterations - double.iterations) > allowed]
        line["more than fp64"] = ", ".join(over)
        lines.append(line | _printed(paper, double.stand_in_for))
    out.table(pd.DataFrame(lines), caption=CAPTION)


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
