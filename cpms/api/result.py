"""The result of a solve: ranks, history, and a residual recomputed in float64 from the ranks.

The error bound follows from the residual alone (`cpms.certify.roundoff.error_bound`), whatever method or precision
computed the ranks.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cpms.api.iterated import Iterated
from cpms.base.text.html_table import html_table
from cpms.base.validation import described, finite, shortened, shown
from cpms.certify.roundoff import error_bound
from cpms.contracts.status import Status, Step
from cpms.graph.graph import Graph
from cpms.storage.device import to_host

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


class _Ranks:
    """Ranks in main memory, copied from device memory when they are first read."""

    def __get__(self, result: Any, owner: type) -> npt.NDArray[np.float64]:
        if result is None:
            raise AttributeError("ranks")  # The field has no default.
        ranks: npt.NDArray[np.float64] = to_host(result.__dict__["ranks"])
        result.__dict__["ranks"] = ranks
        return ranks

    def __set__(self, result: Any, ranks: Any) -> None:
        result.__dict__["ranks"] = ranks


_TOP_SHOWN = 5
"""Number of ranks in the HTML view of notebooks."""


@dataclass(frozen=True, eq=False, repr=False)
class Result(Iterated):
    """Ranks of a graph, with the history and the certificate of the solve.

    Attributes
    ----------
    ranks : ndarray of float64, shape (nodes,)
        Of sum 1, in main memory. Those of a `cpms.DeviceGraph` are copied there when they are first read.
    status : Status
    history : tuple of Step
        One an iteration; ``residual`` is in the norm of the stopping criteria.
    residual_l1 : float
        ||G(x) - x||_1 for the returned x and the exact operator G, recomputed in float64.
    residual_roundoff : float
        Bound of the rounding error of ``residual_l1``; see `cpms.certify.roundoff`.
    mass : float
        Sum of the ranks.
    graph, method, storage, layout, engine, damping, tol, norm
        What was asked for, with choices of ``auto`` replaced by what was taken.
    prepare_s, solve_s, certify_s : float
        Seconds for preparing the matrix, for the iterations with all conversions, and for the certificate (in a batch:
        divided by its queries). All exclude compile time.
    matrix_bytes : int
        Bytes of the prepared matrix.
    device_ranks : CuPy array of float64, shape (nodes,), or None
        The ranks in device memory, from engines that compute there.
    compile_s : float
        Seconds in which kernels were compiled, or read from a cache of compiled ones, during the whole call; the
        same for all results of a batch.

    Examples
    --------
    >>> import cpms
    >>> result = cpms.pagerank(cpms.Graph.from_edges([0, 1, 2], [1, 2, 0]))
    >>> result.converged, result.top(1)
    (True, [(0, 0.3333333333333333)])
    """

    graph: Graph
    ranks: npt.NDArray[np.float64]
    status: Status
    history: tuple[Step, ...]
    method: str
    storage: str
    layout: str
    engine: str
    damping: float
    tol: float
    norm: str
    residual_l1: float
    residual_roundoff: float
    mass: float
    prepare_s: float
    solve_s: float
    certify_s: float
    matrix_bytes: int
    device_ranks: Any | None = None
    compile_s: float = 0.0

    def __repr__(self) -> str:
        ended = f"{self.status.name} after {self.iterations} iterations, residual {self.residual_l1:.3g}"
        how = f"{self.method} in {shortened(self.storage)} on {self.engine}"
        return f"Result({described(self.graph.name)}: {ended}; {how})"

    def _repr_html_(self) -> str:
        """Return the HTML view of notebooks: a summary of the solve, and the highest ranks."""
        summary = [
            ("graph", shortened(self.graph.name)),
            ("status", self.status.value),
            ("method", f"{self.method} in {shortened(self.storage)} on {self.engine}"),
            ("iterations", self._counts()),
            ("residual", shown(finite(self.residual_l1))),
            ("error bound", shown(finite(self.error_bound))),
        ]
        highest = [(node, shown(finite(rank), 6)) for node, rank in self.top(_TOP_SHOWN)]
        return html_table(summary) + html_table(highest, "node", "rank")

    @property
    def converged(self) -> bool:
        """Whether the recomputed residual is below tol; False for a solve of a fixed number of iterations."""
        return self.status is Status.CONVERGED

    @property
    def iterations_by_bits_written(self) -> dict[int, int]:
        """Number of iterations by the bits that they wrote of a value, as in Table II of the CPMS paper."""
        return dict(sorted(Counter(step.bits_written for step in self.history).items()))

    @property
    def error_bound(self) -> float:
        """Bound of ||x - x*||_1, (residual_l1 + residual_roundoff) / (1 - damping).

        `cpms.certify.roundoff.error_bound` derives it.
        """
        return error_bound(self.residual_l1, self.residual_roundoff, self.damping)

    def top(self, k: int = 10) -> list[tuple[int | str, float]]:
        """Return the ``k`` highest ranks as (node id or name, rank); of equal ranks the earlier node comes first.

        If k exceeds the number of nodes, all nodes are returned.
        """
        from cpms.analysis.rankings import top_k

        return [(self.graph.node_id(int(i)), float(self.ranks[i])) for i in top_k(self.ranks, k)]

    def to_frame(self) -> pd.DataFrame:
        """Return the ranks as a table: node (id or name) and rank, in the order of the nodes.

        Examples
        --------
        >>> import cpms
        >>> cpms.pagerank(([0, 1, 2], [1, 2, 0])).to_frame().columns.tolist()
        ['node', 'rank']
        """
        import pandas as pd

        graph = self.graph
        nodes = graph.names if graph.names is not None else np.arange(graph.nodes) + graph.first_id
        return pd.DataFrame({"node": nodes, "rank": self.ranks})

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw residual against iteration, coloured by the bits read, into a panel of Matplotlib, and return it.

        Without ``axes`` the panel is that of a new figure, one column of a journal wide.

        Examples
        --------
        >>> import cpms, matplotlib
        >>> matplotlib.use("Agg")
        >>> cpms.pagerank(cpms.Graph.from_edges([0, 1, 2], [1, 2, 1])).plot().get_ylabel()
        'residual (l1)'
        """
        return self._plot(self.tol, f"residual ({self.norm})", axes)

    def trace(self) -> pd.DataFrame:
        """Return the history as a table: iteration, residual, bits, read, write, mass, seconds.

        Examples
        --------
        >>> import cpms
        >>> cpms.pagerank(([0, 1, 2], [1, 2, 0])).trace().bits.tolist()
        [64, 64]
        """
        import pandas as pd

        rows = [(s.iteration, s.residual, s.bits, s.level.read, s.level.write, s.mass, s.seconds) for s in self.history]
        return pd.DataFrame(rows, columns=["iteration", "residual", "bits", "read", "write", "mass", "seconds"])


Result.ranks = _Ranks()  # type: ignore[assignment]
