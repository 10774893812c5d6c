"""Products with matrices that several backends share: in a layout, and split by magnitude; and their engines."""

from __future__ import annotations

from importlib import import_module
from typing import Any

HOMES = {
    "reference": ("reference.product", "ReferenceProduct"),
    "cpu": ("cpu.product", "CpuProduct"),
    "cuda": ("cuda.product.operator", "CudaProduct"),
    "cusparse": ("cuda.product.cusparse", "CusparseProduct"),
}
"""Each engine of products, the module below `cpms.backends` that defines its operator, and the operator's name."""


def operator_of(engine: str) -> Any:
    """Return the class of an engine's linear operators."""
    module, name = HOMES[engine]
    return getattr(import_module(f"cpms.backends.{module}"), name)
