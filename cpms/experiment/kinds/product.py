"""Products with matrices that have values: time, bytes and error by storage, layout, index width, engine and level."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from cpms.api import product_engines
from cpms.api.matrix import StoredMatrix, matrix
from cpms.backends.cuda.product.cusparse_sell import CusparseSell
from cpms.backends.cuda.runtime.current import current
from cpms.backends.products.split import SplitProduct
from cpms.base.errors import UnavailableError, UnsupportedError
from cpms.contracts.product_request import Compute
from cpms.experiment.config import Cell, Repeated, Strict
from cpms.experiment.config_types import MatrixStorage, loadable, one_of, or_plugin
from cpms.experiment.graph_cache import OnGraphs
from cpms.experiment.timers import Timer, WallTimer, copy_bandwidth, host_copy_bandwidth, in_turn
from cpms.sources import matrices
from cpms.sparse.arrangement import INDICES, LAYOUTS, layout_of
from cpms.sparse.matrix import Matrix
from cpms.sparse.transition import transition
from cpms.storage.device import to_device, to_host


class Contestant(Strict):
    """One way to store a matrix and multiply; ``vectors`` is the type of x and y.

    Two baselines are not engines of cpms: ``scipy`` (SciPy's own product, in ``csr``), and ``cusparse`` with layout
    ``sell`` and vectors in ``fp16`` (`cpms.backends.cuda.product.cusparse_sell`).
    """

    engine: Annotated[str, one_of("engine of products", lambda: (*product_engines.names(), "scipy"))]
    storage: MatrixStorage = "fp64"
    layout: Annotated[str, or_plugin("layout", lambda: LAYOUTS, layout_of)] = "csr"
    indices: Annotated[str, one_of("indices", lambda: (*INDICES, "compressed"))] = "auto"
    compute: Compute = "fp64"
    vectors: Literal["fp64", "fp32", "fp16"] = "fp64"

    @model_validator(mode="after")
    def _baselines(self) -> Contestant:
        """Refuse what a baseline cannot be asked for."""
        of_sell = (self.engine, self.layout, self.storage, self.compute) == ("cusparse", "sell", "fp16", "fp32")
        if (self.vectors == "fp16") != of_sell:
            raise ValueError('vectors = "fp16" are for engine = "cusparse", layout = "sell", storage = "fp16" in fp32')
        plain = (self.layout, self.storage, self.compute, self.vectors) == ("csr", "fp64", "fp64", "fp64")
        if self.engine == "scipy" and not plain:
            raise ValueError('engine "scipy" has csr in fp64 alone')
        return self


class Config(Repeated):
    """Matrices by specification (`cpms.sources.matrices`), or graphs, whose transition matrices they are.

    In cells and rows the key of the matrix is ``graph``, as in all kinds. Figures compare with the first contestant.
    """

    matrices: list[str] = Field(min_length=1)
    contestants: list[Contestant] = Field(min_length=1)
    samples: int = Field(default=15, ge=1)

    @field_validator("matrices")
    @classmethod
    def known(cls, names: list[str]) -> list[str]:
        """Refuse names that are neither of a generator or data set nor of a file."""
        return [matrices.checked(name) if matrices.is_name(name) else loadable(name) for name in names]

    def cells(self) -> list[Cell]:
        """Return one cell a matrix: its contestants take turns within it."""
        contestants = [contestant.model_dump() for contestant in self.contestants]
        return self.repeated([{"graph": name} for name in self.matrices], contestants=contestants, samples=self.samples)


class Context(OnGraphs):
    """The matrix of consecutive cells, and the graph from which it was made."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._name, self._matrix = "", Matrix.from_dense([[1.0]])

    def measure(self, cell: Cell) -> dict[str, Any]:
        """Time every contestant at every level in turn, and compare products with those of float64 on a processor."""
        if cell["graph"] != self._name:
            # Contestants share arrangements and formats, which take longer to find than products to measure.
            if self._matrix.shared is not None:
                self._matrix.shared.clear()
            self._name, self._matrix = cell["graph"], replace(self._made(cell["graph"]), shared={})
        x = np.random.default_rng(1).standard_normal(self._matrix.columns)
        exact = self._matrix.to_scipy() @ x
        found: list[dict[str, Any]] = []
        works: list[_Work | _Scipy | _Sell] = []
        refused: dict[str, str] = {}
        for asked in cell["contestants"]:
            given = {name: value for name, value in asked.items() if name != "vectors"}
            try:
                if asked["engine"] == "scipy" or asked["vectors"] == "fp16":
                    baseline = _Scipy(self._matrix, x) if asked["engine"] == "scipy" else _Sell(self._matrix, x)
                    works.append(baseline)
                    found.append(baseline.line(asked))
                    continue
                stored = matrix(self._matrix, **given)
            except (UnsupportedError, UnavailableError) as error:
                refused[" ".join(asked.values())] = str(error)
                continue
            for read in range(1, 1 + (stored.storage.segments if stored.storage else 1)):
                works.append(_Work.of(stored, x, asked["vectors"], read))
                found.append(_line(stored, asked, read))
        _compile(works)
        timers: list[Any] = [work.timer() for work in works]
        for line, work in zip(found, works, strict=True):
            line["error"] = float(np.abs(to_host(work.found()) - exact).max() / np.abs(exact).max())
        in_turn(timers, cell["samples"])
        lines = [{**line, **timer.columns()} for line, timer in zip(found, timers, strict=True)]
        sizes = {"rows": self._matrix.rows, "columns": self._matrix.columns, "entries": self._matrix.entries}
        on_device = any(isinstance(timer, Timer) for timer in timers)
        copy = {"copy_gbps": copy_bandwidth()} if on_device else {}
        if any(isinstance(timer, WallTimer) for timer in timers):
            copy["host_copy_gbps"] = host_copy_bandwidth()
        return {**sizes, "contestants": lines, "refused": refused, **copy}

    def _made(self, name: str) -> Matrix:
        if matrices.is_name(name):
            return Matrix.from_scipy(matrices.generate(name))
        return transition(self.graph.load(name))


@dataclass(frozen=True)
class _Work:
    """A product without transfers or allocations."""

    operator: Any
    x: Any
    y: Any
    read: int

    @classmethod
    def of(cls, stored: StoredMatrix, x: Any, vectors: str, read: int) -> _Work:
        dtype = np.dtype(np.float64 if vectors == "fp64" else np.float32)
        operator, given = stored.operator, x.astype(dtype)
        held = given if operator.memory == "main" else to_device(given)
        return cls(operator, held, operator.empty((stored.shape[0],), dtype), read)

    def timer(self) -> WallTimer | Timer:
        def multiply() -> None:
            self.operator.apply(self.x, self.y, read_matrix=self.read)

        return WallTimer(multiply) if self.operator.memory == "main" else Timer(multiply, same=True)

    def found(self) -> Any:
        return self.y


class _Scipy:
    """SciPy's product, which allocates its result each time."""

    def __init__(self, given: Matrix, x: Any) -> None:
        self._held, self._x = given.to_scipy(), x
        self._y = x[:0]

    def timer(self) -> WallTimer:
        return WallTimer(self._multiply)

    def _multiply(self) -> None:
        self._y = self._held @ self._x

    def found(self) -> Any:
        return self._y

    def line(self, asked: dict[str, Any]) -> dict[str, Any]:
        held = self._held.data.nbytes + self._held.indices.nbytes + self._held.indptr.nbytes
        moved = held + 8 * sum(self._held.shape)
        return {**asked, "read": 1, "stored_as": "fp64", "bits": 64, "least_bytes": moved}


class _Sell:
    """cuSPARSE's product in SELL and FP16."""

    def __init__(self, given: Matrix, x: Any) -> None:
        self._held = CusparseSell(given)
        self._x = to_device(x.astype(np.float16))
        self._y = to_device(np.zeros(given.rows, np.float16))
        self._held.prepare(self._x, self._y)

    def timer(self) -> Timer:
        return Timer(self._held.multiply, same=True)

    def found(self) -> Any:
        return self._held.in_place(self._y)

    def line(self, asked: dict[str, Any]) -> dict[str, Any]:
        moved = self._held.nbytes + 2 * (len(self._x) + len(self._y))
        return {**asked, "read": 1, "stored_as": "fp16", "bits": 16, "least_bytes": moved}


def _compile(works: list[Any]) -> None:
    """Compile the kernels of all products in one program, which takes little longer than those of one."""
    own = [work for work in works if isinstance(work, _Work) and hasattr(work.operator, "variant")]
    if own:
        current().compile([work.operator.variant(work.x, work.y, work.read) for work in own])


def _line(stored: StoredMatrix, asked: dict[str, Any], read: int) -> dict[str, Any]:
    value_bytes = 8 if asked["vectors"] == "fp64" else 4
    algorithm = getattr(stored.operator, "algorithm", None)
    return {
        **asked,
        **({} if algorithm is None else {"algorithm": algorithm}),
        "read": read,
        "stored_as": "pattern" if stored.storage is None else stored.storage.name,
        "bits": _bits(stored, read),
        "least_bytes": stored.bytes_read(read) + value_bytes * sum(stored.shape),
    }


def _bits(stored: StoredMatrix, read: int | None) -> float:
    """Return the bits of a value that are read; of a matrix in several formats, their mean over all entries."""
    if stored.storage is None:
        return 0
    if isinstance(stored.operator, SplitProduct):
        return round(stored.operator.mean_bits, 2)
    return stored.operator.request.storage.bits(read) if stored.operator.request.storage else 0
