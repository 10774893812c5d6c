"""One node of the core for all whose edges lead to the same nodes: their shares are added in the same rows always.

Its x is the sum of theirs, its row has all of theirs, its out-degree is that of each; in all rows one source stands for
them (ordinary lumping of a Markov chain). Their own x follow from those of others in one pass behind the core.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cpms.backends.cuda.kernels.template import LUMPING, Variant
from cpms.backends.cuda.reduction.level_solve import OF_MANY, Places, Renumbered
from cpms.backends.cuda.reduction.trimming import Cost, Peel
from cpms.backends.cuda.runtime.current import current
from cpms.backends.cuda.spmv import reordering
from cpms.backends.cuda.spmv.padded_csr import DeviceRows
from cpms.problems.pagerank import Problem

_NOWHERE = np.uint32(0xFFFFFFFF)
"""As in ``preprocess/lumping.cu``."""
_MOST_COUNTED = 0xFFFFFFFF
"""Edges, of which some come twice."""
_MOST_ENTRIES = 256
"""Of a row of a node that is merged: a warp sums it in one go, and few have more."""
_MARK, _MOVE = LUMPING


def merged(
    problem: Problem, rows: DeviceRows, degree: Any, found: Peel | None, cost: Cost
) -> tuple[Places, Renumbered] | None:
    """Return places and rows where such nodes are one; None where that does not pay.

    Nodes are told by marks of 64 bits. Should two of the same mark lead to different nodes, the answer is wrong, which
    its residual shows.

    Parameters
    ----------
    problem : Problem
        Nothing is merged unless its teleport is uniform.
    rows : DeviceRows
        The graph's, without weights.
    degree : device array of uint32, shape (nodes,)
        Out-degrees.
    found : Peel or None
        What is not to be swept anyhow.
    cost : Cost
    """
    nodes = rows.nodes if found is None else found.core
    at_most = cost.sweeps * cost.lumped * (nodes + rows.edges)
    if problem.teleport is not None or nodes == 0 or 2 * rows.edges > _MOST_COUNTED or at_most <= _launch(found, cost):
        return None
    marks = _marks(rows, degree)
    core = slice(None) if found is None else found.order[: found.core]
    by_mark, begins = _runs(marks[core])
    if not _pays(by_mark[~begins], degree[core], found, cost):
        return None
    if found is None:
        chosen = reordering.chosen(problem.graph, degree)
        found = Peel.none(rows.nodes, chosen)
        if chosen is not None:
            by_mark, begins = _runs(marks[found.order])
    groups = _Groups.of(by_mark, begins)
    return _placed(found, degree, groups), _moved(rows, found, groups)


class _Groups(NamedTuple):
    """Places of the core whose nodes have the same mark, in the order of the first of each.

    Parameters
    ----------
    number : device array of int64, shape (core,)
        The group of each place.
    leads : device array of bool, shape (core,)
        Whether a place is the first of its group.
    joined : device array of bool, shape (core,)
        Whether it is in a group of more than one.
    sizes : device array of int64
        Of each group.
    """

    number: Any
    leads: Any
    joined: Any
    sizes: Any

    @classmethod
    def of(cls, by_mark: Any, begins: Any) -> _Groups:
        """Take what `_runs` found."""
        arrays, count = current().arrays, len(by_mark)
        firsts, leads = by_mark[begins], arrays.zeros(count, bool)
        leads[firsts] = True
        number_of_run = (arrays.cumsum(leads, dtype=np.int64) - 1)[firsts]
        number, sizes = arrays.empty(count, np.int64), arrays.empty(len(firsts), np.int64)
        number[by_mark] = number_of_run[arrays.cumsum(begins, dtype=np.int64) - 1]
        bounds = arrays.concatenate([arrays.arange(count)[begins], arrays.full(1, count, np.int64)])
        sizes[number_of_run] = _lengths(bounds)
        return cls(number, leads, sizes[number] > 1, sizes)


def _runs(marks: Any) -> tuple[Any, Any]:
    """Return the places by their marks, those of the same in order, and whether each is the first of these."""
    arrays = current().arrays
    by_mark = arrays.argsort(marks, kind="stable")
    ordered, begins = marks[by_mark], arrays.full(len(marks), True, bool)
    begins[1:] = ordered[1:] != ordered[:-1]
    return by_mark, begins


def _marks(rows: DeviceRows, degree: Any) -> Any:
    """Return a mark for each node, the same where edges lead to the same nodes; its own where they lead nowhere.

    Nodes whose rows are too long for a pass stay by themselves, too.
    """
    arrays = current().arrays
    marks = arrays.zeros(rows.nodes, np.uint64)
    _over_edges(_MARK, rows, marks)
    alone = (degree == 0) | (_lengths(rows.indptr) > _MOST_ENTRIES)
    return arrays.where(alone, arrays.arange(rows.nodes, dtype=np.uint64), marks)


def _pays(led: Any, degree: Any, found: Peel | None, cost: Cost) -> bool:
    """Return whether smaller sweeps save more than a level costs, and a teleport that is no longer the same for all.

    By that goes, in each sweep, what edges and dangling nodes carry out of the core. ``led`` are the places that others
    are to stand for.
    """
    fewer = len(led)
    if fewer == 0:
        return False
    # About as many more lead, and rows have about two entries.
    fixed = _launch(found, cost) + cost.level + cost.passed * 6 * fewer
    if found is None or not found.before:
        is_open = found is not None or bool((degree == 0).any())
        fixed += cost.sweeps * (len(degree) - fewer) * (cost.given + (cost.counted if is_open else 0.0))
    return cost.sweeps * cost.lumped * (fewer + int(degree[led].sum())) > fixed


def _launch(found: Peel | None, cost: Cost) -> float:
    """Return what a pass behind the core costs that would not be made anyhow."""
    return 0.0 if found and found.behind else cost.launch


def _placed(found: Peel, degree: Any, groups: _Groups) -> Places:
    """Return what lies where: groups, what is before the core, the nodes of groups of many, and what is behind it."""
    arrays, nodes, core = current().arrays, found.order, found.core
    behind = core + sum(found.before)
    degree = degree[nodes]
    joined = nodes[:core][groups.joined]
    first = arrays.where(groups.sizes > 1, np.uint32(OF_MANY), nodes[:core][groups.leads])
    order = arrays.concatenate([first, nodes[core:behind], joined, nodes[behind:]])
    unread = arrays.zeros(len(joined), np.uint32)
    teleport = arrays.full(len(order), 1.0 / len(nodes), np.float64)
    teleport[: len(groups.sizes)] *= groups.sizes
    return Places(
        order=order,
        core=len(groups.sizes),
        before=found.before,
        behind=[len(joined), *found.behind],
        is_left=bool(found.behind),
        degree=arrays.concatenate([degree[:core][groups.leads], degree[core:behind], unread, degree[behind:]]),
        teleport=teleport,
    )


def _moved(rows: DeviceRows, found: Peel, groups: _Groups) -> Renumbered:
    """Return the rows in these places: of a group all that its nodes have, one behind the other."""
    arrays, nodes, core = current().arrays, found.order, found.core
    old, behind = arrays.arange(len(nodes), dtype=np.int64), core + sum(found.before)
    joined = old[:core][groups.joined]
    new = old + len(groups.sizes) - core
    new[behind:] += len(joined)
    new[:core] = arrays.where(groups.leads, groups.number, _NOWHERE)
    place = _by_node(nodes, new)
    earlier = arrays.zeros(rows.edges + 1, np.uint32)
    earlier[1:] = arrays.cumsum(place[rows.sources] != _NOWHERE, dtype=np.uint32)
    # Rows of nodes, in the order of places: those of groups of many come twice.
    by_group = arrays.argsort(groups.number, kind="stable")
    pieces = arrays.concatenate([by_group, old[core:behind], joined, old[behind:]])
    lengths = _lengths(earlier[rows.indptr])[nodes][pieces]
    ends = arrays.cumsum(lengths, dtype=np.int64)
    firsts, again_from, again_to = ends - lengths, behind, behind + len(joined)
    begins, again = arrays.empty(len(nodes), np.int64), arrays.full(len(nodes), _NOWHERE, np.int64)
    begins[pieces[:again_from]], begins[pieces[again_to:]] = firsts[:again_from], firsts[again_to:]
    again[joined] = firsts[again_from:again_to]
    starts = arrays.zeros(len(groups.sizes) + len(pieces) - core + 1, np.uint32)
    starts[1:] = arrays.concatenate([ends[arrays.cumsum(groups.sizes) - 1], ends[core:]])
    moved = arrays.empty(int(current().to_host(starts[-1:])[0]), np.uint32)
    _over_edges(_MOVE, rows, place, earlier, _by_node(nodes, begins), _by_node(nodes, again), moved)
    return Renumbered(starts, moved)


def _by_node(nodes: Any, values: Any) -> Any:
    """Return as uint32 by node what is given by place."""
    made = current().arrays.empty(len(nodes), np.uint32)
    made[nodes] = values.astype(np.uint32)
    return made


def _lengths(bounds: Any) -> Any:
    return bounds[1:] - bounds[:-1]


def _over_edges(kernel: Variant, rows: DeviceRows, *more: Any) -> None:
    if rows.edges:
        given = rows.indptr, rows.sources, np.uint32(rows.nodes), np.uint32(rows.edges)
        current().run(kernel, current().spread(rows.edges), (*given, *more))
