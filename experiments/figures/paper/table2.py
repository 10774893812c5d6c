"""Table II: iterations at each precision, beside what the paper prints."""

import pandas as pd

from cpms.experiment.report.output import label, printed
from cpms.experiment.report.stand_ins import STAND_INS, in_order

NEEDS = ["table2", "standins"]
CAPTION = "Iterations by bits written, as the paper counts the sweep of a rise, which reads fewer"
PRINTED = (
    "What the paper prints in its Table II, parts and total, and by how much our iterations differ: in all, and at "
    "each number of bits; 0 is as printed. A printed total that is not the sum of its parts is marked"
)
COLUMNS = {"fp64": (64,), "cpms2": (32, 64), "cpms4": (16, 32, 48, 64)}


def show(rows, out):
    rows = rows[rows.status == "ok"]
    golden = printed("golden").set_index("graph").iterations
    paper = printed("table2").set_index("graph")
    lines, printed_lines = [], []
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
        lines.append(line)
        if first.stand_in_for in paper.index:
            printed_lines.append({"graph": label(first), **_printed(paper.loc[first.stand_in_for], by_storage)})
    out.table(_in_order(lines), caption=CAPTION, timed=False)
    if printed_lines:
        table = _in_order(printed_lines)
        out.table(table, suffix="_printed", caption=f"{PRINTED}. {STAND_INS}", timed=False)


def _in_order(lines):
    table = pd.DataFrame(lines)
    return table.set_index("graph").loc[in_order(table.graph)].reset_index()


def _slower(by_storage, iterations):
    """Return the storages whose iterations differ from those of fp64 by more than 2 % and one."""
    allowed = max(1, 0.02 * iterations)
    return [s for s in ("cpms2", "cpms4") if s in by_storage and abs(by_storage[s].iterations - iterations) > allowed]


def _printed(known, ours):
    """Return what the paper prints for a graph, and by how much each of our counts differs."""
    line = {}
    for storage, all_bits in COLUMNS.items():
        single = storage == "fp64"
        parts = [int(known[storage if single else f"{storage}_{bits}"]) for bits in all_bits]
        line[storage] = f"{parts[0]}" if single else _parts(parts, int(known[f"{storage}_total"]))
        line[f"{storage} differs"] = _apart(ours.get(storage), all_bits, parts)
    return line


def _apart(row, all_bits, parts):
    """Return how far our iterations are from the printed ones at each number of bits, and in all."""
    if row is None:
        return ""
    counts = [row.iterations_by_bits_written.get(str(bits), 0) for bits in all_bits]
    each = [mine - theirs for mine, theirs in zip(counts, parts, strict=True)]
    total = f"{sum(each):+d}" if sum(each) else "0"
    return total if len(each) == 1 else f"{total} ({', '.join(f'{k:+d}' if k else '0' for k in each)})"


def _parts(parts, total):
    """Return parts and printed total; a total that is not their sum is marked."""
    text = "+".join(str(part) for part in parts)
    return f"{text} = {total}" if sum(parts) == total else f"{text} = {sum(parts)} (printed {total})"
