"""Conversion in place against the copy bandwidth of the same run."""

NEEDS = ["conversion_cpu"]


def show(rows, out):
    rows = rows[rows.status == "ok"]
    table = rows[["storage", "values", "copy_gbps", "convert_gbps", "restore_gbps"]].copy()
    table["convert / copy"] = table.convert_gbps / table.copy_gbps
    table["restore / copy"] = table.restore_gbps / table.copy_gbps
    out.table(table, caption="Conversion in place, GB/s read plus written, medians")
