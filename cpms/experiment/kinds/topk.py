"""Times of top-k selection against sorting, partitioning and PyTorch, and of a copy of the values.

A copy is a lower bound, since selection reads every value once. Answers are compared with a stable sort.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module, metadata
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from cpms import engines
from cpms.analysis.topk import topk
from cpms.base.errors import InputError
from cpms.experiment.config import Cell, Repeated, Stateless
from cpms.experiment.timers import Timer, WallTimer, copying, in_turn

Found = tuple[Any, Any]
_TAIL = -0.9
"""Exponent of the power law of the generated ranks."""


class Config(Repeated):
    """The fields of such an experiment."""

    sizes: list[Annotated[int, Field(ge=1)]] = Field(min_length=1)
    ks: list[Annotated[int, Field(ge=1)]] = Field(min_length=1)
    patterns: list[Literal["random", "ranks", "ascending", "equal"]] = ["random", "ranks", "ascending", "equal"]
    dtypes: list[Literal["float64", "float32"]] = ["float64"]
    samples: int = Field(default=9, ge=1)
    device: Literal["cpu", "cuda"] = "cpu"

    def cells(self) -> list[Cell]:
        """Return one cell for each type, size and pattern; its contestants alternate, for every k."""
        arrays = [{"values": size, "dtype": dtype} for dtype in self.dtypes for size in self.sizes]
        fixed = self.model_dump(include={"ks", "samples", "device"})
        return self.in_rounds(arrays, [{"pattern": pattern} for pattern in self.patterns], **fixed)


class Context(Stateless):
    """No state between cells."""

    def measure(self, cell: Cell) -> dict[str, Any]:
        """Time a copy and every contestant in turn; compare all answers with a stable sort."""
        if max(cell["ks"]) > cell["values"]:
            raise InputError(f"the {max(cell['ks'])} largest of {cell['values']} values do not exist; give smaller ks")
        on_device = cell["device"] == "cuda"
        if on_device:
            engines.get("cuda")
        arrays: Any = import_module("cupy") if on_device else np
        values = pattern(arrays, cell["pattern"], cell["values"]).astype(cell["dtype"])
        contestants = _contestants(arrays, values, cell["ks"], on_device=on_device)
        timers = [
            Timer(work, same=name.startswith("launch")) if on_device else WallTimer(work)
            for name, _, work in [("copy", 0, copying(values)), *contestants]
        ]
        in_turn(timers, cell["samples"])
        best = arrays.argsort(-values, kind="stable")[: max(cell["ks"])]
        return {
            "bytes": int(values.nbytes),
            "copy": timers[0].columns(),
            "results": [
                {"contestant": name, "k": k, **timer.columns(), **_agreement(work(), values, best)}
                for (name, k, work), timer in zip(contestants, timers[1:], strict=True)
            ],
            **_torch_version(),
        }


def pattern(arrays: Any, name: str, length: int) -> Any:
    """Return float64 values of a pattern, of a module such as NumPy or CuPy.

    ``random`` is uniform; ``ranks`` follows a power law, as PageRank does, with many ties at its lower end;
    ``ascending`` and ``equal`` are the worst cases of thresholds that adapt to the values read so far.

    Examples
    --------
    >>> pattern(np, "ascending", 3).tolist()
    [0.0, 1.0, 2.0]
    """
    if name == "ascending":
        return arrays.arange(length, dtype=np.float64)
    if name == "equal":
        return arrays.full(length, 0.25)
    values = arrays.random.default_rng(1).random(length)
    return values if name == "random" else arrays.maximum((1.0 - values) ** _TAIL, 1.5)


Contestants = list[tuple[str, int, Callable[[], Found]]]


def _contestants(arrays: Any, values: Any, ks: list[int], *, on_device: bool) -> Contestants:
    return [
        *[("cpms", k, partial(topk, values, k)) for k in ks],
        *(_on_device(values, ks) if on_device else []),
        *[("argpartition", k, partial(_partitioned, arrays, values, k)) for k in ks],
        ("argsort", max(ks), partial(_sorted, arrays, values, max(ks))),
    ]


def _on_device(values: Any, ks: list[int]) -> Contestants:
    """Return those of a GPU alone; ``launch`` is the kernel alone, ``launch in order`` reads in ascending order."""
    from cpms.backends.cuda.arrays import launch_topk

    def launched(k: int, in_order: bool) -> Callable[[], Found]:
        workspace = launch_topk.Workspace.make(values, k)

        def work() -> Found:
            launch_topk.launch(values, k, workspace, in_order=in_order)
            return workspace.values, workspace.found

        return work

    by_kernel = [k for k in ks if k <= launch_topk.MAX_SELECTED]
    return [
        *[("launch", k, launched(k, False)) for k in by_kernel],
        *[("launch in order", k, launched(k, True)) for k in by_kernel],
        *_by_torch(values, ks),
    ]


def _by_torch(values: Any, ks: list[int]) -> Contestants:
    """Return the selection of PyTorch if it is installed with CUDA."""
    try:
        torch = import_module("torch")
    except ImportError:
        return []
    if not torch.cuda.is_available():
        return []
    tensor = torch.from_dlpack(values)
    return [("torch", k, lambda k=k: tuple(torch.topk(tensor, k))) for k in ks]  # type: ignore[misc]


def _partitioned(arrays: Any, values: Any, k: int) -> Found:
    chosen = arrays.argpartition(values, len(values) - k)[len(values) - k :]
    indices = chosen[arrays.argsort(-values[chosen], kind="stable")]
    return values[indices], indices


def _sorted(arrays: Any, values: Any, k: int) -> Found:
    indices = arrays.argsort(-values, kind="stable")[:k]
    return values[indices], indices


def _agreement(found: Found, values: Any, best: Any) -> dict[str, bool]:
    """Return whether values and indices are those of a stable sort."""
    largest, indices = (_host(part) for part in found)
    expected = best[: len(indices)]
    return {
        "same_values": bool((largest == _host(values[expected])).all()),
        "same_places": bool((indices == _host(expected)).all()),
    }


def _host(array: Any) -> Any:
    """Return a NumPy, CuPy or PyTorch array as a NumPy array."""
    if hasattr(array, "cpu"):
        return array.cpu().numpy()
    return array.get() if hasattr(array, "get") else array


def _torch_version() -> dict[str, str]:
    try:
        return {"version_torch": metadata.version("torch")}
    except metadata.PackageNotFoundError:
        return {}
