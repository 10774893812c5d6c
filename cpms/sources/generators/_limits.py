"""Refusals that generators share."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cpms.base.errors import InputError
from cpms.base.host_memory import require_memory
from cpms.base.validation import at_least

_BYTES_AN_EDGE = 20
"""Two lists of 4-byte ids, two more while they are grouped, and one to spare."""
_BYTES_A_NODE = 40


MOST_NODES = 2**31 - 1
"""Of generators that count nodes in 32 bits."""
_MOST_SCALE = 40


def power_of_two(name: str, scale: int) -> int:
    """Return 2**scale, for scales that a graph can have.

    Raises
    ------
    InputError
        If the scale is out of range.

    Examples
    --------
    >>> power_of_two("rmat", 4)
    16
    """
    if not 0 <= scale <= _MOST_SCALE:
        raise InputError(f"{name}: scale is {scale}; it must lie between 0 and {_MOST_SCALE}")
    return int(2**scale)


def point_count(name: str, scale: int | None, nodes: int | None, least: int) -> int:
    """Return the number of points of a generator that is given either ``scale`` or ``nodes``.

    Raises
    ------
    InputError
        If both or none are given, or there are fewer than ``least`` points.

    Examples
    --------
    >>> point_count("rgg", 4, None, 2), point_count("rgg", None, 5, 2)
    (16, 5)
    """
    if scale is not None and nodes is None:
        nodes = power_of_two(name, scale)
    elif scale is not None or nodes is None:
        raise InputError(f"{name}: give either scale or nodes")
    return at_least(least, f"{name}: nodes", nodes)


def random_numbers(name: str, seed: int) -> np.random.Generator:
    """Return the generator of random numbers that belongs to a seed.

    Raises
    ------
    InputError
        If the seed is negative.
    """
    if seed < 0:
        raise InputError(f"{name}: seed is {seed}; it must be 0 or more")
    return np.random.default_rng(seed)


def spelled(name: str, always: Mapping[str, object], **unusual: tuple[object, object]) -> str:
    """Return a graph's name: its generator, the parameters that always stand in it, and others if not the default.

    Examples
    --------
    >>> spelled("rmat", {"scale": 3}, a=(0.6, 0.57), b=(0.19, 0.19))
    'rmat:scale=3,a=0.6'
    """
    others = {key: value for key, (value, default) in unusual.items() if value != default}
    return f"{name}:" + ",".join(f"{key}={value}" for key, value in ({**always, **others}).items())


def nested(source: str) -> str:
    """Return what a graph is made of as it stands in a specification: in parentheses if it is one itself.

    Examples
    --------
    >>> nested("wiki-Vote"), nested("rmat:scale=3")
    ('wiki-Vote', '(rmat:scale=3)')
    """
    return f"({source})" if ":" in source else source


def check_size(name: str, nodes: float, edges: float, *, most_nodes: float = float("inf")) -> None:
    """Refuse a graph that is empty or would not fit in the memory at hand.

    Raises
    ------
    InputError
        With the bytes needed and free.
    """
    if nodes < 1 or edges < 0:
        raise InputError(f"{name} would have {nodes:g} nodes and {edges:g} edges; give 1 or more, and 0 or more")
    if nodes > most_nodes:
        raise InputError(f"{name} would have {float(nodes):,.0f} nodes; it counts up to {most_nodes:,.0f}")
    needed = _BYTES_A_NODE * float(nodes) + _BYTES_AN_EDGE * float(edges)
    require_memory(int(needed), f"{name} with {nodes:,.0f} nodes and {edges:,.0f} edges", "ask for fewer")


def check_share(name: str, **shares: float) -> None:
    """Refuse a share outside 0 to 1.

    Raises
    ------
    InputError
        Naming the share.
    """
    for key, value in shares.items():
        if not 0.0 <= value <= 1.0:
            raise InputError(f"{name}: {key} is {value}; it must lie between 0 and 1")
