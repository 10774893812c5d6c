"""Facts about the backend that NetworkX shows in the documentation of its functions.

NetworkX loads it whenever it is imported itself, so it stands apart from the backend and imports nothing.
"""

from __future__ import annotations

from typing import Any


def info() -> dict[str, Any]:
    """Return what NetworkX shows of the backend in the documentation of its functions."""
    return {
        "backend_name": "cpms",
        "project": "cpms",
        "package": "cpms",
        "short_summary": "PageRank certified in float64, in few bits on processors and GPUs.",
        "functions": {
            "pagerank": {
                "additional_docs": "The returned dictionary has an attribute ``result``: the certified result.",
                "additional_parameters": {
                    "method, storage, layout, engine, controller, on_step": "As of ``cpms.pagerank``.",
                },
            }
        },
    }
