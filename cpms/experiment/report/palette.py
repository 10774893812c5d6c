"""The marks of all figures: a colour means a number of bits, and a marker an engine or a layout."""

from __future__ import annotations

from cpms.analysis.palette import PALETTE as PALETTE
from cpms.analysis.palette import colour as colour
from cpms.analysis.palette import nearest as nearest

MARKERS = {
    "cuda": "o",
    "cuda_fused": "^",
    "mpi_cuda": "D",
    "cusparse": "X",
    "cusparse_omega": "P",
    "cpu": "o",
    "scipy": "X",
    "serial": "s",
    "mpi": "D",
    "opencl": "v",
    "reference": "P",
    "pattern": "o",
    "csr": "s",
    "ell": "D",
    "sell": "p",
    "coo": "^",
    "coo_exchange": "v",
}
"""Markers by engine or by layout; a figure uses one of both meanings."""
CUT = "cut"
"""Name of the arrows where an axis ends before an interval does; they do not mark values."""
NEUTRAL = "#666666"
"""Colour of marks that belong to no number of bits."""
