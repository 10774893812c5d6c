"""Engine ``coo_streams`` with one stream and an atomic for every edge: the report's version before optimisation."""

from __future__ import annotations

from typing import ClassVar

from cpms.backends.cuda.spmv.coo import AtomicProduct
from cpms.backends.cuda.spmv.coo_operator import System
from cpms.contracts.engine import Engine
from cpms.engines.coo import CooStreamsEngine
from cpms.formats.formats import Format


class CooBasicEngine(CooStreamsEngine):
    """COO with atomics, in float64 or float32, in which rows are also summed."""

    name: ClassVar[str] = "coo_basic"
    repeatable: ClassVar[bool] = False
    """Atomics add in any order."""
    system: ClassVar[System] = System(AtomicProduct, "coo_dangling", "coo_distance", two_streams=False)

    def sum_roundoff(self, storage: Format) -> float:
        """Return that of float32 where atomics add in it."""
        return 0.0 if storage.exact else 2.0**-24


ENGINE: Engine = CooBasicEngine()
