"""Labels of cases: a graph has one label in all figures of an experiment, which no other graph of it has.

Labels of graphs are made once for all graphs of an experiment, so that a figure of few of them has the same ones. The
cost is a comparison of the parameters of graphs with equal short names.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from cpms.base.text.escape import abbreviate
from cpms.experiment.report.captions import graph_label

_FOLDERS = re.compile(r"^[^:,*]*/(?=[^/])")
"""The folders before the name of a file."""


def graph_labels(graphs: Iterable[object]) -> dict[object, str]:
    """Return the labels of all graphs of an experiment; equal ones get a parameter that distinguishes their graph.

    A file is named without its folder, unless files of that name lie in several.

    Examples
    --------
    >>> graphs = ["elements:points=60000,degree=2", "elements:points=60000,degree=2,numbering=random"]
    >>> [*graph_labels(graphs).values()]
    ['elements, 60k points', 'elements, 60k points numbering=random']
    >>> [*graph_labels(["rmat:scale=20,seed=1", "rmat:scale=20,seed=2"]).values()]
    ['rmat 20 seed=1', 'rmat 20 seed=2']
    >>> [*graph_labels(["set/rock.mtx", "set/soil.mtx", "others/soil.mtx"]).values()]
    ['rock.mtx', 'set/soil.mtx', 'others/soil.mtx']
    """
    labels = {graph: _FOLDERS.sub("", graph_label(graph)) for graph in graphs}
    for label, count in Counter(labels.values()).items():
        alike = [graph for graph, each in labels.items() if each == label]
        if count < 2 or not label:
            continue
        given = [str(graph).partition(", ")[0].partition(":")[2].split(",") for graph in alike]
        for graph, parameters in zip(alike, given, strict=True):
            own = [each for each in parameters if each and any(each not in others for others in given)]
            alone = [each for each in own if sum(each in others for others in given) == 1]
            labels[graph] = " ".join([label, *(alone[:1] or own)])
    counts = Counter(labels.values())
    return {graph: str(graph) if label and counts[label] > 1 else label for graph, label in labels.items()}


def case_label(label: str, problem: str, most: int = 60) -> str:
    """Return the label of a graph, abbreviated, and what is solved on it.

    Examples
    --------
    >>> case_label("rmat 20", "tol=1e-10"), case_label("wiki-Vote", "")
    ('rmat 20, tol=1e-10', 'wiki-Vote')
    """
    return ", ".join(filter(None, [abbreviate(label, max(10, most - len(problem))) if label else "", problem]))


def case_labels(cases: Sequence[tuple[str, str]], most: int = 60) -> list[str]:
    """Return the labels of cases, given the labels of their graphs; those abbreviated alike begin where they differ.

    Examples
    --------
    >>> case_labels([("a graph with a long name and an end", ""), ("a graph with a longer name and an end", "")], 20)
    ['…long name an…an end', '…longer name …an end']
    """
    labels = [case_label(graph, problem, most) for graph, problem in cases]
    for label in [each for each, count in Counter(labels).items() if count > 1]:
        alike = [place for place, each in enumerate(labels) if each == label]
        letters = zip(*(cases[place][0] for place in alike), strict=False)
        same = len([*itertools.takewhile(lambda each: len({*each}) == 1, letters)])
        start = cases[alike[0]][0].rfind(" ", 0, same) + 1  # The word in which they differ is written whole.
        for place in alike:
            graph, problem = cases[place]
            labels[place] = case_label(f"\u2026{graph[start:]}", problem, most)
    return labels
