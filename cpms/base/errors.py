"""Errors that cpms raises deliberately, each with the exit code of the command line and the page that explains it."""

from __future__ import annotations

import sys

PAGES = {
    "cpms.api": "docs/functions.md#functions",
    "cpms.api.given_matrix": "docs/functions.md#a-matrix-of-ones-own",
    "cpms.api.linear": "docs/solve.md",
    "cpms.api.matrix": "docs/functions.md#a-matrix-of-ones-own",
    "cpms.base.plugins": "docs/howto/plugins.md",
    "cpms.check": "docs/laws.md",
    "cpms.engines": "docs/concepts/layouts.md#engines",
    "cpms.experiment.artifact": "docs/papers.md#the-artifact-of-a-paper",
    "cpms.experiment.config": "docs/configs.md",
    "cpms.experiment.report": "docs/papers.md#figures-of-any-experiment",
    "cpms.experiment.report.compare": "docs/papers.md#compare-two-runs",
    "cpms.experiment.runner": "docs/configs.md",
    "cpms.formats": "docs/concepts/formats.md",
    "cpms.formats.protocol": "docs/own_format.md",
    "cpms.graph": "docs/graphs.md#objects-in-memory",
    "cpms.mpi": "docs/howto/cluster.md",
    "cpms.precision": "docs/api.md#precision",
    "cpms.problems": "docs/functions.md#functions",
    "cpms.solvers.linear": "docs/solve.md",
    "cpms.sources": "docs/graphs.md",
    "cpms.sources.generators": "docs/graphs.md#generators",
    "cpms.sources.in_memory": "docs/graphs.md#objects-in-memory",
    "cpms.sources.matrices": "docs/solve.md",
    "cpms.sources.readers": "docs/graphs.md#files",
    "cpms.sources.readers.edge_lists": "docs/graphs.md#the-form-of-an-edge-list",
    "cpms.storage": "docs/concepts/formats.md#arrays",
    "cpms.storage.codecs": "docs/own_format.md",
}
"""Pages on errors, with a heading, by the module that raises them or the package that it lies in."""


class CpmsError(Exception):
    """Base of all deliberate errors; the text is one sentence that says what to do.

    ``page`` is the page of the documentation about its subject, or None; tracebacks show it below the text.

    Examples
    --------
    >>> import cpms
    >>> try:
    ...     cpms.format_named("fp17")
    ... except cpms.CpmsError as error:
    ...     print(type(error).__name__, error.exit_code, error.page)
    InputError 2 docs/concepts/formats.md
    """

    exit_code = 1

    def __init__(self, *given: object) -> None:
        super().__init__(*given)
        self.page = page_of(sys._getframe(1).f_globals.get("__name__", ""))
        if self.page is not None:
            self.add_note(f"see {self.page}")


class InputError(CpmsError, ValueError):
    """A file, an argument or a configuration is invalid; the text names it and the remedy.

    It is a ``ValueError``; the command line exits with 2.

    Examples
    --------
    >>> import cpms
    >>> cpms.topk([0.2, 0.4], 3)
    Traceback (most recent call last):
    cpms.base.errors.InputError: the 3 largest of 2 values do not exist; k must be 0 to 2
    """

    exit_code = 2


class UnsupportedError(CpmsError, NotImplementedError):
    """An engine or a layout does not implement the requested combination, such as a method without a layout.

    It is a ``NotImplementedError``; the command line exits with 2.

    Examples
    --------
    >>> import cpms
    >>> try:
    ...     cpms.quantize([0.1], "cpms2", rounding="stochastic")
    ... except cpms.UnsupportedError as error:
    ...     print(error)
    cpms2 does not round 'stochastic'; use a float such as e5m10 or e4m3fn
    """

    exit_code = 2


class UnavailableError(CpmsError, RuntimeError):
    """An engine or optional library cannot run on this machine; the text names what to install.

    It is a ``RuntimeError``; the command line exits with 3.

    Examples
    --------
    >>> import cpms
    >>> try:  # On a machine without a GPU:
    ...     cpms.pagerank(([0, 1], [1, 0]), engine="cuda")
    ... except cpms.UnavailableError as error:
    ...     reason = str(error)
    """

    exit_code = 3


def page_of(module: str) -> str | None:
    """Return the page on errors of a module: that of the nearest package which has one.

    Examples
    --------
    >>> page_of("cpms.sources.readers.npz"), page_of("cpms.base.jit")
    ('docs/graphs.md#files', None)
    """
    while module and module not in PAGES:
        module = module.rpartition(".")[0]
    return PAGES.get(module)
