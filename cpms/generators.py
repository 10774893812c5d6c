"""The old path of graph generators: use `cpms.generate`."""

from __future__ import annotations

from cpms.base.moved import moved

__getattr__, __dir__ = moved(
    "cpms.generators",
    {
        "generate": "cpms.sources.generators",
        "names": "cpms.sources.generators",
    },
)
