"""The old path of the catalogue of data sets."""

from __future__ import annotations

from cpms.base.moved import moved

__getattr__, __dir__ = moved(
    "cpms.datasets",
    {
        "DATASETS": "cpms.sources.dataset_records",
        "Dataset": "cpms.sources.dataset_records",
        "cache_folder": "cpms.sources.datasets",
        "catalogue": "cpms.sources.datasets",
        "fetch": "cpms.sources.datasets",
        "load_with": "cpms.sources.datasets",
        "locate": "cpms.sources.datasets",
    },
)
