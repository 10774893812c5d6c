"""Conversion in place against the copy bandwidth of the same run, on processors and GPUs."""

NEEDS = ["conversion_cpu", "gpu_conversion"]


def show(rows, out):
    rows = rows[rows.status == "ok"]
    on_gpu = rows.experiment == "gpu_conversion"
    table = rows[["storage", "values", "copy_gbps", "convert_gbps", "restore_gbps"]].copy()
    table.insert(0, "device", rows.cpu if "gpu" not in rows else rows.gpu.where(on_gpu, rows.cpu))
    table["convert / copy"] = table.convert_gbps / table.copy_gbps
    table["restore / copy"] = table.restore_gbps / table.copy_gbps
    out.table(table, caption="Conversion in place, GB/s read plus written, medians")
