"""Large random graphs on one GPU and on processors beside the times that Agrawal, Shendre and Goka print."""

import pandas as pd

from cpms.experiment.report.captions import spread
from cpms.experiment.report.output import printed

NEEDS = ["gpu_large", "gpu_large_refine", "large_cpu", "large_cpu_refine"]
METHODS = {"power": "float64", "refine": "refine"}
_REPORT = (
    "Agrawal et al.: the times that Agrawal, Shendre and Goka print, where CUDA is cuSPARSE with cuBLAS on a GPU of "
    "theirs"
)


def show(rows, out):
    rows = rows[rows.status == "ok"]
    paper = printed("agrawal_table1")
    on_gpu = rows.experiment.str.startswith("gpu")
    if on_gpu.any():
        lines = [_on_gpu(key, cells, paper) for key, cells in _grouped(rows[on_gpu])]
        out.table(
            pd.DataFrame(lines).sort_values(["graph", "method"]),
            best={"prepare and solve, s": "least by graph"},
            caption=f"Large random graphs on {rows[on_gpu].gpu.iloc[0]} to 1e-10, medians; a solve brings ranks to "
            f"main memory. {_REPORT}, so that times faster compares two GPUs, too",
            of=NEEDS[:2],
        )
    if not on_gpu.all():
        lines = [_on_processors(key, cells, paper) for key, cells in _grouped(rows[~on_gpu])]
        out.table(
            pd.DataFrame(lines).sort_values(["graph", "processor time, s"], ascending=[True, False]),
            suffix="_processors",
            caption=f"The largest of them on {rows[~on_gpu].threads.iloc[0]:g} threads of {rows[~on_gpu].cpu.iloc[0]} "
            "to 1e-10, one solve each. The machine was shared, and busy cores says how much of it the solve had, so "
            "only its processor time compares: of the whole call, with preparation and certificate. "
            f"{_REPORT}, of solves",
            of=NEEDS[2:],
        )


def _grouped(rows):
    return rows.groupby(["graph_name", "method", "engine"], sort=False)


def _theirs(cells, paper):
    return paper[paper.nodes == cells.nodes.iloc[0]].reindex(range(len(paper))).bfill().iloc[0]


def _head(key, cells):
    graph, method, engine = key
    return {
        "graph": graph,
        "method": METHODS[method],
        "engine": engine,
        "storage": cells.storage.iloc[0],
        "iterations": int(cells.iterations.iloc[0]),
        "residual": cells.residual_l1.max(),
    }


def _on_gpu(key, cells, paper):
    theirs, whole_s = _theirs(cells, paper), cells.prepare_s + cells.solve_s
    return _head(key, cells) | {
        "prepare, s": cells.prepare_s.median(),
        "sweeps, s": cells.seconds_by_bits_s.map(lambda by_bits: sum(by_bits.values())).median(),
        "solve, s": cells.solve_s.median(),
        "prepare and solve, s": whole_s.median(),
        "spread, %": 100 * spread(whole_s),
        "Agrawal et al., CUDA, s": theirs.cuda_ms / 1e3,
        "Agrawal et al., serial, s": theirs.serial_ms / 1e3,
        "times faster than their CUDA": theirs.cuda_ms / 1e3 / whole_s.median(),
    }


def _on_processors(key, cells, paper):
    whole_s = cells.prepare_s + cells.solve_s + cells.certify_s
    return _head(key, cells) | {
        "call, s": whole_s.median(),
        "busy cores": cells.busy_cores.median(),
        "processor time, s": (whole_s * cells.busy_cores).median(),
        "peak memory, GB": cells.peak_memory_bytes.max() / 1e9,
        "Agrawal et al., serial, s": _theirs(cells, paper).serial_ms / 1e3,
        "Agrawal et al., CUDA, s": _theirs(cells, paper).cuda_ms / 1e3,
    }
