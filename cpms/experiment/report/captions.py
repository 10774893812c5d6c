"""Texts of figures from rows: captions with machine, commit, repetitions and spread, and short names of graphs.

The cost is one pass over the rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from cpms.base.text.counted import counted
from cpms.experiment.derived.repetitions import SAMPLED, repetitions
from cpms.experiment.derived.repetitions import spread as spread
from cpms.experiment.rows.rows import Row
from cpms.experiment.rows.series import MEASURED, results_of
from cpms.experiment.rows.standing import commit_text

_ON_CPU = ("cpu", "mpi", "reference", "scipy", "serial")
_ON_GPU = ("cuda", "cusparse", "cupy", "coo_", "mpi_cuda", "opencl", "reduce_by_key")
"""Engines of processors, and beginnings of the names of engines of GPUs."""
_MOST_NAMES, _MOST_CHARACTERS = 8, 100
"""Most names in a sentence, and most characters of them; two names are given in any case."""
_LONGEST_WHOLE = 48
"""Characters of a graph's name and of what is measured on it that have room beside a tolerance."""
_SIZED = re.compile(r", (\d+[kM]?) (nodes|edges|points|rows)$")
"""The end of a short name: a size, and what it counts."""
_WORDS = {
    "error_l1": "error, 1-norm",
    "residual_l1": "residual, 1-norm",
    "difference_l1": "difference, 1-norm",
    "bytes_read": "bytes read",
    "amortised_bytes": "bytes moved at least",
    "least_bytes": "bytes moved at least",
    "matrix_bytes": "bytes of the matrix",
    "received_bytes": "bytes received",
}


def provenance(
    rows: Sequence[Row], drawn: pd.DataFrame | None = None, *, timed: bool | str = True, single: str = ""
) -> str:
    """Return machine, commits, repetitions and spread of rows as sentences.

    Parameters
    ----------
    rows : sequence of dict
    drawn : pandas.DataFrame, optional
        The observations that are drawn, whose machines alone are named. Their samples are used if rows have none, since
        then each sample is a row of its own.
    timed : bool or str
        False for figures of counts, such as iterations, which have no spread; the name of the time that is drawn if
        rows have samples of several, such as ``whole``.
    single : str
        What is drawn in place of times, if rows hold one of it for each result, such as an error.

    Examples
    --------
    >>> row = {"cpu": "a", "results": [{"solve_samples_s": [1.0, 2.0, 3.0]}]}
    >>> provenance([row])
    'Machine: a. Commit: unknown. Samples of each result: 3; median interquartile range 50 % of the median.'
    >>> provenance([row], timed=False)
    'Machine: a. Commit: unknown. Counts, which have no spread.'
    >>> provenance([row], single="error")
    'Machine: a. Commit: unknown. The rows hold one error of each result, without a spread.'
    """
    machines = machines_of(rows) if drawn is None else list(dict.fromkeys(drawn.machines.explode().dropna()))
    quoted = dict.fromkeys(str(row["source"]).partition(":")[0] for row in rows if row.get("source"))
    commits = dict.fromkeys(commit_text(row) for row in rows if not row.get("source"))
    plural = "s" if len(commits) > 1 else ""
    made = [f"Quoted from {'; '.join(quoted)}."] * bool(quoted) + [f"Commit{plural}: {some(commits)}."] * bool(commits)
    several = "s" if len(machines) > 1 else ""
    machines = machines if drawn is None else _with_graphs(machines, drawn)
    times = [timed] if isinstance(timed, str) else SAMPLED
    of_one = f"The rows hold one {single} of each result, without a spread" if single else ""
    repeated = of_one or (repetitions(rows, drawn, times) if timed else "Counts, which have no spread")
    return f"Machine{several}: {'; '.join(machines)}. {' '.join(made)} {repeated}."


def _with_graphs(machines: list[str], drawn: pd.DataFrame) -> list[str]:
    """Return machines with the graphs that were measured on each, where each graph was measured on one alone.

    Examples
    --------
    >>> drawn = pd.DataFrame({"label": [*"abc"], "machines": [["Xeon"], ["EPYC"], ["EPYC"]]})
    >>> _with_graphs(["Xeon", "EPYC"], drawn), _with_graphs(["Xeon"], drawn[:1])
    (['Xeon (a)', 'EPYC (the others)'], ['Xeon'])
    """
    if len(machines) < 2 or "label" not in drawn:
        return machines
    held = drawn[["label", "machines"]].explode("machines").dropna().drop_duplicates()
    stated = any(name.removeprefix("NVIDIA ") in label for label in held.label for name in machines)
    if stated or not held.label.is_unique:
        return machines
    of_most = held.machines.mode()[0]
    texts = {name: "the others" if name == of_most else some(held.label[held.machines == name]) for name in machines}
    return [f"{name} ({texts[name]})" for name in sorted(machines, key=lambda name: name == of_most)]


def machines_of(rows: Iterable[Row]) -> list[str]:
    """Return the devices of the results of rows: processors with their threads, GPUs, or both.

    Examples
    --------
    >>> row = {"gpu": "H200", "cpu": "Xeon", "threads": 8, "results": [{"engine": "cpu"}, {"engine": "cuda"}]}
    >>> machines_of([row]), machines_of([{**row, "results": [{"engine": "cpu"}]}])
    (['Xeon, 8 threads', 'H200'], ['Xeon, 8 threads'])
    """
    return list(dict.fromkeys(name for row in rows for each in results_of(row) for name in devices({**row, **each})))


def devices(result: dict[str, Any]) -> list[str]:
    """Return the names of the devices of a result, which must also have the columns of its row."""
    threads = f", {counted(result['threads'], 'thread')}" if "threads" in result else ""
    many = result.get("devices", 1)
    gpus = f"{many} x " if isinstance(many, int) and many > 1 else ""
    names = {"cpu": f"{result.get('cpu', 'unknown')}{threads}", "gpu": f"{gpus}{result.get('gpu')}"}
    return [names[kind] for kind in _kinds_of_devices(result)]


def devices_are_processors(result: dict[str, Any]) -> bool:
    """Return whether a result was measured on processors alone.

    Examples
    --------
    >>> devices_are_processors({"gpu": "H200", "engine": "cpu"}), devices_are_processors({"gpu": "H200"})
    (True, False)
    """
    return _kinds_of_devices(result) == ["cpu"]


def _kinds_of_devices(result: dict[str, Any]) -> list[str]:
    """Return the kinds of devices of a result; for an unknown engine, all kinds that its machine has."""
    if not result.get("gpu"):
        return ["cpu"]
    if result.get("status", "ok") not in MEASURED:
        return []
    device, engine = str(result.get("device") or ""), str(result.get("engine") or "")
    if device.startswith(("cpu", "pthread")) or engine in _ON_CPU:
        return ["cpu"]
    if "old_road_s" in result:  # Processors build the graph and check the ranks.
        return ["cpu", "gpu"]
    return ["gpu"] if not engine or device or engine.startswith(_ON_GPU) else ["cpu", "gpu"]


def ends(table: pd.DataFrame, column: str, names: Sequence[str], what: str, *, drawn: str = "points") -> str:
    """Return a sentence with the least and the largest value of a column and their names, as an alternative text.

    ``drawn`` is what the values are in the figure: points, marks or bars.

    Examples
    --------
    >>> table = pd.DataFrame({"graph": ["a", "b"], "ratio": [2.0, 3.0]})
    >>> ends(table, "ratio", ["graph"], "Speed-up")
    'Speed-up of 2 points, from 2 (a) to 3 (b).'
    """
    known = table[table[column].notna()].sort_values(column)
    if known.empty:
        return f"{what}: no values."
    texts = [
        f"{three_digits(known[column].iloc[place])} ({', '.join(str(known[name].iloc[place]) for name in names)})"
        for place in (0, -1)
    ]
    return f"{what} of {len(known)} {drawn}, from {texts[0]} to {texts[1]}."


def three_digits(value: float) -> str:
    """Return a number in three digits, without an exponent if it is neither large nor small.

    Examples
    --------
    >>> three_digits(2764.2), three_digits(0.04561), three_digits(5.3e-11)
    ('2760', '0.0456', '5.3e-11')
    """
    return f"{float(f'{value:.3g}'):g}"


def threads_of_all(rows: pd.DataFrame) -> str:
    """Return the number of threads that a process had in rows of one machine, or ``all`` if they do not hold it.

    Examples
    --------
    >>> threads_of_all(pd.DataFrame({"threads": [2, 2]})), threads_of_all(pd.DataFrame())
    ('2', 'all')
    """
    known = [*rows["threads"].dropna()] if "threads" in rows else []
    return f"{known[0]:g}" if known else "all"


def some(names: Iterable[str]) -> str:
    """Return names with commas between them; if there are many or long ones, the first and the number of the others.

    Examples
    --------
    >>> some("abcdefghijk"), some(["a" * 5, "b" * 100, "c" * 100, "d"])[-8:]
    ('a, b, c, d, e, f, g, h and 3 more', 'd 2 more')
    """
    held = list(names)
    fitting = int((np.cumsum([len(name) + 2 for name in held]) <= _MOST_CHARACTERS).sum())
    count = min(_MOST_NAMES, max(2, fitting))
    more = f" and {len(held) - count} more" if len(held) > count else ""
    return ", ".join(held[:count]) + more


def shortened(name: str) -> str:
    """Return a generator's name with its first parameters, short enough for figures.

    Examples
    --------
    >>> shortened("weblike:nodes=10000000,edges=52000000,seed=1"), shortened("wiki-Vote")
    ('weblike, 52M edges', 'wiki-Vote')
    >>> shortened("models:family=small-world,nodes=500000,degree=8,seed=1"), shortened("torus:side=200,seed=3")
    ('small-world, 500k nodes', 'torus 200')
    >>> shortened("stencil:points=7,side=64"), shortened("elements:points=800000,degree=2"), shortened("1000000 values")
    ('7-point 64', 'elements, 800k points', '1M values')
    >>> shortened("banded:rows=4000000,width=1000,entries=16,seed=1")
    'banded, 4M rows'
    >>> shortened("uniform:nodes=RANKS*20000000,edges=RANKS*80000000,seed=1")
    'uniform, 80M edges a rank'
    >>> shortened("weblike-parts:parts=RANKS,nodes=10000000,edges=52000000,seed=1")
    'weblike-parts, 52M edges a rank'
    >>> shortened("rmat:scale=22+LOG2RANKS,edge_factor=8,seed=1")
    'rmat 22 + log2 ranks'
    >>> shortened("reordered:of=(copies:of=wiki-Vote,count=3),by=chance")
    '3 x wiki-Vote by chance'
    >>> shortened("copies:of=(standin:adaptive,size=3),count=2")
    '2 x standin:adaptive,size=3'
    """
    kind, _, parameters = name.partition(":")
    if found := re.fullmatch(r"(\d+) values", name):
        return f"{_count(int(found[1]))} values"
    # Generators write the parameters of these names in one order.
    if found := re.fullmatch(r"of=(.*),(count|by)=(\w+)(,seed=\d+)?", parameters):
        inner = shortened(found[1][1:-1] if found[1].startswith("(") else found[1])
        return f"{found[3]} x {inner}" if found[2] == "count" else f"{inner} by {found[3]}"
    given = dict(part.partition("=")[::2] for part in parameters.split(","))
    kind = given.get("family", kind)
    if "points" in given and "side" in given:
        return f"{given['points']}-point {given['side']}"
    for size in ("edges", "nodes", "points", "rows"):
        if found := re.fullmatch(r"(RANKS\*)?(\d+)", given.get(size, "")):
            by_rank = found[1] or given.get("parts") == "RANKS"
            return f"{kind}, {_count(int(found[2]))} {size}{' a rank' if by_rank else ''}"
    sized = (given.get("scale") or given.get("side") or "").replace("+LOG2RANKS", " + log2 ranks")
    return f"{kind} {sized}" if sized else name


def without_units(names: Sequence[str], most: int) -> list[str]:
    """Return short names of graphs without the word after a size, such as "nodes", if a name with it is too long.

    A word that makes one name longer than ``most`` is omitted in all names.

    Examples
    --------
    >>> without_units(["small-world, 300k nodes", "bipartite, 20k nodes", "weblike, 1M edges"], 20)
    ['small-world 300k', 'bipartite 20k', 'weblike, 1M edges']
    """
    units = {found[2] for name in names if len(name) > most and (found := _SIZED.search(name))}
    return [
        name[: found.start()] + f" {found[1]}" if (found := _SIZED.search(name)) and found[2] in units else name
        for name in names
    ]


def stands_in(graph: object) -> bool:
    """Return whether a graph is named as a generated stand-in."""
    return isinstance(graph, str) and graph.startswith("standin:")


def graph_label(graph: object) -> str:
    """Return the name of a graph for a figure, with a star for a stand-in; empty without a name.

    A long text about what is measured on it displaces the word after a size.

    Examples
    --------
    >>> graph_label("standin:road_usa"), graph_label("rmat:scale=20,seed=1"), graph_label(float("nan"))
    ('road_usa*', 'rmat 20', '')
    >>> graph_label("weblike:nodes=3000000,edges=16000000,seed=1, scaling to 2,000 nodes")
    'weblike, 16M edges, scaling to 2,000 nodes'
    >>> graph_label("copying:nodes=6000000, edges in main memory to ranks there")
    'copying 6M, edges in main memory to ranks there'
    """
    if not isinstance(graph, str):
        return ""
    name, comma, purpose = graph.partition(", ")
    label = f"{name.removeprefix('standin:')}*" if stands_in(name) else shortened(name)
    whole = f"{label}{comma}{purpose}"
    return whole if len(whole) <= _LONGEST_WHOLE else f"{without_units([label], 0)[0]}{comma}{purpose}"


def in_words(columns: Iterable[str]) -> str:
    """Return the names of columns of errors or bytes in words, each once.

    Examples
    --------
    >>> in_words(["error_l1", "error_l1"]), in_words(["bytes", "matrix_bytes"])
    ('error, 1-norm', 'bytes or bytes of the matrix')
    """
    return " or ".join(dict.fromkeys(_WORDS.get(column, column) for column in columns))


def _count(count: int) -> str:
    return f"{count / 1e6:.0f}M" if count >= 10**6 else f"{count / 1e3:.0f}k" if count >= 10**3 else str(count)
