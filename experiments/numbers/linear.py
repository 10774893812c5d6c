"""Products with matrices of one's own, and linear systems: on a GPU against other libraries, on processors by bits."""

from itertools import compress
from statistics import median

from cpms.experiment.kinds.honesty import is_on_gpu
from cpms.experiment.pages.numbers import counted, ratio, spread
from cpms.experiment.report.solve_tables import HELD_OUT
from cpms.experiment.rows.products import FAMILIES, fastest

FEW = ("lossless", "fp16-scaled")
_VENDOR = ("cusparse+cublas", "cg", "auto", "auto")
_PLAIN = ("cuda", "cg", "fp64", "fp64")
_LOSSLESS = ("cuda", "cg", "auto", "fp64")
_AUTO = ("cuda", "auto", "auto", "auto")
_SINGLE = ("cuda", "cg", "auto", "fp32")
"""Unlike ``auto``, without a preconditioner on any matrix, as the ways that it is compared with."""


def _ms(row, *kind):
    """Return the least median of the contestants of a kind, as `fastest` takes it; None where there is none."""
    found = fastest(row, *kind)
    return found and found["median_ms"]


def suites(rows):
    """Yield products of suite A, and of suite B, which no kernel was tuned on, in device time."""
    yield from _suite(rows, "a", "suites", "")
    yield from _suite(rows, "b", "suites.held", " (suite B, held out)")


def _suite(rows, letter, prefix, note):
    """Yield products of a suite against cuSPARSE's fastest algorithm in CSR."""
    held = [row for part in ("grids", "irregular") for row in rows.measured(f"gpu_suite_{letter}_{part}")]
    if not held:
        raise LookupError(f"gpu_suite_{letter}_grids")
    timed = {row["cell"]: _ms(row, "cusparse", ("csr",), ("fp64",), "fp64") for row in held}

    def over(key, what, chosen, *asked):
        pairs = [(row, _ms(row, "cuda", *asked)) for row in chosen]
        values = [timed[row["cell"]] / own for row, own in pairs if own]
        what = f"{what}, {len(values)} matrices{note}"
        return spread(f"{prefix}.{key}", what, "times", values, chosen, "suites", of="mean")

    yield over(
        "fp64", "float64 in CSR or SELL against cuSPARSE's fastest CSR", held, ("csr", "sell"), ("fp64",), "fp64"
    )
    for family in ("stencils", "finite elements"):
        chosen = [row for row in held if row["graph"].startswith(FAMILIES[family])]
        for vectors, called in (("fp64", "float64"), ("fp32", "float32")):
            what = f"exact or 16-bit values, vectors in {called}, against cuSPARSE in float64: {family}"
            key = f"{family.replace(' ', '-')}.{vectors}"
            yield over(key, what, chosen, ("sell",), FEW, vectors)
    graphs = [row for row in held if row["graph"].startswith(FAMILIES["graphs"])]
    what = "products with graphs' matrices, the fastest few bits in CSR or SELL, against cuSPARSE in float64"
    yield over("graphs", what, graphs, ("csr", "sell"), FEW, "fp64")
    gains = {row["graph"]: timed[row["cell"]] / _ms(row, "cuda", ("csr",), ("fp64",), "fp64") for row in held}
    what = (
        f"float64 in CSR against cuSPARSE's fastest CSR, least, on {min(gains, key=gains.get).partition(':')[0]}{note}"
    )
    yield spread(f"{prefix}.csr.least", what, "times", list(gains.values()), held, "suites", of="least")


def _called(matrix):
    """Return a short name of a matrix; those of one generator differ."""
    kind, _, text = matrix.partition(":")
    fields = dict(field.split("=") for field in text.split(","))
    if kind == "stencil":
        return f"{fields['points']}-point Laplacian"
    return f"{kind} in two dimensions" if fields.get("dimensions") == "2" else kind


def conjugate_gradients(rows):
    """Yield whole solves to 1e-10 by cg against a captured loop of cuSPARSE and cuBLAS, and against plain float64."""
    of_suite = {"tuned": [], "held": []}
    for row in rows.measured("gpu_cg_time"):
        found = _ways(row)
        vendor, plain, auto = found.get(_VENDOR), found.get(_PLAIN), found.get(_AUTO)
        name = f"{_called(row['graph'])}, b of {row['rhs']}"
        for base, called, key in ((vendor, "cuSPARSE and cuBLAS", "vendor"), (plain, "our plain float64", "fp64")):
            if base and auto and {base["status"], auto["status"]} == {"CONVERGED"}:
                pair = (base["solve_samples_s"], auto["solve_samples_s"])
                what = f"conjugate gradients by `auto` against {called}: {name}"
                yield ratio(f"cg.{key}.{name.replace(', b of ', '.')}", what, [pair], [row], "gpu_cg_time")
                if base is vendor:
                    of_suite["held" if row["graph"].startswith(HELD_OUT["gpu_cg_time"]) else "tuned"].append(
                        (row, *pair)
                    )
    for key, called in (("tuned", "four matrices"), ("held", "matrices that no choice was tuned on")):
        what = f"conjugate gradients by `auto` against cuSPARSE and cuBLAS: {called}"
        cells = [row for row, *_ in of_suite[key]]
        values = [median(base) / median(own) for _, base, own in of_suite[key]]
        yield spread(f"cg.vendor.{key}", what, "times", values, cells, "gpu_cg_time", of="mean")


def _ways(row):
    """Return the ways of a solve by engine, method, storage and vectors."""
    return {(way["engine"], way["method"], way["storage"], *way["vectors"]): way for way in row["ways_found"]}


def gains_of_cg(rows):
    """Yield means of the same by right-hand side, with float64 vectors beside lossless values, and what none solves."""
    cells = rows.measured("gpu_cg_time")
    for rhs in ("ones", "random"):
        for base, key, called in (
            (_VENDOR, "vendor", "cuSPARSE and cuBLAS"),
            (_PLAIN, "fp64", "our plain float64"),
            (_LOSSLESS, "lossless", "our float64 with lossless values"),
        ):
            chosen = [
                row for row in cells if row["rhs"] == rhs and not row["graph"].startswith(HELD_OUT["gpu_cg_time"])
            ]
            yield _gain(f"cg.{key}.tuned.{rhs}", f"against {called}: b of {rhs}", base, chosen)
    held = [row for row in cells if row["graph"].startswith(HELD_OUT["gpu_cg_time"])]
    for base, key, called in (
        (_PLAIN, "fp64", "plain float64"),
        (_LOSSLESS, "lossless", "float64 with lossless values"),
    ):
        yield _gain(f"cg.{key}.held", f"against our {called}: matrices that no choice was tuned on", base, held)
    unsolved = [row for row in held if all(way["status"] != "CONVERGED" for way in row["ways_found"])]
    where = f"of {len(held)} systems with matrices that no choice was tuned on"
    what = f"{where}, those that no way solves, cuSPARSE's included"
    yield counted("cg.unsolved", what, "systems", len(unsolved), held, "gpu_cg_time")


def gains_of_vectors(rows):
    """Yield what float32 vectors gain over other ways without a preconditioner."""
    cells = rows.measured("gpu_cg_time")
    of = {True: [], False: []}
    for row in cells:
        of[row["graph"].startswith(HELD_OUT["gpu_cg_time"])].append(row)
    for base, key, called in (
        (_VENDOR, "vendor", "cuSPARSE and cuBLAS"),
        (_PLAIN, "fp64", "our plain float64"),
        (_LOSSLESS, "lossless", "our float64 with lossless values"),
    ):
        key = f"cg.alike.{key}"
        yield _gain(f"{key}.tuned", f"against {called}: four matrices", base, of[False], _SINGLE)
        for rhs in ("ones", "random"):
            chosen = [row for row in of[False] if row["rhs"] == rhs]
            yield _gain(f"{key}.tuned.{rhs}", f"against {called}: b of {rhs}", base, chosen, _SINGLE)
        what = f"against {called}: matrices that no choice was tuned on"
        yield _gain(f"{key}.held", what, base, of[True], _SINGLE)


def _gain(key, what, base, cells, own=_AUTO):
    """Return how many times faster than a way ``own`` is, over the systems that both solve."""
    pairs = [(_ways(row)[base], _ways(row)[own], row) for row in cells]
    both = [pair for pair in pairs if pair[0]["status"] == pair[1]["status"] == "CONVERGED"]
    values = [median(slow["solve_samples_s"]) / median(fast["solve_samples_s"]) for slow, fast, _ in both]
    how = "by `auto`" if own == _AUTO else "with float32 vectors, no preconditioner,"
    what = f"conjugate gradients {how} {what}, {len(both)} systems"
    return spread(key, what, "times", values, [row for *_, row in both], "gpu_cg_time", of="mean")


def preconditioned(rows):
    """Yield conjugate gradients with Jacobi's preconditioner on a GPU against those of other libraries."""
    for key, called in (("tuned", "one diffusion"), ("held", "two diffusions, held out")):
        cells = rows.measured("gpu_cg_preconditioned")
        cells = [row for row in cells if row["graph"].startswith(HELD_OUT["gpu_cg_preconditioned"]) == (key == "held")]
        for engine, library in (("cusparse+cublas", "cuSPARSE and cuBLAS"), ("cupy", "CuPy")):
            values = [_seconds(row, engine) / _seconds(row, "cuda") for row in cells]
            what = f"Jacobi-preconditioned conjugate gradients, 32-bit vectors, against {library}: {called}"
            name = engine.partition("+")[0]
            yield spread(f"cg.jacobi.{name}.{key}", what, "times", values, cells, "gpu_cg_preconditioned", of="mean")


def _seconds(row, engine):
    """Return the median time of an engine's solve with Jacobi's preconditioner, ours with vectors in 32 bits."""
    chosen = [way for way in row["ways_found"] if way["engine"] == engine and way["preconditioner"] == "jacobi"]
    return median(next(way for way in chosen if engine != "cuda" or way["vectors"] == ["fp32"])["solve_samples_s"])


def shares(rows):
    """Yield the bytes that solves on a GPU read by their own counts, over their time, as shares of copy bandwidth."""
    copied = median(row["copy_gbps"] for row in rows.measured("gpu_suite_a_grids"))
    cells = [row for row in rows.measured("gpu_cg_time") if not row["graph"].startswith(HELD_OUT["gpu_cg_time"])]
    for way, key, called in (
        (_PLAIN, "fp64", "plain float64"),
        (_LOSSLESS, "lossless", "float64 with lossless values"),
        (_AUTO, "auto", "few bits"),
    ):
        values = [_share(_ways(row)[way], copied) for row in cells]
        what = f"conjugate gradients in {called}: bytes moved over time, share of copy bandwidth, {len(cells)} systems"
        yield spread(f"cg.share.{key}", what, "%", values, cells, "gpu_cg_time")
    cells = rows.measured("gpu_gmres_time")
    for vectors, called in (("fp64", "float64"), ("blocks", "block floats of few bits")):
        values = [_share(_ways(row)["cuda", "gmres", "auto", vectors], copied) for row in cells]
        what = f"GMRES(100), basis in {called}: bytes read over time, share of copy bandwidth, {len(cells)} matrices"
        yield spread(f"gmres.share.{vectors}", what, "%", values, cells, "gpu_gmres_time")


def _share(way, copied):
    """Return the bytes of a solve by its own count, a second, in percent of the rate of a copy."""
    return way["bytes_read"] / way["solve_s"] / copied / 1e7


def gmres(rows):
    """Yield GMRES(100) by the format of its basis: against CuPy's, and a basis of few bits against one of float64."""
    held = rows.measured("gpu_gmres_time")
    for prefix, note, is_held in (("gmres", "", False), ("gmres.held", ", held out", True)):
        cells = [row for row in held if row["graph"].startswith(HELD_OUT["gpu_gmres_time"]) is is_held]
        yield from _gmres(cells, prefix, note)
    what = f"of {len(held)} systems, those that no way solves within its limit of iterations, CuPy's included"
    unsolved = [row for row in held if all(way["status"] != "CONVERGED" for way in row["ways_found"])]
    yield counted("gmres.unsolved", what, "systems", len(unsolved), held, "gpu_gmres_time")


def _gmres(cells, prefix, note):
    cells = [row for row in cells if {way["status"] for way in row["ways_found"]} == {"CONVERGED"}]
    found = [{(way["engine"], *way["vectors"]): way for way in row["ways_found"]} for row in cells]
    for key, what, above, below in (
        ("cupy", "GMRES(100), basis in block floats of few bits, against CuPy's", ("cupy", "auto"), ("cuda", "blocks")),
        ("fp64", "GMRES(100), basis in float64, against CuPy's", ("cupy", "auto"), ("cuda", "fp64")),
        (
            "blocks",
            "GMRES(100), basis in block floats of few bits, against float64",
            ("cuda", "fp64"),
            ("cuda", "blocks"),
        ),
        (
            "bfp32",
            "GMRES(100), basis in block floats of few bits, against block floats of 32 bits",
            ("cuda", "bfp32"),
            ("cuda", "blocks"),
        ),
    ):
        values = [each[above]["solve_s"] / each[below]["solve_s"] for each in found]
        what = f"{what}, {len(values)} {'matrix' if len(values) == 1 else 'matrices'}{note}"
        yield spread(f"{prefix}.{key}", what, "times", values, cells, "gpu_gmres_time", of="mean")


def bases(rows):
    """Yield iterations and bits of GMRES(100) on processors by its basis, over systems that it and float64 solve."""
    for experiment, key, where in (
        ("gmres_bits", "listed", "matrices listed before"),
        ("gmres_bits_held", "held", "held-out matrices"),
        ("gmres_bits_poisson", "poisson", "7-point Laplacian of 64³ nodes"),
    ):
        cells = rows.measured(experiment)
        for place, (basis, named) in enumerate((("bytes", "segments of a byte"), ("blocks", "shared exponents")), 1):
            pairs = [(row, row["ways_found"][0], row["ways_found"][place]) for row in cells]
            both = [pair for pair in pairs if pair[1]["status"] == pair[2]["status"] == "CONVERGED"]
            chosen = [row for row, *_ in both]
            counts = [few["iterations"] / full["iterations"] for _, full, few in both]
            bits = [few["mean_bits"] for *_, few in both]
            what = (
                f"GMRES(100), {named}, {where}, {len(both)} of {len(cells)} systems"
                if len(cells) > 1
                else (f"GMRES(100), {named}, {where}")
            )
            name = f"basis.{key}.{basis}"
            yield spread(
                f"{name}.iterations",
                f"{what}: iterations over float64's",
                "times",
                counts,
                chosen,
                "gmres_bits",
                of="mean",
            )
            yield spread(f"{name}.bits", f"{what}: bits read of a value", "bits", bits, chosen, "gmres_bits", of="mean")
        if len(cells) > 1:
            full = [row for row in cells if row["ways_found"][0]["status"] == "CONVERGED"]
            every = [row for row in full if all(way["status"] == "CONVERGED" for way in row["ways_found"])]
            what = f"GMRES(100), float64, {where}: solved within its limit of iterations, of {len(cells)} systems"
            yield counted(f"basis.{key}.solved", what, "systems", len(full), cells, "gmres_bits")
            what = f"of these, solved with both bases of few bits: {where}"
            yield counted(f"basis.{key}.kept", what, "systems", len(every), cells, "gmres_bits")


def on_threads(rows):
    """Yield whole solves by cg on two threads against SciPy's, and what `auto` loses to the best fixed choice."""
    for experiment, key, where in (("cg_time", "tuned", ""), ("cg_time_held", "held", ", held out")):
        cells = rows.measured(experiment)
        pairs = [(row["ways_found"][0]["whole_samples_s"], row["ways_found"][-1]["whole_samples_s"]) for row in cells]
        solves = f"whole solves, {len(cells)} matrices{where}"
        what = f"conjugate gradients on two threads against SciPy's, whose products use one, {solves}"
        yield ratio(f"threads.{key}", what, pairs, cells, "cg_time")
    for experiment, where in (("regret", ""), ("regret_held", ", held out")):
        yield from _regrets(rows, experiment, where, "bytes_read", "reads at most 15 % more bytes")
        where = f" of longer solves{where}"
        experiment = experiment.replace("regret", "regret_time")
        yield from _regrets(rows, experiment, where, "whole_s", "takes at most 15 % more time")
    every = [*rows.measured("regret_time"), *rows.measured("regret_time_held")]
    bases = [[way for way in row["ways_found"][1:] if way["method"] == "gmres"] for row in every]
    solved = [all(way["status"] == "CONVERGED" for way in each) for each in bases]
    cells = [*compress(every, solved)]
    found = [{tuple(way["vectors"]): way for way in each} for each in compress(bases, solved)]
    for basis, called in (("fp64", "float64"), ("blocks", "block floats")):
        pairs = [(each[basis,]["whole_samples_s"], each["fp32",]["whole_samples_s"]) for each in found]
        of = f"{len(cells)} matrices of {len(every)} that each basis solves"
        what = f"GMRES on two threads, basis in float32 against {called}, whole solves, {of}"
        yield ratio(f"regret_time.over.{basis}", what, pairs, cells, "regret")


def _regrets(rows, experiment, where, key, within):
    """Yield the systems that a fixed choice solves, and those of them on which `auto` is near the best one."""
    cells = rows.measured(experiment)
    solved = [row for row in cells if any(way["status"] == "CONVERGED" for way in row["ways_found"][1:])]
    near = sum(_regret(row, key) <= 1.15 for row in solved)
    of = f"{len(cells)} matrices{where}"
    yield counted(
        f"{experiment}.solved", f"solved by a fixed choice, of {of}", "matrices", len(solved), cells, "regret"
    )
    what = f"of these, `auto` {within} than the best fixed choice: of {of}"
    yield counted(f"{experiment}.near", what, "matrices", near, cells, "regret")


def _regret(row, key):
    """Return what `auto` reads or takes over the least of a fixed choice, infinite where it does not converge."""
    auto, *fixed = row["ways_found"]
    best = min(way[key] for way in fixed if way["status"] == "CONVERGED")
    return auto[key] / best if auto["status"] == "CONVERGED" else float("inf")


def bits_of_cg(rows):
    """Yield iterations of conjugate gradients with r and p of 16 bits over those of float64."""
    for rhs in ("ones", "random"):
        every = rows.measured("cg_bits", rhs=rhs)
        cells = [row for row in every if all(way["status"] == "CONVERGED" for way in row["ways_found"])]
        found = [{tuple(way["vectors"]): way for way in row["ways_found"]} for row in cells]
        values = [each["bfp16",]["iterations"] / each["fp64",]["iterations"] for each in found]
        of = f"{len(cells)} matrices that all these formats solve, of {len(every)}"
        what = f"conjugate gradients, r and p in bfp16, b of {rhs}, {of}: iterations over float64's"
        yield spread(f"halves.{rhs}", what, "times", values, cells, "cg_bits", of="mean")
        plain = [each["fp16",]["iterations"] / each["fp64",]["iterations"] for each in found]
        what = f"the same, r and p in fp16, which has no shared exponents, b of {rhs}"
        yield spread(f"halves.fp16.{rhs}", what, "times", plain, cells, "cg_bits", of="mean")
        for ladder in (("fp32", "bfp16"), ("bfp16", "fp32")):
            values = [each[ladder]["iterations"] / each["fp64",]["iterations"] for each in found]
            later = f"from a residual of {cells[0]['switch']} on in {ladder[1]}"
            what = f"the same, r and p in {ladder[0]}, {later}, b of {rhs}"
            yield spread(f"halves.{'.'.join(ladder)}.{rhs}", what, "times", values, cells, "cg_bits", of="mean")


def honesty(rows):
    """Yield how many fuzzed systems each solver calls converged, and how many of those answers are not."""
    for experiment in ("honesty", "gpu_honesty"):
        cells = rows.measured(experiment)
        systems = sum(row["systems"] for row in cells)
        for solver in cells[0]["counts"]:
            called, wrong = (sum(row["counts"][solver][what] for row in cells) for what in ("converged", "wrong"))
            key = f"{experiment}.{solver.replace(' ', '-')}"
            of = f"{solver} on {'a GPU' if is_on_gpu(solver) else 'processors'}, of {systems:,} systems"
            yield counted(f"{key}.called", f"called converged by {of}", "systems", called, cells, experiment)
            what = f"of these, with a residual above the tolerance: {of}"
            yield counted(f"{key}.wrong", what, "systems", wrong, cells, experiment)


NUMBERS = [
    suites, conjugate_gradients, gains_of_cg, gains_of_vectors, preconditioned, gmres, shares, bases,
    bits_of_cg, on_threads, honesty,
]  # fmt: skip
