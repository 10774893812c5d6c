"""Graphs by name: from the folder that ``CPMS_DATA`` names, else the cache, else by download."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from cpms.base import caches
from cpms.base.errors import InputError
from cpms.graph.edge_list import graph_of_read
from cpms.sources import readers
from cpms.sources.dataset_records import DATASETS as DATASETS
from cpms.sources.dataset_records import Dataset as Dataset
from cpms.sources.readers.options import ReadOptions

if TYPE_CHECKING:
    from cpms.graph.edge_list import Read
    from cpms.graph.graph import Graph

COLLECTION_URL = "https://sparse.tamu.edu/MM"
_TIMEOUT_S = 30


def catalogue() -> tuple[Dataset, ...]:
    """Return what is known of every graph, those of the CPMS paper last.

    Examples
    --------
    >>> [dataset.name for dataset in catalogue() if dataset.kind == "social"]
    ['wiki-Vote']
    """
    return tuple(DATASETS.values())


def cache_folder() -> Path:
    """Return the folder that downloads are kept in, the user's cache folder of this program."""
    import platformdirs  # As Pooch does, whose own import takes longer than a small solve.

    return Path(platformdirs.user_cache_dir("cpms"))


def _downloads(temporary: Callable[[], Path | None]) -> Path:
    """Return `cache_folder`, or a temporary one where that takes no files."""
    folder = cache_folder()
    other = None if caches.is_writable(folder) else temporary()
    return folder if other is None else other / "downloads"


def locate(name: str) -> Path | None:
    """Return the file of a graph in the folder ``CPMS_DATA`` or the cache, None if there is none.

    Any ``NAME.tar.gz``, ``NAME.mtx``, … that a reader knows is found, in the catalogue or not.

    Raises
    ------
    InputError
        If ``CPMS_DATA`` is set but names no folder.
    """
    folders = [cache_folder(), _downloads(caches.own_temporary)]
    if given := os.environ.get("CPMS_DATA"):
        if not Path(given).is_dir():
            raise InputError(f"CPMS_DATA names {given}, which is no folder; set it to that of your graphs")
        folders.insert(0, Path(given))
    if not name or Path(name).name != name:
        return None
    candidates = (folder / (name + suffix) for folder in folders for suffix in readers.MODULES)
    return next(filter(readers.is_file, candidates), None)


def fetch(name: str, *, base_url: str | None = None, progress: bool = True) -> Path:
    """Download a graph of the catalogue into the cache folder, whole or not at all.

    Parameters
    ----------
    name : str
        A name of the catalogue.
    base_url : str, optional
        A folder on a server that holds copies of the project's own ``NAME.tar.gz`` files, which are checked against
        their checksums. By default the SuiteSparse Matrix Collection, whose archives have no known checksum: they are
        read as graphs and their counts compared with the catalogue before they are kept.
    progress : bool
        Show a progress bar on standard error.

    Raises
    ------
    InputError
        If the graph is unknown or cannot be had; the text says where to put the file by hand.
    """
    import pooch

    if name not in DATASETS:
        raise InputError(f"{name!r} is not in the catalogue; it holds {', '.join(DATASETS)}")
    record = DATASETS[name]
    by_hand = f"put {name}.tar.gz by hand into the folder that CPMS_DATA names, or into {cache_folder()}"
    if base_url is not None:
        url, checksum = f"{base_url.rstrip('/')}/{name}.tar.gz", record.sha256
    elif record.collection is not None:
        url, checksum = f"{COLLECTION_URL}/{record.collection}.tar.gz", None
    else:
        raise InputError(f"{name}: there is no public download known; {by_hand}")
    pooch.get_logger().setLevel("WARNING")
    kept = _downloads(caches.temporary) / f"{name}.tar.gz"
    try:
        if checksum is not None:
            _retrieve(url, kept, f"sha256:{checksum}", progress=progress)
        elif not kept.is_file():
            _retrieve_checked(url, kept, record, progress=progress)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{name}: the download from {url} failed ({reason}); {by_hand}") from error
    return kept


def _retrieve(url: str, path: Path, known_hash: str | None, *, progress: bool) -> None:
    import pooch

    downloader = pooch.HTTPDownloader(progressbar=progress, timeout=_TIMEOUT_S)
    pooch.retrieve(url, known_hash=known_hash, fname=path.name, path=path.parent, downloader=downloader)


def _retrieve_checked(url: str, path: Path, record: Dataset, *, progress: bool) -> None:
    """Download an archive without a known checksum; it takes its place when it has been read as the right graph."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=path.parent, prefix=f".{record.name}-") as folder:
        new = Path(folder) / path.name
        _retrieve(url, new, None, progress=progress)
        try:
            _check_counts(readers.read_edges(new), record, new)
        except InputError as error:
            raise InputError(f"it is not that graph, {str(error).replace(f'{new}', path.name)}") from error
        new.replace(path)


def load_with(name: str, options: ReadOptions) -> Graph:
    """Load a graph by name, as `read_with` reads it, into main memory."""
    return graph_of_read(read_with(name, options))


def read_with(name: str, options: ReadOptions) -> Read:
    """Read a graph by name, downloading it if need be, and compare its counts with the catalogue.

    Parameters
    ----------
    name : str
        A name of the catalogue, or that of any file in the folder ``CPMS_DATA``.
    options : ReadOptions
        As in `cpms.load`.

    Raises
    ------
    InputError
        If the graph is not to be had, its file is wrong, or its counts are not the published ones.
    """
    path = locate(name) or fetch(name, progress=options.progress)
    found = replace(readers.read_edges(path, options), name=name)
    if name in DATASETS and options.keeps_all:
        _check_counts(found, DATASETS[name], path, "; remove this file and get the right one")
    return found


def _check_counts(found: Read, record: Dataset, path: Path, advice: str = "") -> None:
    read = (found.nodes, found.edges, len(found.dangling_nodes))
    expected = (record.nodes, record.edges, record.empty_rows)
    if read != expected:
        counts = f"nodes, edges and empty rows are {read}, but those of {record.name} are {expected}"
        raise InputError(f"{path}: {counts}{advice}")
