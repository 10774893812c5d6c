"""Words of captions for properties that all observations share: the objects that bits and comparisons refer to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from cpms.base.text.counted import counted
from cpms.experiment.report import captions

if TYPE_CHECKING:
    import pandas as pd

GROWS = "RANKS"
"""A word in the names of graphs that grow with the ranks."""
_OF_MATRICES = {"linear", "vector_bits", "passes", "product"}
"""Kinds of experiments on matrices."""
_OF_ARRAYS = {"conversion", "rounding", "topk"}
"""Kinds of experiments on arrays of values."""
_BITS = {
    **dict.fromkeys(("linear", "vector_bits", "passes"), "of a vector's value"),
    "product": "of a matrix's value",
    "conversion": "of the format converted to",
    "rounding": "of the format rounded to",
    "topk": "of an array's value",
}
"""Kinds in which "bits" does not mean those that sweeps read of a matrix's value, and the words for these."""

_ERRORS = {
    ("product", "error"): "largest relative error",
    ("linear", "error"): "relative error, 2-norm",
    ("linear", "residual"): "relative residual, 2-norm",
}
"""Kinds whose column of errors has a measure of its own."""
_WORK = {
    **dict.fromkeys(("contest", "linear", "pagerank", "peers", "quoted"), "solve"),
    "conversion": "conversion",
    "opencl": "run",
    "ppr": "query",
    **dict.fromkeys(("product", "spmv"), "product"),
    "rounding": "rounding",
    "startup": "process",
    "sweeps": "sweep",
    "topk": "selection",
}
"""Kinds of experiments, and the work of which a time is."""
_OF_PURPOSES = {"opencl": ["run"], "quoted": ["graph", "part timed"]}
"""Kinds whose rows have a purpose, and the words for what their cases differ in."""
_PROBLEMS = {"tol": "tolerance", "rhs": "right-hand side", "storage": "format", "stage": "stage"}
"""Words for parameters of problems."""


def of_systems(found: pd.DataFrame) -> bool:
    """Return whether observations are of linear systems."""
    return "kind" in found and set(found.kind) == {"linear"}


def bits_in_words(found: pd.DataFrame) -> str:
    """Return the words that follow "bits" in a caption and say what has these bits."""
    kinds = set(found.kind) if "kind" in found else set()
    return _BITS.get(kinds.pop(), "read") if len(kinds) == 1 else "read"


def error_in_words(found: pd.DataFrame) -> str:
    """Return the words for the errors of observations: their measure and norm.

    Examples
    --------
    >>> import pandas as pd
    >>> error_in_words(pd.DataFrame({"kind": ["linear"], "error_name": ["error"]}))
    'relative error, 2-norm'
    """
    kinds, names = set(found.kind), set(found.error_name)
    of_kind = _ERRORS.get((kinds.pop(), names.pop())) if len(kinds) == len(names) == 1 else None
    return of_kind or captions.in_words(found.error_name)


def noun_of_errors(names: Iterable[str]) -> str:
    """Return the plural noun for the errors in some columns.

    Examples
    --------
    >>> noun_of_errors(["residual_l1", "residual"]), noun_of_errors(["error_l1"]), noun_of_errors(["error", "residual"])
    ('residuals', 'errors', 'errors or residuals')
    """
    found = sorted({"residuals" if name.startswith("residual") else "errors" for name in names})
    return " or ".join(found)


def case_in_words(found: pd.DataFrame) -> str:
    """Return the word for the object on which contestants are compared: a graph, an array, or a matrix."""
    if "kind" in found and set(found.kind) <= _OF_MATRICES and any(found.kind):
        return "matrix"
    arrays = "kind" in found and set(found.kind) <= _OF_ARRAYS and any(found.kind)
    return "array" if arrays else "graph"


def plural(word: str) -> str:
    """Return the plural of a word for cases.

    Examples
    --------
    >>> plural("graph"), plural("matrix")
    ('graphs', 'matrices')
    """
    return "matrices" if word == "matrix" else f"{word}s"


def time_in_words(found: pd.DataFrame) -> str:
    """Return the words for the times of observations: of what work they are, if the kind of experiment says so.

    Examples
    --------
    >>> import pandas as pd
    >>> time_in_words(pd.DataFrame({"kind": ["ppr"]})), time_in_words(pd.DataFrame({"kind": [""]}))
    ('time of a query', 'time')
    """
    kinds = set(found.kind) if "kind" in found else set()
    work = _WORK.get(kinds.pop()) if len(kinds) == 1 else None
    return f"time of a {work}" if work else "time"


def time_in_full(found: pd.DataFrame) -> str:
    """Return the words for the times of observations, with the iterations of a run or what a query of a batch is.

    Examples
    --------
    >>> import pandas as pd
    >>> time_in_full(pd.DataFrame({"kind": ["opencl"] * 2, "iterations": [10.0, 20.0], "called": ["a", "b"]}))
    'time of a run of 10 or 20 iterations'
    """
    text = time_in_words(found)
    if text.endswith("run") and (counts := sorted({*found.iterations.dropna()})):
        return f"{text} of {' or '.join(f'{each:g}' for each in counts)} iterations"
    has_batches = text.endswith("query") and found.called.str.contains("batch=").any()
    return f"{text} (of a batch: the mean)" if has_batches else text


def cases_in_all(found: pd.DataFrame) -> int:
    """Return the number of cases of an experiment, with those that no contestant has a result of."""
    return int(found.in_all.iloc[0]) if "in_all" in found and len(found) else int(found.case.nunique())


def case_words(found: pd.DataFrame) -> list[str]:
    """Return the words for what cases differ in: graphs, problems on one graph, or both; of OpenCL, runs.

    A run is of a graph, for a purpose that its configuration names.

    Examples
    --------
    >>> import pandas as pd
    >>> found = pd.DataFrame({"graph": ["a", "a", "b"], "problem": ["tol=0.1", "tol=0.2", "tol=0.1"], "case": [*"123"]})
    >>> case_words(found), case_words(found[:2]), case_words(found[1:])
    (['graph', 'tolerance'], ['tolerance'], ['graph'])
    """
    one = case_in_words(found)
    if has_purposes(found):
        kinds = {*found.kind}
        return _OF_PURPOSES.get(kinds.pop(), ["run"]) if len(kinds) == 1 else ["run"]
    if not any(found.problem) or found.case.nunique() == found.graph.nunique():
        return [one]
    problem = problem_in_words(found.problem)
    return [one, problem] if len(set(found.graph)) > 1 else [problem]


def has_purposes(found: pd.DataFrame) -> bool:
    """Return whether observations are of runs for several purposes, which differ as problems on a graph do."""
    return "purpose" in found and any(found.purpose)


def cases_in_words(found: pd.DataFrame) -> str:
    """Return the words for several cases of observations: linear systems, or what they differ in.

    Examples
    --------
    >>> import pandas as pd
    >>> found = pd.DataFrame({"graph": ["a", "a", "b"], "problem": ["tol=0.1", "tol=0.2", "tol=0.1"], "case": [*"123"]})
    >>> cases_in_words(found), cases_in_words(found[:2])
    ('pairs of graph and tolerance', 'tolerances')
    """
    if of_systems(found):
        return "systems"
    one, *problem = case_words(found)
    return f"pairs of {one} and {problem[0]}" if problem else plural(one)


def problem_in_words(problems: Iterable[str]) -> str:
    """Return the word for what differs between problems on one graph.

    Examples
    --------
    >>> problem_in_words(["tol=0.1", "tol=0.01"]), problem_in_words(["rhs=1"]), problem_in_words(["tol=0.1 rhs=1"])
    ('tolerance', 'right-hand side', 'problem')
    """
    found = {tuple(word.partition("=")[0] for word in each.split()) for each in problems}
    return _PROBLEMS.get(" ".join(*found), "problem") if len(found) == 1 else "problem"


def counted_graphs(found: pd.DataFrame) -> str:
    """Return how many graphs there are, or matrices, and how many problems on each, in words."""
    if has_purposes(found):
        return f"{found.case.nunique()} {cases_in_words(found)}"
    graphs, problems = found.graph.nunique(), found.problem.nunique() if any(found.problem) else 0
    one = case_in_words(found)
    many = plural(one)
    counted = f"{graphs} {one if graphs == 1 else many}"
    if graphs * problems != found.case.nunique():
        return counted
    if graphs == 1 < problems:  # The caption states the only graph.
        return f"{problems} {plural(problem_in_words(found.problem))}"
    if problems == 1:
        return f"{counted}, {found.problem.iloc[0]}"
    return f"{counted} and {problems} {plural(problem_in_words(found.problem))}"


def mean_of_each(found: pd.DataFrame) -> str:
    """Return a text about graphs that have different numbers of problems: each has one ratio in a mean over graphs.

    Examples
    --------
    >>> import pandas as pd
    >>> found = pd.DataFrame({"graph": ["a", "a", "b"], "problem": ["tol=0.1", "tol=0.2", "tol=0.1"], "case": [*"123"]})
    >>> mean_of_each(found), mean_of_each(found[:2])
    (', of each the mean over its tolerances (3 pairs of graph and tolerance)', '')
    """
    cases, graphs = found.case.nunique(), found.graph.nunique()
    if has_purposes(found) or cases in (graphs, graphs * found.problem.nunique()):
        return ""
    return f", of each the mean over its {plural(problem_in_words(found.problem))} ({cases} {cases_in_words(found)})"


def all_of(names: Iterable[str]) -> str:
    """Return names with commas between them; nothing if there are many or long ones.

    Examples
    --------
    >>> all_of("abc"), all_of("abcdefghijk")
    ('a, b, c', '')
    """
    held = list(names)
    text = captions.some(held)
    return text if text == ", ".join(held) else ""


def all_or_count(names: Iterable[str]) -> str:
    """Return names of contestants with commas between them; if there are many or long ones, their number.

    Examples
    --------
    >>> all_or_count("abc"), all_or_count("abcdefghijk")
    ('a, b, c', '11 contestants')
    """
    held = list(names)
    return all_of(held) or counted(len(held), "contestant")
