"""Kinds of file by the ending of a name: which module reads it, and which program compressed it."""

from __future__ import annotations

from pathlib import PurePath

EDGE_LISTS = "edge_lists.reader"
"""The module that reads edge lists."""
KONECT = "graph_files.konect"
"""The module of the files ``out.NAME`` of the KONECT collection."""
TEXTS = {
    ".mtx": "matrix_market",
    **dict.fromkeys((".txt", ".el", ".csv", ".tsv", ".edges", ".edgelist"), EDGE_LISTS),
    ".graph": "graph_files.metis",
    ".gr": "graph_files.dimacs",
    **dict.fromkeys((".net", ".pajek"), "graph_files.pajek"),
    **dict.fromkeys((".graphml", ".gml"), "graph_files.by_networkx"),
}
"""Modules with ``read_stream``, which read forward once, also what is compressed."""
COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst", ".zip")
ARCHIVES = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst", ".tar")
MODULES = {
    **TEXTS,
    **{ending + packed: module for ending, module in TEXTS.items() for packed in COMPRESSIONS},
    **dict.fromkeys(ARCHIVES, "archive"),
    ".npz": "npz",
    ".parquet": "frames",
}
"""The module that reads files of each ending."""
ENDINGS = (
    f"{', '.join(TEXTS)}, each also {', '.join(COMPRESSIONS)}; {', '.join((*ARCHIVES, '.zip', '.npz', '.parquet'))}"
)
"""The endings in words."""
_KONECT = "out."


def module_for(path: PurePath) -> str | None:
    """Return the name of the module that reads files named like ``path``, None if none does.

    Examples
    --------
    >>> [module_for(PurePath(name)) for name in ("web-Google.tar.gz", "links.CSV.xz", "out.petster", "a.zip", "a.pdf")]
    ['archive', 'edge_lists.reader', 'graph_files.konect', 'zipped', None]
    """
    name = path.name.lower()
    if found := next((module for suffix, module in MODULES.items() if name.endswith(suffix)), None):
        return found
    if name.endswith(".zip"):
        return "zipped"
    return KONECT if name.startswith(_KONECT) and len(name) > len(_KONECT) else None


def stem_of(path: PurePath) -> str:
    """Return what the graph of a file is called.

    Examples
    --------
    >>> [stem_of(PurePath(name)) for name in ("web/links.csv.gz", "G.MTX", "out.moreno_health", "out.a.bz2")]
    ['links', 'G', 'moreno_health', 'a']
    """
    name = path.name
    ending = max((each for each in MODULES if name.lower().endswith(each)), key=len, default="")
    if ending:
        return name[: -len(ending)]
    if name.lower().startswith(_KONECT):
        return without_compression(name[len(_KONECT) :])
    return without_compression(name)


def compression_of(name: str) -> str | None:
    """Return the ending by which a name says how the file is compressed.

    Examples
    --------
    >>> compression_of("a.tgz"), compression_of("a.mtx.XZ"), compression_of("a.mtx")
    ('.gz', '.xz', None)
    """
    lower = name.lower()
    return next((each for each in COMPRESSIONS if lower.endswith(each)), ".gz" if lower.endswith(".tgz") else None)


def without_compression(name: str) -> str:
    """Return a name without the ending of its compression."""
    ending = compression_of(name)
    return name if ending is None or not name.lower().endswith(ending) else name[: -len(ending)]


def is_resource_fork(name: PurePath) -> bool:
    """Return whether a member of an archive is macOS's own, which says nothing of the graph.

    Examples
    --------
    >>> is_resource_fork(PurePath("g/._g.mtx")), is_resource_fork(PurePath("__MACOSX/g/g.mtx"))
    (True, True)
    """
    return name.name.startswith("._") or "__MACOSX" in name.parts
