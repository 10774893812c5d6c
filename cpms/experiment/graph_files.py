"""Graphs of a configuration: names, or tables with a path and options of `cpms.load`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator

from cpms.base.errors import InputError
from cpms.experiment.config_types import loadable
from cpms.sources.readers.options import ReadOptions

Cell = dict[str, Any]


@dataclass(frozen=True)
class GraphFile:
    """A graph, and how its file is read.

    Parameters
    ----------
    path : str
        The first argument of `cpms.load`.
    options : tuple of (str, value)
        Options of `cpms.load`, in the order of its parameters.
    """

    path: str
    options: tuple[tuple[str, Any], ...] = ()


def graph_source(given: Any) -> GraphFile:
    """Return the graph of an entry in a configuration, validated.

    Raises
    ------
    InputError
        If it is neither a name nor a table with a path and options of `cpms.load`.

    Examples
    --------
    >>> graph_source({"path": "links.csv", "header": "yes", "columns": "from,to"}).options
    (('columns', 'from,to'), ('header', 'yes'))
    """
    if isinstance(given, str):
        return GraphFile(loadable(given))
    possible = [field.name for field in fields(ReadOptions) if field.name != "progress"]
    if not isinstance(given, dict) or not isinstance(given.get("path"), str):
        raise InputError("a graph is a name, or a table such as {path = 'links.csv', header = 'yes'}")
    if unknown := [key for key in given if key not in ("path", *possible)]:
        raise InputError(f"{', '.join(unknown)}: is no key of a graph; it can have path, {', '.join(possible)}")
    options = {option: given[option] for option in possible if option in given}
    ReadOptions(**options)
    return GraphFile(loadable(given["path"]), tuple(options.items()))


GraphSource = Annotated[GraphFile, PlainValidator(graph_source), PlainSerializer(lambda graph: named(graph))]


def named(graph: GraphFile) -> Cell:
    """Return the keys of a cell for a graph: its name, and its options if it has some.

    Examples
    --------
    >>> named(graph_source("rmat:scale=4")), named(graph_source({"path": "a.txt", "header": "no"}))
    ({'graph': 'rmat:scale=4'}, {'graph': 'a.txt', 'read_options': {'header': 'no'}})
    """
    return {"graph": graph.path, **({"read_options": dict(graph.options)} if graph.options else {})}


def read_options(cell: Cell) -> dict[str, Any]:
    """Return the options of `cpms.load` for the graph of a cell."""
    options: dict[str, Any] = cell.get("read_options", {})
    return options


def as_arguments(options: dict[str, Any]) -> list[str]:
    """Return options of `cpms.load` as arguments of ``python -m cpms.mpi``.

    Raises
    ------
    InputError
        If ranks have no such option.

    Examples
    --------
    >>> as_arguments({"columns": ["from", "to"], "zero_weights": "drop"})
    ['--columns', 'from,to', '--zero-weights', 'drop']
    """
    if lacking := [option for option in options if option in ("duplicates", "self_loops")]:
        raise InputError(f"ranks have no option {', '.join(lacking)}; leave it out of the graph's table")
    return [
        text
        for option, value in options.items()
        for text in (
            f"--{option.replace('_', '-')}",
            value if isinstance(value, str) else ",".join(map(str, value)),
        )
    ]
