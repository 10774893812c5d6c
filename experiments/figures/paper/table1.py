"""Table I: sizes and empty rows, beside what the paper prints."""

import pandas as pd

from cpms.experiment.report.output import label, printed
from cpms.experiment.report.stand_ins import in_order, of_kind

NEEDS = ["table1"]


def show(rows, out):
    rows = rows[rows.status == "ok"]
    paper = printed("table1").set_index("graph")
    lines = []
    for _, row in rows.iterrows():
        known = paper.loc[row.stand_in_for] if row.stand_in_for in paper.index else None
        line = {
            "graph": label(row),
            "n": row.nodes,
            "nz": row.edges,
            "empty rows": row.empty_rows,
            "self-loops": row.self_loops,
            "stand-in": of_kind(row.stand_in_for),
        }
        for column, key in (("n", "nodes"), ("nz", "edges"), ("empty rows", "empty_rows")):
            line[f"paper {column}"] = "" if known is None else f"{known[key]}"
            line[f"{column} differs"] = "" if known is None else _difference(row[key], known[key])
        lines.append(line)
    table = pd.DataFrame(lines)
    out.table(
        table.set_index("graph").loc[in_order(table.graph)].reset_index(),
        caption="Graphs (symmetric ones as their lower triangle), and the paper's Table I; stand-ins are of the kind "
        "and size of its graphs",
        timed=False,
    )


def _difference(ours, printed_value):
    return "same" if ours == printed_value else f"{(ours - printed_value) / printed_value:+.2%}"
