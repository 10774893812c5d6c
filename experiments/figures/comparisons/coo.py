"""Products with edges in COO: milliseconds of each, and how many times those of cuSPARSE in COO."""

import numpy as np
import pandas as pd

from cpms.experiment.report.output import label

NEEDS = ["gpu_coo"]
OURS = ["coo_streams", "reduce_by_key", "coo_basic"]


def show(rows, out):
    rows = rows[rows.status == "ok"]
    lines = [line for _, row in rows.iterrows() for line in _lines(row)]
    out.table(
        pd.DataFrame(lines),
        caption=f"Products on {rows.gpu.iloc[0]}, medians; times: of cuSPARSE in COO, which chose the algorithm named",
    )


def _lines(row):
    for storage in ("fp64", "fp32"):
        found = {(c["engine"], c["layout"]): c for c in row.contestants if c["storage"] == storage}
        library = found.get(("cusparse", "coo"))
        if library is None:
            continue
        line = {
            "graph": label(row),
            "edges": row.edges,
            "storage": storage,
            "cuSPARSE CSR, ms": found["cusparse", "csr"]["median_ms"],
            "cuSPARSE COO, ms": library["median_ms"],
            "algorithm": library.get("algorithm"),
        }
        for engine in OURS:
            took_ms = found.get((engine, "coo"), {}).get("median_ms", np.nan)
            line[f"{engine}, ms"] = took_ms
            line[f"{engine}, times"] = took_ms / library["median_ms"]
        line["coo_streams, GB/s"] = library["least_bytes"] / line["coo_streams, ms"] / 1e6
        yield line
