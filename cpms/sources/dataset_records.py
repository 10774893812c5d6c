"""The graphs that `cpms.sources.datasets` knows: counts as published or measured, origins, checksums."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A graph known by name.

    Parameters
    ----------
    name : str
        Its name, and that of its files.
    kind : str
        What sort of network it is.
    nodes, edges, empty_rows : int
        Counts of the stored matrix: for symmetric files of the stored lower triangle. Empty rows are dangling nodes.
    self_loops : int, optional
        Edges from a node to itself, where known.
    iterations : int
        Power iterations in float64 from the uniform vector, damping 0.85, until the L1 difference is below 1e-10, the
        dangling mass spread evenly.
    origin : str
        Who made it.
    collection : str, optional
        ``GROUP/NAME`` in the SuiteSparse Matrix Collection; None if it is not there.
    sha256 : str, optional
        Checksum of the ``NAME.tar.gz`` that the project's data folder holds. Archives of the collection are packed
        differently and have no known checksum: they are proved by counts.
    paper : bool
        Whether it is one of the ten test graphs of the CPMS paper.
    note : str
        What else a user must know.
    """

    name: str
    kind: str
    nodes: int
    edges: int
    empty_rows: int
    iterations: int
    origin: str
    self_loops: int | None = None
    collection: str | None = None
    sha256: str | None = None
    paper: bool = False
    note: str = ""


_MEASURED = """
web-Google-scc|web|434,818 3,419,124 0 107 0||SNAP (Leskovec, Krevl); the largest strongly connected component of web-Google
cnr-2000|web|325,557 3,216,152 78,056 116 87,442|LAW|LAW (Boldi, Vigna: WebGraph, UbiCrawler); crawl of .cnr.it, 2000
web-NotreDame|web|325,729 1,497,134 187,788 111 27,455|SNAP|Albert, Jeong, Barabasi, 1999 (SNAP); crawl of nd.edu
hollins|web|6,012 23,875 3,189 111 0||K. Massey; crawl of hollins.edu, 2004
wb-cs-stanford|web|9,914 36,854 2,861 106 1,299|Gleich|D. Gleich; part of wb-edu
luxembourg_osm|road|114,599 119,666 3,721 113 0|DIMACS10|DIMACS10, OpenStreetMap
usroads|road|129,164 165,435 6,173 91 0|Gleich|D. Gleich, 2010
wiki-Vote|social|8,297 103,689 2,187 29 0|SNAP|SNAP (Leskovec, Huttenlocher, Kleinberg)
p2p-Gnutella31|peer to peer|62,586 147,892 46,199 18 0|SNAP|SNAP (Leskovec, Krevl)
delaunay_n15|mesh|32,768 98,274 4,301 28 0|DIMACS10|DIMACS10
delaunay_n16|mesh|65,536 196,575 8,760 28 0|DIMACS10|DIMACS10
rgg_n_2_15_s0|random geometric|32,768 160,240 321 104 0|DIMACS10|DIMACS10
pagerank-10k|synthetic|10,000 38,598 1,192 49 1||course data of the cuSPARSE PageRank report, row 2 of its Table 1
pagerank-100000|synthetic|10,000 53,711 820 63 4||course data of the cuSPARSE PageRank report, row 3 of its Table 1
pagerank-50k|synthetic|50,000 216,015 5,491 42 1||course data of the cuSPARSE PageRank report, row 4 of its Table 1
"""  # noqa: E501
"""Graphs of the project's data folder: name, kind, counts, group in the SuiteSparse Matrix Collection, and origin.

The counts are those of nodes, edges, empty rows, iterations and self-loops.
"""
_SHA256 = """
web-Google-scc bf6975dda1097881d3a9b0887d75c11ddf7e0e0582b043db9aa4563cef6ef2ef
cnr-2000 b0019a932ed6dd48bb16b1b51c34fea7785e5bcf8cad08c7a7bed0d68fcf764e
web-NotreDame 64038332611d6014227716406dfb3b5914d14cb5ba23fdcd61891cc40d8bd512
hollins f71ba0d8fc450755b8ca75606fb07709c1e71553e00ade62f5ddf0e3009ae242
wb-cs-stanford 0280d4981e6d58ac3e30e3ca97ab2ec25675c032928ec11cc62e26b83c3df63e
luxembourg_osm a9a7867636a623568798f36e86e298002721bcb4db1a1491c1f93f68ca91ef23
usroads 9fcac4d5d565f3b7125963f69f54f8dccab036345066409a3b17fac0ea458117
wiki-Vote 0b398e2416acc9b246afbf36d86428199724bbee3f86b33aa61d4b42246b01d4
p2p-Gnutella31 b5ff3b2cf3fbda08bd76582d839ccaab6d624fd02d781c7077a9b3e7aefa19e1
delaunay_n15 a56411aab127ff7f8dd217fb129dbccb39b361ded5e825683ebb893dbcb352d7
delaunay_n16 278e8ec818bb7ad934502b9daa703d69aff41443ce67ef8f55c10f38fd8e2852
rgg_n_2_15_s0 dd7fd12b2009fbdcf468ee3de192d5e2f35a82070d1e38c9dbb30eb2b61202a3
pagerank-10k a873c40f449f27cdbcbe5233b32fcdd5562f8f150cf94f1433dc244f4c4671e0
pagerank-100000 4f20b4bcaac9accbb43fc0fb189d6451cebe1163758b20f55f56030e27f9f188
pagerank-50k 3d9ac569109ee55253036078113b4b46f7b02f4be958b3353c97974ef6d9527d
"""
_PAPER = """
adaptive|mesh|6,815,744 13,624,320 425,984 52|DIMACS10|
delaunay_n22|mesh|4,194,304 12,582,869 555,807 26|DIMACS10|
europe_osm|road|50,912,018 54,054,660 1,616,942 112|DIMACS10|
hugebubbles-00020|mesh|21,198,119 31,790,179 3,530,509 61|DIMACS10|
rgg_n_2_24_s0|random geometric|16,777,216 132,557,200 7,121 106|DIMACS10|
road_usa|road|23,947,347 28,854,312 6,392,288 31|DIMACS10|
Stanford|web|281,903 2,312,497 20,315 118|Kamvar|the stored matrix is the transposed web: entry (i, j) is a link from j to i
wb-edu|web|9,845,725 57,156,537 2,925,419 114|Gleich|
web-BerkStan|web|685,230 7,600,595 4,744 119|SNAP|
web-Google|web|916,428 5,105,039 176,974 116|SNAP|
"""  # noqa: E501
"""Graphs of Tables I and II of the paper: name, kind, counts as above but for self-loops, group, and note."""
_COUNTS = ("nodes", "edges", "empty_rows", "iterations", "self_loops")


def _records(table: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the fields of each line of a table but for its last one, and that one."""
    for line in table.strip().splitlines():
        name, kind, counts, group, last = line.split("|")
        numbers = [int(part.replace(",", "")) for part in counts.split()]
        known = {"name": name, "kind": kind, "collection": f"{group}/{name}" if group else None}
        yield {**known, **dict(zip(_COUNTS, numbers, strict=False))}, last


_CHECKSUMS = dict(line.split() for line in _SHA256.strip().splitlines())
DATASETS = {
    **{
        known["name"]: Dataset(**known, origin=origin, sha256=_CHECKSUMS[known["name"]])
        for known, origin in _records(_MEASURED)
    },
    **{
        known["name"]: Dataset(
            **known,
            origin=f"SuiteSparse Matrix Collection, group {known['collection'].partition('/')[0]}",
            paper=True,
            note=note,
        )
        for known, note in _records(_PAPER)
    },
}
