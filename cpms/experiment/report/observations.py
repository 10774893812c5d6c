"""Observations: one line a contestant and graph, with seconds, bits, error and traffic, of rows of any kind.

Kinds have different names for time, error and traffic, and figures for every kind need one name for each. Parameters of
a problem are separated from those of contestants, since times of different problems cannot be compared. A tolerance
belongs to the problem if a contestant has several values of it. Repetitions of a contestant on a graph are joined, so
that medians and intervals are of all samples. The cost is one pass over the flattened rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from cpms.base import plugins
from cpms.base.errors import InputError
from cpms.experiment.report import captions
from cpms.experiment.report.generic import bandwidth
from cpms.experiment.report.generic.contestants import (
    chosen_by_default,
    key_of,
    labels,
    own_name,
    short_labels,
    spaced,
    split_parameters,
    without_needless,
)
from cpms.experiment.report.generic.flaws import flaw
from cpms.experiment.report.page.case_labels import graph_labels
from cpms.experiment.rows.flat import flatten
from cpms.experiment.rows.rows import Row
from cpms.experiment.rows.series import MEASURED, PARAMETERS
from cpms.formats.formats import format_named

_TIMES = {
    **dict.fromkeys(("solve_s", "solves_s", "run_s", "query_s"), 1.0),
    **dict.fromkeys(("amortised_us", "sweep_us"), 1e-6),
    "median_ms": 1e-3,
}
"""Columns of the time of a result, with the factor to seconds; the first that a result has is used."""
_ERRORS = ("error_l1", "residual_l1", "error", "residual", "difference_l1")
_RESIDUALS = ("residual_l1", "residual")
_SIZES = ("edges", "entries", "values")


def observations(rows: Iterable[Row]) -> pd.DataFrame:
    """Return the measured results of rows, one line a graph and contestant.

    Returns
    -------
    pandas.DataFrame
        Missing numbers are NaN. The columns are:

        - ``graph``; ``contestant``, the parameters that differ within the rows; and ``case``, within which times are
          comparable: the graph with the ``problem`` on it, such as a tolerance; ``label``, that of the graph;
          ``purpose`` of a run, which ``graph`` has in it; and ``in_all``, the cases with those without a result.
        - ``called``, the contestant without its problem and without parameters that are chosen for each graph;
          ``short``, its name in figures, without usual values; ``named_by``, the names of the parameters in it, with
          the usual values that ``short`` omits in parentheses; and ``named``, a name where there is no other.
        - ``kind`` of the experiment, ``engine``, ``layout``, ``method``, and ``machines``, the devices.
        - ``size``, the edges, entries or values of the graph, matrix or array; ``trims``, whether a solve may have
          removed a part of the graph; ``tol``, the tolerance of a solve, and ``besides``, the problem without it.
        - ``seconds`` (median), ``samples`` (list), their ``least`` and ``most``, and ``by_bits``, seconds by bits read.
        - ``bits``, the mean over iterations, ``fewest_bits``, and ``stored``, the format or the fewest bits.
        - ``error`` and ``error_name``; ``flaw``, why the time must not be compared.
        - ``traffic`` in bytes and ``traffic_name``, the first of ``quantities``, the bytes by what they are of;
          ``moved``, the bytes read and written in ``seconds``; and ``copy_gbps``, the rate of a copy on the device.
        - ``iterations`` and certified ``residual``; ``history``, iterations with residual and bits, and its ``norm``;
          and ``timelines``, for each repetition the float64 residuals of the whole problem with their seconds.

    Examples
    --------
    >>> row = {"cell": "0", "experiment": "mine", "status": "ok", "graph": "path", "storage": "cpms2", "solve_s": 2.0}
    >>> found = observations([row, {**row, "cell": "1", "storage": "fp64", "solve_s": 3.0}])
    >>> found[["contestant", "seconds", "bits"]].values.tolist()
    [['cpms2', 2.0, 64.0], ['fp64', 3.0, 64.0]]
    """
    table, unmeasured = _measured_results(rows)
    differing = _differing_parameters(table)
    chosen = {name: chosen_by_default(table[name]) for name in differing if name.endswith("_json")}
    groups = _repetitions(table)
    of_problems, of_graphs = split_parameters([(graph, lines[0]) for (graph, *_), lines in groups.items()], differing)
    named = [name for name in differing if name not in of_problems + of_graphs]
    held_names = [name for name in named if any(name in line for (line, *_) in groups.values())]
    firsts = [lines[0] for lines in groups.values()]
    contestants, called = labels(firsts, differing, chosen), labels(firsts, named, chosen)
    short, omitted = short_labels(firsts, named, called)
    described = [name for name in held_names if name != "name"] or held_names  # A name of its own describes nothing.
    named_by = [f"{spaced(name)} ({omitted[name]})" if name in omitted else spaced(name) for name in described]
    found = []
    for (graph, parameters, _), lines in groups.items():
        words = _words_of_problem({name: lines[0][name] for name in of_problems if name in lines[0]})
        problem = " ".join(words.values())
        contestant = contestants[key_of(lines[0], differing)]
        if not contestant:
            without = f" without {', '.join(map(spaced, differing))}" if str(parameters) in contestants.values() else ""
            contestant = f"{parameters}{without}"
        own_key = key_of(lines[0], named)
        found.append(
            {
                "graph": graph,
                "purpose": str(lines[0].get("purpose", "")),
                "parameters": str(parameters),
                "contestant": contestant,
                "called": called[own_key] or own_name(lines[0]) or str(parameters),
                "short": short[own_key] or own_name(lines[0]) or str(parameters),
                "named": own_name(lines[0]),
                "named_by": ", ".join(dict.fromkeys(named_by)),
                "problem": problem,
                "besides": " ".join(word for name, word in words.items() if name != "tol"),
                "case": f"{graph}, {problem}" if problem else str(graph),
                **_joined(lines),
            }
        )
    labels_of = graph_labels(line["graph"] for line in found)
    in_all = len({line["case"] for line in found}) + unmeasured
    return pd.DataFrame([{**line, "label": labels_of[line["graph"]], "in_all": in_all} for line in found])


class Names:
    """The names of contestants that figures show, given the text that `cpms.experiment.rows.series` has for them.

    Parameters
    ----------
    rows : iterable of dict
        Of any experiments.

    Examples
    --------
    >>> row = {"cell": "0", "experiment": "mine", "status": "ok", "graph": "path", "engine": "cpu", "solve_s": 2.0}
    >>> rows = [{**row, "storage": "cpms2", "tol": 1e-6}, {**row, "cell": "1", "storage": "fp64", "tol": 1e-6}]
    >>> Names(rows).of("mine", "path", "cpu cpms2 tol=1e-06")
    ('path', 'cpms2')
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        by_experiment: dict[str, list[Row]] = {}
        for row in rows:
            by_experiment.setdefault(row["experiment"], []).append(row)
        self._found: dict[tuple[str, str], set[tuple[str, str]]] = {}
        for experiment, own in by_experiment.items():
            for line in observations(own).to_dict("records"):
                held = self._found.setdefault((experiment, line["parameters"]), set())
                held.add((line["called"], line["problem"]))

    def of(self, experiment: str, graph: str, parameters: str) -> tuple[str, str]:
        """Return the names of case and contestant; the arguments themselves if the rows have no measurement of them."""
        found = self._found.get((experiment, parameters), set())
        if len(found) != 1:
            return graph, parameters
        ((called, problem),) = found
        return ", ".join(filter(None, [graph, problem])), called


def _measured_results(rows: Iterable[Row]) -> tuple[pd.DataFrame, int]:
    """Return the measured results of rows, and the number of graphs without any.

    ``graph`` also names what keeps times of one graph from being compared.
    """
    given = [{**row, "cell_layout": row["layout"]} if row.get("layout") else row for row in rows]
    table = flatten(map(bandwidth.with_least_bytes, given))
    graphs = {*table.graph.dropna()} if "graph" in table else set()
    table = table[table.status.isin(MEASURED)]
    unmeasured = len(graphs.difference(table.graph)) if graphs else 0
    if "values" in table:  # Arrays are for conversions and top-k what graphs are for solves.
        table = table.assign(graph=[f"{count} values" for count in table["values"]])
    if "purpose" in table:  # Runs for different purposes, or over parts of a graph, solve different problems.
        table = table.assign(graph=[_of_purpose(line) for line in table.to_dict("records")])
    if "gpu" in table and len(table.gpu.dropna().unique()) > 1:  # Times of one device are compared.
        table = table.assign(
            graph=[f"{line['graph']}, {str(line['gpu']).removeprefix('NVIDIA ')}" for line in table.to_dict("records")]
        )
    return table, unmeasured


def _of_purpose(line: dict[Any, Any]) -> str:
    if not isinstance(line["purpose"], str):
        return str(line["graph"])
    of_part = f" to {line['nodes']:,.0f} nodes" if line["purpose"] == "scaling" else ""
    return f"{line['graph']}, {spaced(line['purpose'])}{of_part}"


def _columns_of_parameters(table: pd.DataFrame) -> list[str]:
    """Return the columns of parameters; a list beside single values holds those of all results of a cell."""
    named = []
    for each in PARAMETERS:
        lists = f"{each}_json" in table and table[f"{each}_json"].astype(str).str.startswith("[").any()
        named += [each] * (each in table) + [f"{each}_json"] * (
            f"{each}_json" in table and not (lists and each in table)
        )
    return named if "algorithm" not in table else [*named, "algorithm"]


def _differing_parameters(table: pd.DataFrame) -> list[str]:
    """Return the columns of parameters that have several values, without those that others determine."""
    several = [name for name in _columns_of_parameters(table) if len(table[name].astype(str).drop_duplicates()) > 1]
    return without_needless(table, [name for name in several if name != "values"])


def _repetitions(table: pd.DataFrame) -> dict[tuple[Any, Any, Any], list[dict[str, Any]]]:
    """Return the results of each contestant on each graph, by graph, parameters and algorithm."""
    groups: dict[tuple[Any, Any, Any], list[dict[str, Any]]] = {}
    for line in table.to_dict("records"):
        held = {str(name): value for name, value in line.items() if _is_held(value)}
        key = (held.get("graph", np.nan), held.get("parameters", np.nan), held.get("algorithm", ""))
        groups.setdefault(key, []).append(held)
    return groups


def _words_of_problem(stated: dict[str, Any]) -> dict[str, str]:
    """Return the words for each parameter of a problem; a label has no room for the names of three."""
    values_alone = len(stated) > 2
    return {
        name: value if values_alone and isinstance(value, str) else f"{spaced(name)}={value}"
        for name, value in stated.items()
    }


def _is_held(value: object) -> bool:
    return value is not None and value is not pd.NA and not (isinstance(value, float) and np.isnan(value))


def _joined(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the observation of all repetitions of a contestant; all but its times are those of the first."""
    first = lines[0]
    samples = [sample for line in lines for sample in _samples(line)]
    seconds = float(np.median(samples)) if samples else np.nan
    counts = _iterations(first)
    error = next((name for name in _ERRORS if first.get(name, 0) > 0), "")
    quantities = _quantities(first)
    traffic = next(iter(quantities), "")
    return {
        "kind": first.get("kind", ""),
        "engine": first.get("engine", first.get("name", "")),
        "machines": [name for line in lines for name in captions.devices(line)],
        "layout": first.get("layout", first.get("cell_layout", "")),
        "method": first.get("method", ""),
        "size": next((float(first[name]) for name in _SIZES if isinstance(first.get(name), int | float)), np.nan),
        "trims": bandwidth.may_trim(first),
        "seconds": seconds,
        "samples": samples,
        **_ends(first, samples, seconds),
        "by_bits": _split_by_bits([_seconds_by_bits(line, counts, seconds) for line in lines], seconds),
        "bits": float(first.get("mean_bits", np.average([*counts], weights=[*counts.values()]) if counts else np.nan)),
        "fewest_bits": min(counts, default=64),
        "stored": str(first.get("stored_as", f"{min(counts, default=64)} bits")),
        "error": float(first.get(error, np.nan)),
        "flaw": flaw(lines),
        "error_name": error,
        "traffic": float(first.get(traffic, np.nan)),
        "traffic_name": traffic,
        "quantities": quantities,
        "moved": _moved(first, traffic),
        "copy_gbps": _copy_gbps(first),
        "tol": float(first.get("tol", np.nan)),
        "timelines": [timeline for line in lines if (timeline := _timeline(line))],
        "history": _history(first),
        "norm": first.get("norm", ""),
        "own": any(plugins.is_reference(str(value)) for name, value in first.items() if name in PARAMETERS),
        "iterations": float(first.get("iterations", np.nan)),
        "residual": float(next((first[name] for name in _RESIDUALS if first.get(name, 0) > 0), np.nan)),
        "prepare": float(np.median([line.get("prepare_s", 0.0) for line in lines])),
    }


def _samples(line: dict[str, Any]) -> list[float]:
    """Return the samples of a result in seconds: of sweeps the means of runs, of a conversion the time of its bytes."""
    if "run_us_json" in line:
        return [1e-6 * float(each) for each in json.loads(line["run_us_json"])]
    for name, factor in _TIMES.items():
        sampled = line.get(f"{name.removesuffix('_s')}_samples_s_json")
        if sampled:
            found = json.loads(sampled)
            sizes = _queries_of_batches(line, len(found)) if name == "query_s" else [1] * len(found)
            return [float(each) / size for each, size in zip(found, sizes, strict=True) if each > 0]
        if line.get(name, 0) > 0:
            return [factor * float(line[name])]
    return [_converted_s(line, "convert_gbps")] if line.get("convert_gbps", 0) > 0 else []


def _converted_s(line: dict[str, Any], rate: str) -> float:
    """Return the seconds of a conversion: its rate counts bytes as read plus written."""
    return float(2 * line["bytes"] / (1e9 * line[rate]))


def _queries_of_batches(line: dict[str, Any], batches: int) -> list[int]:
    """Return the number of queries of each sample: one, or the size of a batch, of which the last may be smaller."""
    size = int(line.get("batch", 0))
    if size < 1:
        return [1] * batches
    return [size] * (batches - 1) + [int(line["answered"]) - size * (batches - 1)]


def _ends(line: dict[str, Any], samples: list[float], seconds: float) -> dict[str, float]:
    """Return the least and the largest sample in seconds; for a result without samples, those that the row states."""
    if len(samples) > 1:
        return {"least": min(samples), "most": max(samples)}
    for unit, factor in (("us", 1e-6), ("ms", 1e-3)):
        if line.get(f"least_{unit}", 0) > 0 and line.get(f"most_{unit}", 0) > 0:
            return {"least": factor * line[f"least_{unit}"], "most": factor * line[f"most_{unit}"]}
    if line.get("convert_least_gbps", 0) > 0 and line.get("convert_most_gbps", 0) > 0:
        return {"least": _converted_s(line, "convert_most_gbps"), "most": _converted_s(line, "convert_least_gbps")}
    return {"least": seconds, "most": seconds}


def _iterations(line: dict[str, Any]) -> dict[int, float]:
    """Return the number of iterations by bits read; for a result without iterations, one at the bits of its values.

    A result without a storage is in float64, the default of engines.
    """
    counted = json.loads(line.get("iterations_by_bits_json", line.get("bits_json", "{}")))
    if isinstance(counted, list):
        return {int(bits): float(counted.count(bits)) for bits in counted}
    if counted:
        return {int(bits): float(count) for bits, count in counted.items() if count}
    if line.get("bits", 0) > 0:
        return {int(line["bits"]): 1.0}
    if line.get("dtype") in ("float32", "float64"):
        return {int(line["dtype"].removeprefix("float")): 1.0}
    try:
        with plugins.allowed(False):  # A row is data: it runs no code.
            return {format_named(line.get("storage", "fp64")).bits(None): 1.0}
    except (TypeError, InputError):
        return {}


def _seconds_by_bits(line: dict[str, Any], counts: dict[int, float], seconds: float) -> dict[int, float]:
    """Return the time of a result by bits read; empty if it read several numbers of bits and did not record times."""
    if "seconds_by_bits_s_json" in line:
        return {int(bits): float(value) for bits, value in json.loads(line["seconds_by_bits_s_json"]).items()}
    steps, bits = json.loads(line.get("step_s_json", "[]")), json.loads(line.get("bits_json", "[]"))
    if steps and len(steps) == len(bits):
        pairs = list(zip(np.diff([0.0, *steps]).clip(min=0).tolist(), bits, strict=True))  # Rows hold when steps end.
        return {each: sum(step for step, other in pairs if other == each) for each in set(bits)}
    return dict.fromkeys(counts, seconds) if len(counts) == 1 and seconds > 0 else {}


def _split_by_bits(parts: list[dict[int, float]], seconds: float) -> dict[int, float]:
    """Return a time split by bits read, in the mean proportions of the repetitions."""
    shares = [{bits: each / sum(part.values()) for bits, each in part.items()} for part in parts if sum(part.values())]
    read = {bits for share in shares for bits in share}
    return {bits: seconds * sum(share.get(bits, 0.0) for share in shares) / len(shares) for bits in sorted(read)}


def _quantities(line: dict[str, Any]) -> dict[str, float]:
    """Return the bytes of a result by what they are of; those of a sweep whose time has an update leave it out."""
    held = {name: float(line[name]) for name in bandwidth.QUANTITIES if line.get(name, 0) > 0}
    return {name: value for name, value in held.items() if name != "bytes" or "amortised_us" not in line}


def _moved(line: dict[str, Any], traffic: str) -> float:
    """Return the bytes read and written in the time of a result; NaN if its row has no traffic, but only a size."""
    if traffic in ("bytes_read", "least_bytes", "amortised_bytes"):
        return float(line[traffic])
    return 2.0 * line.get("bytes", np.nan) if line.get("kind") == "conversion" else np.nan


def _copy_gbps(line: dict[str, Any]) -> float:
    """Return the rate of a copy, read and written, on the device of a result."""
    if captions.devices_are_processors(line) and line.get("kind") != "conversion":
        return float(line.get("host_copy_gbps", np.nan))
    return float(line.get("copy_gbps", json.loads(line.get("ceilings_json", "{}")).get("copy_gbps", np.nan)))


def _timeline(line: dict[str, Any]) -> list[tuple[float, float]]:
    """Return the float64 residuals of the whole problem, with their seconds since the start of the solve.

    An iteration has one if it reads 64 bits alone, and of the whole graph; the last one is the certified residual at
    the end of the solve. Empty if the row has no residuals or no times of iterations.
    """
    recorded, steps = json.loads(line.get("history_json", "[]")), json.loads(line.get("step_s_json", "[]"))
    if recorded and "used" in line:
        wide = line.get("stored_as") == "fp64" and json.loads(line.get("vectors_as_json", "[]")) == ["fp64"]
        found = [(float(step[1]), float(end)) for step, end in zip(recorded, steps, strict=False) if wide]
        ends = [float(end) for end in steps]
    else:
        timed = [step for step in recorded if len(step) > 3]
        found = [(float(step[0]), float(step[3])) for step in timed if step[1] == 64 and not bandwidth.may_trim(line)]
        ends = [float(step[3]) for step in timed]
    if not ends:
        return []
    certified = next((float(line[name]) for name in _RESIDUALS if line.get(name, -1) >= 0), np.inf)
    return [*found, (certified, max(ends[-1], float(line.get("solve_s", 0.0))))]


def _history(line: dict[str, Any]) -> list[tuple[int, float, int]]:
    """Return number, residual and bits of each recorded iteration."""
    recorded = json.loads(line.get("history_json", "[]"))
    if "ways_found" in line or (recorded and "used" in line):
        return [(int(number), float(residual), int(bits)) for number, residual, bits, *_ in recorded]
    return [(place, float(residual), int(bits)) for place, (residual, bits, *_) in enumerate(recorded, 1)]
