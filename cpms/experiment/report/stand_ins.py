"""Stand-ins of a paper's graphs in captions: a sentence on what each is, and their order.

The ten graphs of the CPMS paper are not at hand; `cpms.sources.generators.standin` makes graphs of their kind and size.
A figure that shows one says so beside it.
"""

from __future__ import annotations

from collections.abc import Iterable

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


def explained(labels: Iterable[str]) -> str:
    """Return a sentence on the stand-ins among graphs; empty if there are none.

    Examples
    --------
    >>> explained(["Stanford (stand-in)", "wiki-Vote"])
    "Stand-ins (*) are of the kind and size of the paper's graphs: Stanford by cnr-2000 transposed."
    """
    found = [name.removesuffix(_MARK) for name in in_order(labels) if name.endswith(_MARK)]
    texts = "; ".join(f"{name} by {KINDS[name]}" if name in KINDS else name for name in found)
    return f"Stand-ins (*) are of the kind and size of the paper's graphs: {texts}." if found else ""


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
