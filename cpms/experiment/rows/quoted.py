"""Times of other programs that were measured outside this framework: rows with a ``source`` in place of a commit.

Such rows are of kind ``quoted``: no configuration makes them and no code of this repository measured them, so figures
name them as quoted. They lie with the package's recorded rows.
"""

from __future__ import annotations

import pandas as pd

from cpms.base.package_data import folder
from cpms.experiment.rows import rows

FILE = folder("experiments") / "results" / "cugraph_quoted.jsonl"
_COLUMNS = {
    ("solve", "fp64"): "fp64_1e-10_ms",
    ("solve", "fp32"): "fp32_1e-6_ms",
    ("edges in main memory to ranks there", "fp64"): "road_ms",
    ("edges on the device to ranks there", "fp64"): "device_road_ms",
}


def cugraph() -> pd.DataFrame:
    """Return cuGraph's quoted times in milliseconds, a line a graph.

    Returns
    -------
    pandas.DataFrame
        ``graph``; ``fp64_1e-10_ms`` and ``fp32_1e-6_ms`` of solves alone; ``road_ms``, from edges in main memory
        to ranks there, and ``device_road_ms``, the same on the device; and ``gpu``, the card of the road's. Of each
        graph some are missing, which are NaN.

    Examples
    --------
    >>> quoted = cugraph().set_index("graph")
    >>> float(quoted.road_ms["torus:side=60,seed=2"])
    22.0
    """
    lines: dict[str, dict[str, float | str]] = {}
    for row in rows.read(FILE):
        name = _COLUMNS[row["purpose"], row["storage"]]
        line = lines.setdefault(row["graph"], {})
        line[name] = round(1e3 * row["solve_s"], 9)
        if name == "road_ms":
            line["gpu"] = row["gpu"]
    table = pd.DataFrame.from_dict(lines, orient="index", columns=[*_COLUMNS.values(), "gpu"])
    return table.rename_axis("graph").reset_index()
