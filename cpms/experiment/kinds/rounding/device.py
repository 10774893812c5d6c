"""Rounding of arrays in device memory: `cpms.quantize` and casts of CuPy beside a copy, by CUDA events."""

from __future__ import annotations

from typing import Any

import numpy as np

from cpms import engines
from cpms.experiment.timers import Timer, in_turn
from cpms.formats.formats import Format
from cpms.storage.quantize import quantize

_COMPARED = 1 << 20
"""Values whose rounding is compared with that in main memory."""
_CASTS = {"fp16": np.float16, "fp32": np.float32}


def measured_on_device(storage: Format, size: int, samples: int) -> dict[str, Any]:
    """Return the times of a copy and of each contestant, and the values that differ from those of cpms."""
    engines.get("cuda")
    import cupy

    values = cupy.random.default_rng(1).standard_normal(size)
    target = cupy.empty_like(values)
    contestants: dict[str, Any] = {
        "copy": lambda: cupy.copyto(target, values),
        "cpms": lambda: quantize(values, storage),
    }
    if storage.name in _CASTS:
        contestants["cast"] = lambda: values.astype(_CASTS[storage.name]).astype(np.float64)
    answers = {name: work() for name, work in contestants.items() if name != "copy"}
    few = values[:_COMPARED]
    of_main_memory = quantize(cupy.asnumpy(few), storage)
    differing = int((of_main_memory != cupy.asnumpy(quantize(few, storage))).sum())
    found = {name: int((answer != answers["cpms"]).sum()) for name, answer in answers.items()}
    del answers
    timers = {name: Timer(work) for name, work in contestants.items()}
    in_turn(list(timers.values()), samples)
    return {
        "bytes": int(values.nbytes),
        "copy": timers["copy"].columns(),
        "results": [{"contestant": name, **timers[name].columns(), "differing": found[name]} for name in found],
        "differing_from_main_memory": differing,
    }
