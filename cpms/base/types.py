"""Types that all rooms share: float64 arrays, names of norms and of dangling rules."""

from __future__ import annotations

from typing import Literal, TypeAlias, TypeVar, get_args

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]

DanglingRule: TypeAlias = Literal["teleport", "uniform"]

DANGLING_RULES: tuple[str, ...] = get_args(DanglingRule)

Norm: TypeAlias = Literal["l1", "l2", "linf"]

Vector = TypeVar("Vector")
