"""The old path of number formats: use the names of `cpms`."""

from __future__ import annotations

from cpms.base.moved import moved

__getattr__, __dir__ = moved(
    "cpms.format",
    {
        "BF16": "cpms.formats.formats",
        "CPMS2": "cpms.formats.formats",
        "CPMS2_PLANES": "cpms.formats.formats",
        "CPMS4": "cpms.formats.formats",
        "CPMS4_PLANES": "cpms.formats.formats",
        "CPMS8": "cpms.formats.formats",
        "CPMS8_PLANES": "cpms.formats.formats",
        "E4M3": "cpms.formats.formats",
        "E5M2": "cpms.formats.formats",
        "FP16": "cpms.formats.formats",
        "FP32": "cpms.formats.formats",
        "FP64": "cpms.formats.formats",
        "FloatFormat": "cpms.formats.formats",
        "Format": "cpms.formats.formats",
        "NAMED": "cpms.formats.formats",
        "SegmentFormat": "cpms.formats.formats",
        "format_named": "cpms.formats.formats",
        "format_of": "cpms.formats.formats",
        "segment_format": "cpms.formats.formats",
    },
)
