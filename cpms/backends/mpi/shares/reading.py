"""Distributed reading: each rank reads or generates a part of the edges; with ``whole`` each loads the whole graph."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from cpms.backends.mpi.shares import edge_list_share, npz_share, uniform_share, weblike_share
from cpms.backends.mpi.shares.redistribution import Share, exchanged
from cpms.backends.mpi.shares.rows import GraphRows, of_graph
from cpms.base.errors import InputError
from cpms.sources import readers
from cpms.sources.loading import load
from cpms.sources.readers.kinds import compression_of
from cpms.sources.readers.options import ReadOptions

OF_WHOLE = ("symmetric", "weights", "ids")
"""Options of `cpms.load` that require the whole graph on each rank."""


def read(source: str, communicator: Any, *, whole: bool = False, **options: Any) -> GraphRows:
    """Return this rank's rows of a graph; collective.

    Parameters
    ----------
    source : str
        An edge list (``.txt``, ``.el``, ``.csv``, ``.tsv``) of numbered nodes, of which each rank reads a range of
        bytes; an ``.npz`` file of `cpms.sources.readers.npz.save_npz`, of which it maps a range of edges; or
        ``uniform:…``, of which it keeps a range of the edges drawn; or ``weblike-parts:…``, of which it makes its own
        parts. What they hold then goes to the ranks whose rows it is in.
    communicator : mpi4py communicator
    whole : bool
        Let every rank load all of the graph, which may be anything that `cpms.load` takes.
    **options
        Those of `cpms.load`. Shares take those of an edge list's form and ``zero_weights``.

    Raises
    ------
    InputError
        If the graph cannot be read, or not in shares.
    """
    if whole:
        rows = of_graph(load(source, **options), communicator.rank, communicator.size)
        # Copies free the other edges, which views would keep in memory.
        return replace(rows, sources=rows.sources.copy(), weights=None if rows.weights is None else rows.weights.copy())
    return exchanged(share(source, communicator, ReadOptions(**options)), communicator)


def in_shares(source: str) -> bool:
    """Return whether ranks can read parts of such a graph.

    Examples
    --------
    >>> in_shares("uniform:nodes=10,edges=30"), in_shares("graph.npz"), in_shares("links.csv")
    (True, True, True)
    >>> in_shares("links.csv.gz"), in_shares("rmat:scale=8")
    (False, False)
    """
    generated = source.startswith(("uniform:", f"{weblike_share.NAME}:"))
    shared = readers.module_for(Path(source)) in (readers.EDGE_LISTS, "npz") and not compression_of(source)
    return generated or shared


def share(source: str, communicator: Any, options: ReadOptions | None = None) -> Share:
    """Return the edges that this rank reads; collective."""
    options = options or ReadOptions()
    if readers.module_for(Path(source)) != readers.EDGE_LISTS:
        options.refuse_form(source)
    if source.startswith("uniform:"):
        return uniform_share.make(source, communicator.rank, communicator.size)
    if source.startswith(f"{weblike_share.NAME}:"):
        return weblike_share.make(source, communicator.rank, communicator.size)
    path = Path(source)
    if readers.module_for(path) and not readers.is_file(path):
        raise InputError(f"{source}: there is no such file")
    if in_shares(source):
        if readers.module_for(path) == readers.EDGE_LISTS:
            return edge_list_share.read(path, communicator, options)
        return npz_share.read(path, communicator.rank, communicator.size)
    raise InputError(
        f"{source}: ranks read parts of uncompressed edge lists, of .npz files of cpms.sources.readers.npz.save_npz, "
        "and of uniform:… and weblike-parts:… graphs; convert it to one of these, or let every rank load all of it "
        "with --whole"
    )
