"""Hypothesis strategies: bit patterns, formats, graphs, matrices and systems, to test cpms and what plugs into it.

They need Hypothesis, which the extra ``test`` installs. Each strategy leans towards what breaks things: NaN payloads
that lie in one segment only, infinities, both zeros, subnormals, powers of two, mantissas of ones; arrays that end
within a block; graphs with hubs and without edges.

Examples
--------
A law of one's own, over every bit pattern there is:

>>> from hypothesis import given, settings
>>> from cpms import CPMS2, encode
>>> @settings(deadline=None)
... @given(values=float_arrays(max_size=5))
... def test_my_law(values):
...     assert len(encode(values, CPMS2)) == len(values)
>>> test_my_law()
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from cpms.base.errors import InputError, UnavailableError
from cpms.base.validation import described, whole
from cpms.formats.block_float import BLOCK_FLOATS, BlockFloatFormat
from cpms.formats.formats import FloatFormat, Format, Rounding, SegmentFormat, format_named, format_of, names
from cpms.graph.graph import Graph
from cpms.sources.fuzzed_systems import KINDS, Fuzzed, fuzzed
from cpms.storage.corner_patterns import corner_arrays, fitting, special_sizes

try:
    from hypothesis import strategies as st
except ImportError as error:  # pragma: no cover
    raise UnavailableError(
        "cpms.testing draws values by Hypothesis, which is not installed; pip install hypothesis"
    ) from error

from cpms.testing.drawn_graphs import drawn_graph, drawn_graph_with_a_core

__all__ = [
    "NAN_THAT_BECOMES_INF",
    "bit_patterns",
    "block_float_formats",
    "distributions",
    "float_arrays",
    "float_formats",
    "graphs",
    "graphs_with_a_core",
    "group_formats",
    "matrices",
    "protocol_formats",
    "segment_formats",
    "segment_widths",
    "systems",
]

NAN_THAT_BECOMES_INF = 0x7FF0000000000001
"""A NaN whose payload is its last bit: every partial read makes it an infinity."""
_SIGN = 1 << 63
_EXPONENT = 0x7FF << 52
_LARGE = 1 << 62
"""The highest bit of the exponent: without it a NaN is a number from 1 to 2."""
_ONES = (1 << 52) - 1
_MOST = 1 << 16
"""Most nodes or values that a strategy draws: with more Hypothesis would not end."""


def bit_patterns() -> st.SearchStrategy[int]:
    """Return a strategy of 64-bit patterns of float64 values, as integers.

    Examples
    --------
    >>> from hypothesis import find
    >>> hex(find(bit_patterns(), lambda bits: bits > 0x7FF0000000000000))
    '0x7ff0000000000001'
    """
    leading_ones = st.integers(0, 51).map(lambda place: _ONES >> place << place)
    size = st.one_of(
        *(st.sampled_from(group.tolist()) for group in special_sizes()),
        st.integers(1, _ONES).map(lambda payload: _EXPONENT | payload),
        st.integers(1, _ONES),
        st.builds(lambda field, mantissa: field << 52 | mantissa, st.integers(0, 0x7FE), leading_ones),
        st.builds(_near_a_tie, st.integers(0, _EXPONENT - 1), st.integers(1, 51), st.integers(-1, 1)),
        st.integers(0, _SIGN - 1),
    )
    return st.builds(lambda sign, rest: sign | rest, st.sampled_from([0, _SIGN]), size)


def float_arrays(
    *, min_size: int = 0, max_size: int = 80, near: Format | str | None = None
) -> st.SearchStrategy[npt.NDArray[np.float64]]:
    """Return a strategy of float64 arrays made of `bit_patterns`, shape (n,).

    Parameters
    ----------
    min_size, max_size : int
    near : Format or str, optional
        A format whose corner patterns, such as ties, are drawn as often: those that `cpms.check.check_format` tries.
        Values that it cannot store, such as NaN in a format without one, become numbers.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(float_arrays(), lambda values: len(values) == 2).tolist()
    [0.0, 0.0]
    >>> len(find(float_arrays(near="fp16"), lambda values: len(values) == 2))
    2
    """
    least = _count("min_size", min_size, 0)
    pattern = bit_patterns()
    if near is not None:
        storage = format_of(near)
        pattern = st.one_of(pattern, st.sampled_from(_corners(storage))).map(lambda bits: _storable(storage, bits))
    patterns = st.lists(pattern, min_size=least, max_size=_count("max_size", max_size, least))
    return patterns.map(lambda bits: np.array(bits, dtype=np.uint64).view(np.float64))


def _storable(storage: Format, bits: int) -> int:
    """Return the pattern of a value that a format can store; of an infinity or a NaN that it cannot, of a number."""
    value = np.array([bits], dtype=np.uint64).view(np.float64)
    return bits if fitting(storage, value).size else bits & ~_LARGE


def segment_widths() -> st.SearchStrategy[tuple[int, ...]]:
    """Return a strategy of segment widths: whole bytes that sum to 64 bits. Devices have 8, 16, 32 and 64 alone.

    Examples
    --------
    >>> from hypothesis import find
    >>> sum(find(segment_widths(), lambda widths: len(widths) == 3))
    64
    """
    return st.composite(_widths)()


def segment_formats(*, max_block: int = 300) -> st.SearchStrategy[SegmentFormat]:
    """Return a strategy of segment formats: any widths, blocks of 1 to ``max_block`` or planes, both roundings.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(segment_formats(max_block=8), lambda format: format.block == 7).block
    7
    """
    max_block = _count("max_block", max_block, 1)
    common = [block for block in (1, 2, 16, 32, 64, 128) if block <= max_block]
    blocks = st.one_of(st.none(), st.sampled_from(common), st.integers(1, max_block))
    rounding = st.sampled_from(["zero", "nearest"])
    return st.builds(SegmentFormat, st.just("mine"), segment_widths(), blocks, rounding)


def float_formats(
    *, roundings: tuple[Rounding, ...] = ("nearest", "zero"), scaled: bool | None = None
) -> st.SearchStrategy[FloatFormat]:
    """Return a strategy of packed floats of 8, 16 or 32 bits with any split of exponent and mantissa.

    Parameters
    ----------
    roundings : tuple of {"nearest", "zero", "stochastic"}
        What to choose from.
    scaled : bool, optional
        Only formats with or without a shared scale; both by default.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(float_formats(scaled=True), lambda format: format.exponent_bits == 5).scaled
    True
    """
    known = get_args(Rounding)
    if not isinstance(roundings, tuple | list) or not roundings or not all(_is_one_of(one, known) for one in roundings):
        raise InputError(f"roundings is {described(roundings)}; give some of {known}")
    splits = [(e, width - 1 - e) for width in (8, 16, 32) for e in range(2, 12) if width - 1 - e >= 1]
    choices = _choice("scaled", scaled)
    return st.builds(
        lambda split, rounding, scale: FloatFormat("mine", split[0], split[1], rounding, scale and split[0] < 11),
        st.sampled_from(splits),
        st.sampled_from(roundings),
        choices,
    )


def graphs(*, max_nodes: int = 12, weighted: bool | None = None) -> st.SearchStrategy[Graph]:
    """Return a strategy of small graphs of every awkward shape.

    Any edges at all, with empty rows, duplicates and self-loops; hubs (stars inwards and outwards); isolated nodes; two
    components; chains; all nodes dangling; none dangling.

    Parameters
    ----------
    max_nodes : int
        At least 1.
    weighted : bool, optional
        Only graphs with or without weights; both by default.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(graphs(), lambda graph: len(graph.dangling_nodes) == graph.nodes == 2).edges
    0
    """
    return st.composite(drawn_graph)(_count("max_nodes", max_nodes, 1), _choice("weighted", weighted))


def graphs_with_a_core() -> st.SearchStrategy[Graph]:
    """Return a strategy of graphs with nodes before, on and behind cycles, whose numbers are mixed.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(graphs_with_a_core(), lambda graph: graph.nodes > 2).sources.tolist()
    [1, 0]
    """
    return st.composite(drawn_graph_with_a_core)()


def distributions(nodes: int) -> st.SearchStrategy[npt.NDArray[np.float64]]:
    """Return a strategy of distributions: ``nodes`` numbers of at least 0 and of sum 1, some of them 0.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(distributions(2), lambda x: x[0] == 0).tolist()
    [0.0, 1.0]
    """
    nodes = _count("nodes", nodes, 1)
    counts = st.lists(st.integers(0, 1000), min_size=nodes, max_size=nodes).filter(any)
    return counts.map(lambda given: np.array(given) / sum(given))


def protocol_formats() -> st.SearchStrategy[Format]:
    """Return a strategy of formats of the protocol that come with cpms and store each number for itself.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(protocol_formats(), lambda format: format.bits() == 32 and not format.has_nan).name
    'int32'
    """
    return st.sampled_from([format for format in _own_formats() if format.group == 1])


def group_formats() -> st.SearchStrategy[Format]:
    """Return a strategy of formats whose numbers are stored in groups.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(group_formats(), lambda format: format.levels > 1).name
    'gse'
    """
    return st.sampled_from([format for format in _own_formats() if format.group > 1])


def block_float_formats() -> st.SearchStrategy[BlockFloatFormat]:
    """Return a strategy of block floating point of 16, 21 and 32 bits, in which vectors and matrices may be stored.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(block_float_formats(), lambda format: format.width > 16).name
    'bfp21'
    """
    return st.sampled_from(BLOCK_FLOATS)


def systems(*, max_size: int = 40, kinds: tuple[str, ...] = KINDS) -> st.SearchStrategy[Fuzzed]:
    """Return a strategy of linear systems: a kind, a sparse matrix A, a right-hand side b and a tolerance.

    Conditions reach 1e14, right-hand sides 1e200; some are singular, some have b = 0.

    Parameters
    ----------
    max_size : int
        Most unknowns.
    kinds : tuple of str
        Some of `cpms.sources.fuzzed_systems.KINDS`, such as ``spd``, ``indefinite`` or ``badly scaled``.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(systems(kinds=("laplacian",)), lambda system: system.A.shape == (1, 1)).A.toarray().tolist()
    [[2.0]]
    """
    largest = _count("max_size", max_size, 2)
    if not isinstance(kinds, tuple | list) or not kinds or not all(_is_one_of(kind, KINDS) for kind in kinds):
        raise InputError(f"kinds is {described(kinds)}; give some of {KINDS}")
    kind, rest = st.sampled_from(kinds), st.integers(0, 1 << 20)  # A seed's remainder is the kind of its system.
    return st.builds(lambda kind, rest: fuzzed(len(KINDS) * rest + KINDS.index(kind), largest), kind, rest)


def matrices(*, max_size: int = 12) -> st.SearchStrategy[npt.NDArray[np.float64]]:
    """Return a strategy of small dense matrices of any sign, with empty rows and entries of many binades.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(matrices(), lambda matrix: len(matrix) > len(matrix.T)).tolist()
    [[0.0], [0.0]]
    """
    size = st.integers(1, _count("max_size", max_size, 1))
    entry = st.sampled_from([0.0, 0.0, 1.0, -0.5, 2.0**-20]) | st.floats(-1e3, 1e3)
    return st.tuples(size, size).flatmap(
        lambda shape: st.lists(entry, min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]).map(
            lambda entries: np.array(entries).reshape(shape)
        )
    )


def _near_a_tie(size: int, place: int, step: int) -> int:
    """Return bits whose lowest ones from a place on are a tie of a format that keeps the others, or beside it."""
    half = 1 << (place - 1)
    return size >> place << place | half + step if place > 1 else size | 1


@lru_cache
def _corners(format: Format) -> list[int]:
    """Return the bits of a format's corner patterns, without special values, which `bit_patterns` has."""
    found: list[int] = np.unique(np.concatenate([*corner_arrays(format)][1:]).view(np.uint64)).tolist()
    return found


def _own_formats() -> list[Format]:
    found = [format_named(name) for name in names()]
    return [format for format in found if not isinstance(format, SegmentFormat | FloatFormat)]


def _count(name: str, value: Any, least: int) -> int:
    count = whole(name, value)
    if not least <= count <= _MOST:
        raise InputError(f"{name} is {count}; it can be {least} to {_MOST}")
    return count


def _is_one_of(value: Any, known: tuple[str, ...]) -> bool:
    return isinstance(value, str) and value in known


def _choice(name: str, value: Any) -> st.SearchStrategy[bool]:
    if value is None:
        return st.booleans()
    if not isinstance(value, bool):
        raise InputError(f"{name} is {described(value)}; it can be True, False or None for both")
    return st.just(value)


def _widths(draw: st.DrawFn) -> tuple[int, ...]:
    widths: list[int] = []
    while sum(widths) < 64:
        left = 64 - sum(widths)
        widths.append(draw(st.sampled_from(range(8, left + 1, 8))))
    return tuple(widths)


def __dir__() -> list[str]:
    return sorted(__all__)
