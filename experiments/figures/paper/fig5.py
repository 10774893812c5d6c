"""Figure 5: time by bits read and in precision changes, as shares of the float64 solve."""

import numpy as np

from cpms.experiment.report.output import PALETTE, label

NEEDS = ["gpu_speedup"]
STORAGES = ["fp64", "cpms2", "cpms4"]
CHANGE = "precision change"


def show(rows, out):
    import matplotlib.pyplot as plt

    rows = rows[(rows.status == "ok") & (rows.layout == "csr")]
    rows = rows[rows.tol == (1e-10 if (rows.tol == 1e-10).any() else rows.tol.min())]
    solved = [(label(row), _by_storage(row)) for _, row in rows.iterrows()]
    solved = [(name, results) for name, results in solved if "fp64" in results]
    if not solved:
        out.leave_out("figure fig5", "no graph was solved in csr by engine cuda in fp64, which times are shares of")
        return
    figure, axes = plt.subplots(figsize=(7, 0.6 + 0.42 * len(solved)))
    for place, (_, results) in enumerate(solved):
        whole = results["fp64"]["solve_s"]
        for k, storage in enumerate(STORAGES):
            if storage not in results:
                continue
            left = 0.0
            for name, spent in _parts(results[storage]):
                colour = "#222222" if name == CHANGE else PALETTE[name]
                text = name if name == CHANGE else f"{name} bits"
                axes.barh(place + (k - 1) * 0.27, spent / whole, left=left, height=0.25, color=colour, label=text)
                left += spent / whole
    axes.set_yticks(range(len(solved)), [name for name, _ in solved])
    axes.set_xlabel("time over float64 solve, same kernels (bars: fp64, cpms2, cpms4)")
    axes.invert_yaxis()
    by_name = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    names = sorted(by_name, key=lambda name: (name == CHANGE, name))
    figure.legend([by_name[name] for name in names], names, loc="outside upper center", ncols=6)
    out.figure(figure)


def _by_storage(row):
    ours = (result for result in row.results if result["engine"] == "cuda" and "most_read" not in result)
    return {result["storage"]: result for result in ours if result["status"] == "ok"}


def _parts(result):
    """Split a solve: sweeps at their level's median; what a rise takes beyond that is precision change."""
    steps, bits = np.diff([0.0, *result["step_s"]]), np.array(result["bits"])
    change, parts = 0.0, []
    for level in sorted(set(bits.tolist())):
        spent = steps[bits == level]
        usual = np.median(spent)
        first = spent[0] - usual if level != bits[0] else 0.0
        change += max(first, 0.0)
        parts.append((level, spent.sum() - max(first, 0.0)))
    return [*parts, (CHANGE, change)]
