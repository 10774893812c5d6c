"""The old path of stored arrays: use the names of `cpms`."""

from __future__ import annotations

from cpms.base.moved import moved

__getattr__, __dir__ = moved(
    "cpms.segmented",
    {
        "SegmentedArray": "cpms.storage.array",
        "convert_inplace": "cpms.storage.array",
        "encode": "cpms.storage.array",
        "on_device": "cpms.storage.device",
    },
)
