"""Validation of node ids, weights and names that users give, and their conversion to arrays of a graph.

Every check is vectorised and reports the first wrong entry; valid arrays are converted without copies where possible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from cpms.base import threads
from cpms.base.errors import InputError
from cpms.base.real_arrays import doubles, plain_array
from cpms.base.text.suggestions import require_one_of
from cpms.base.types import Floats
from cpms.base.validation import as_whole, described, require_real, whole
from cpms.graph.histogram import occurrences

Ints = npt.NDArray[Any]
_PART, _BLOCK = 1 << 20, 1 << 16
"""Ids that a thread checks at least, and ids that it reads at a time."""
LARGEST_ID = 2**59 - 1
"""Exceeds any memory, and sums of two such ids fit int64."""


def names_of(nodes: list[Any]) -> npt.NDArray[Any] | None:
    """Return the names of nodes in order: None for 0, 1, 2, …, an array of integers if all are, else of texts."""
    numbers = [as_whole(node) for node in nodes]
    if numbers == list(range(len(nodes))):
        return None
    if all(number is not None and -(2**63) < number < 2**63 for number in numbers):
        return np.array(numbers, dtype=np.int64)
    return _as_texts(nodes)


def _as_texts(names: Iterable[Any]) -> npt.NDArray[Any]:
    try:
        texts = [str(name) for name in names]
    except Exception as error:  # noqa: BLE001 - objects of others raise anything, and so do numbers of 5,000 digits
        raise InputError(f"a node's name has no text ({error}); name nodes by integers or texts") from None
    array = np.empty(len(texts), dtype=object)
    array[:] = texts
    return array


_MOST_NUMBER = np.uint64(2**63 - 1)
"""Largest name that is stored as a number, since files store int64."""


def distinct_names(names: npt.ArrayLike, nodes: int) -> npt.NDArray[Any]:
    """Return a copy of the names of ``nodes`` nodes as an array of distinct integers or texts.

    Raises
    ------
    InputError
        If there is not one name a node, or two nodes have the same.

    Examples
    --------
    >>> distinct_names(["b.org", 7], 2).tolist()
    ['b.org', '7']
    """
    array = plain_array("names", names)
    if array.ndim != 1:
        raise InputError(f"names have {array.ndim} dimensions; give a list, one a node")
    if len(array) != nodes:
        raise InputError(f"{len(array)} names for {nodes} nodes; give one of each a node")
    if array.dtype.kind not in "iuU" or (array.dtype == np.uint64 and (array > _MOST_NUMBER).any()):
        array = _as_texts(array)
    repeated = _first_repeated(array)
    if repeated is not None:
        shown = described(repeated)
        raise InputError(f"two nodes are named {shown} (as a number or a text); give each a name of its own")
    return array.copy() if array is names else array


def _first_repeated(names: npt.NDArray[Any]) -> int | str | None:
    if names.dtype.kind in "iu" and (names[1:] > names[:-1]).all():
        return None
    listed = names.tolist()
    if len(set(listed)) == len(listed):
        return None
    (name, _), *_ = Counter(listed).most_common(1)
    found: int | str = name
    return found


def first_id_from(first_id: Any) -> int:
    """Return the id of node 0 as an int.

    Raises
    ------
    InputError
        If it is no whole number, or ids would overflow.

    Examples
    --------
    >>> first_id_from(1.0)
    1
    """
    number = whole("first_id", first_id)
    if abs(number) > LARGEST_ID:
        raise InputError(f"first_id is {number}; it must be at least -{LARGEST_ID} and at most {LARGEST_ID}")
    return number


def ids_from(values: npt.ArrayLike, name: str, first_id: int) -> tuple[Ints, int]:
    """Return node ids as an array of integers from 0 on, and the largest of them; -1 if there are none.

    Raises
    ------
    InputError
        If they are not a list of integers, or out of range.

    Examples
    --------
    >>> ids_from([3, 1], "sources", 1)
    (array([2, 0]), 2)
    """
    require_real(name, values)
    ids = plain_array(name, values)
    if ids.ndim != 1:
        raise InputError(f"{name} have {ids.ndim} dimensions; give a list of ids")
    if len(ids) == 0:
        return np.zeros(0, dtype=np.int32), -1
    if ids.dtype.kind not in "iu":
        hint = "for names, give their indices as integers and names=…" if ids.dtype.kind in "UO" else "convert them"
        raise InputError(f"{name} are {ids.dtype}; node ids are integers below 2^59: {hint}")
    smallest, largest = _extremes(ids)
    if max(largest, largest - first_id) > LARGEST_ID:
        raise InputError(
            f"{name} hold the id {largest}; ids must be at most {LARGEST_ID}, counted from {min(0, first_id)}"
        )
    if smallest < first_id:
        raise InputError(f"{name} hold the id {smallest}; the smallest possible is {first_id}")
    return (np.subtract(ids, first_id, dtype=np.int64) if first_id else ids), largest - first_id


def _extremes(ids: Ints) -> tuple[int, int]:
    """Return the smallest and the largest id, found by threads, in blocks that a core's cache holds."""

    def of_part(part: tuple[int, int]) -> tuple[int, int]:
        blocks = [ids[low : min(low + _BLOCK, part[1])] for low in range(*part, _BLOCK)]
        found = [(int(block.min()), int(block.max())) for block in blocks]
        return min(low for low, _ in found), max(high for _, high in found)

    found = threads.each(of_part, threads.ranges(len(ids), at_least=_PART, parts=threads.available()))
    return min(low for low, _ in found), max(high for _, high in found)


def node_count(largest: int, nodes: int | None, first_id: int) -> int:
    """Return the number of nodes of a graph: as given, or by its largest id, counted from 0.

    Raises
    ------
    InputError
        If there are none, or an edge has a larger id.

    Examples
    --------
    >>> node_count(4, None, 0)
    5
    """
    count = largest + 1 if nodes is None else whole("nodes", nodes)
    if count < 1:
        raise InputError("the graph is empty; it needs at least one node")
    if largest >= count:
        raise InputError(f"an edge names node {largest + first_id}, but the last is {count - 1 + first_id}")
    return count


def checked_weights(weights: npt.ArrayLike, edges: int) -> Floats:
    """Return the weights of ``edges`` edges as float64.

    Raises
    ------
    InputError
        If there is not one positive finite number an edge.

    Examples
    --------
    >>> checked_weights([1, 2], 2).tolist()
    [1.0, 2.0]
    """
    values = doubles("weights", weights)
    if values.shape != (edges,):
        raise InputError(f"weights have shape {values.shape}; give one an edge, {edges}")
    invalid = np.flatnonzero(~((values > 0) & np.isfinite(values)))
    if len(invalid):
        raise InputError(f"edge {invalid[0]} has weight {values[invalid[0]]}; weights must be positive and finite")
    return values


def check_arrays(indptr: Any, sources: Any, weights: Any, names: Any) -> None:
    """Refuse arrays that no graph consists of, by checks in constant time: types, shapes and the ends of indptr."""
    for name, array, possible in (("indptr", indptr, "int64"), ("sources", sources, "int32 or int64")):
        if not isinstance(array, np.ndarray) or array.ndim != 1 or str(array.dtype) not in possible.split(" or "):
            raise InputError(
                f"{name} is {described(array)}; it must be a one-dimensional NumPy array of {possible}; "
                "Graph.from_edges takes lists of edges"
            )
    edges = len(sources)
    if len(indptr) == 0 or indptr[0] != 0 or indptr[-1] != edges:
        raise InputError(f"indptr must run from 0 to the number of sources, {edges}; Graph.from_edges makes it")
    if weights is not None and (
        not isinstance(weights, np.ndarray) or weights.dtype != np.float64 or weights.shape != (edges,)
    ):
        raise InputError(f"weights is {described(weights)}; it must be a NumPy array of {edges} float64, or None")
    if names is not None and (not isinstance(names, np.ndarray) or names.shape != (len(indptr) - 1,)):
        raise InputError(f"names is {described(names)}; it must be a NumPy array of {len(indptr) - 1} names, or None")


def row_lengths(indptr: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the entries of each row, shape (nodes,).

    Raises
    ------
    InputError
        If row bounds descend, of which compiled loops would read memory of others.

    Examples
    --------
    >>> row_lengths(np.array([0, 2, 2])).tolist()
    [2, 0]
    """
    lengths = np.diff(indptr)
    if (lengths < 0).any():
        raise InputError(
            f"indptr descends after entry {np.argmax(lengths < 0)}; Graph.from_edges makes one that ascends"
        )
    return lengths


def out_degrees(indptr: npt.NDArray[np.int64], sources: Ints, weights: Floats | None) -> npt.NDArray[np.int64]:
    """Return the edges that leave each node, shape (nodes,), of arrays whose contents are checked.

    Raises
    ------
    InputError
        If row bounds descend, a source is no node, or a weight is not positive and finite.

    Examples
    --------
    >>> out_degrees(np.array([0, 1, 3]), np.array([1, 0, 1]), None).tolist()
    [1, 2]
    """
    row_lengths(indptr)
    if weights is not None:
        checked_weights(weights, len(weights))
    return occurrences(sources, len(indptr) - 1)


def check_labels(name: Any, stand_in_for: Any) -> None:
    """Refuse names of a graph that are not text."""
    if not isinstance(name, str):
        raise InputError(f"name is {described(name)}; give text")
    if not isinstance(stand_in_for, str | None):
        raise InputError(f"stand_in_for is {described(stand_in_for)}; give the name of a graph, or None")


def check_choices(duplicates: Any, self_loops: Any) -> None:
    """Refuse unknown treatments of repeated edges and of self-loops."""
    require_one_of("self_loops", self_loops, ("keep", "drop"))
    require_one_of("duplicates", duplicates, ("keep", "drop", "sum"))
