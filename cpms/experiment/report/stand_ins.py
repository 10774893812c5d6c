"""Stand-ins for a paper's graphs: a description of each, their order, and sentences of captions.

The ten graphs of the CPMS paper are not available here; `cpms.sources.generators.standin` makes graphs of their kind
and size. A figure that shows one says so.
"""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

_MARK = " (stand-in)"
KINDS = {
    "adaptive": "an adaptively refined mesh",
    "delaunay_n22": "a Delaunay mesh of other random points",
    "europe_osm": "444 copies of luxembourg_osm",
    "hugebubbles-00020": "a brick-wall lattice, a fifth of it renumbered",
    "rgg_n_2_24_s0": "a random geometric graph of another seed",
    "road_usa": "185 copies of usroads, renumbered in blocks",
    "Stanford": "cnr-2000 transposed",
    "wb-edu": "18 copies of cnr-2000",
    "web-BerkStan": "a generated web",
    "web-Google": "the largest strongly connected component of web-Google",
}
"""Stand-in of each graph of the CPMS paper."""


STAND_INS = "Stand-ins (Table 1) are of the kind and size of the paper's graphs"
"""The sentence of tables in which there are some."""
STARRED = "*: a graph made in place of the collection's, of like kind and size"
"""The sentence of figures whose names have stars."""


def among(graphs: Iterable[object]) -> str:
    """Return a text of captions about the graphs that are stand-ins and how many; empty if there are none.

    Examples
    --------
    >>> among(["standin:Stanford", "standin:Stanford", "wiki-Vote"]), among(["wiki-Vote"])
    ("; 1 of 2 graphs made in place of the collection's (*), of like kind and size", '')
    """
    held = {str(graph) for graph in graphs}
    count = sum(graph.startswith("standin:") for graph in held)
    many = "graph" if len(held) == 1 else "graphs"
    return f"; {count} of {len(held)} {many} made in place of the collection's (*), of like kind and size" * (count > 0)


def of_kind(graph: object) -> str:
    """Return the description of the stand-in for a graph of the CPMS paper; empty for any other graph, and for None.

    Examples
    --------
    >>> of_kind("Stanford"), of_kind(None)
    ('cnr-2000 transposed', '')
    """
    return KINDS.get(str(graph), "")


def in_order(labels: Iterable[str]) -> list[str]:
    """Return the labels of graphs once each: those of the paper in the order of its tables, then the others.

    Examples
    --------
    >>> in_order(["wiki-Vote", "Stanford (stand-in)", "adaptive (stand-in)", "wiki-Vote"])
    ['adaptive (stand-in)', 'Stanford (stand-in)', 'wiki-Vote']
    """
    known = list(KINDS)
    places = {name: known.index(bare) if (bare := name.removesuffix(_MARK)) in known else len(known) for name in labels}
    return sorted(places, key=places.__getitem__)


def too_large(rows: pd.DataFrame) -> str:
    """Return a sentence about graphs that do not fit into a device's memory in the layout of their row.

    It is empty if there are none.

    Examples
    --------
    >>> row = {"layout": "ell", "stand_in_for": "wb-edu", "results": [{"reason": "needs 9 bytes of device memory"}]}
    >>> too_large(pd.DataFrame([row]))
    'In ELL there is no memory for wb-edu. '
    """
    found: dict[str, list[str]] = {}
    for _, row in rows[rows.stand_in_for.notna()].iterrows():
        if any("of device memory" in str(result.get("reason")) for result in row["results"]):
            found.setdefault(str(row["layout"]).upper(), []).append(str(row["stand_in_for"]))
    return "".join(
        f"In {layout} there is no memory for {' and '.join(dict.fromkeys(names))}. " for layout, names in found.items()
    )
