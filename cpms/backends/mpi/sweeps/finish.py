"""The epilogue of a rank's product: adds teleport and dangling mass, and sums norms in fixed blocks.

Fixed blocks keep the order of sums independent of threads and ranks.
"""

from __future__ import annotations

import numpy as np

from cpms.base.jit import compiled
from cpms.sparse.sliced import BLOCK_ROWS

COLUMNS = 5
"""The number of a block's sums: L1, squares and maximum of the change, mass, mass on dangling nodes."""


@compiled(error_model="numpy")
def finish(x, out, divisor, leaving, rest, teleport, dangling, sink, sums, low, high):  # type: ignore[no-untyped-def]
    """Add teleport and dangling mass to rows ``low`` to ``high`` of a product ``out``; ``low`` begins a block."""
    for begin in range(low, high, BLOCK_ROWS):
        l1 = squares = linf = mass = held = 0.0
        for row in range(begin, min(begin + BLOCK_ROWS, high)):
            factor = np.float64(divisor[row]) if len(divisor) else 1.0
            added = dangling * sink[row * (len(sink) > 1)] + rest * teleport[row * (len(teleport) > 1)]
            new = out[row] + added / factor
            out[row] = new
            change = abs(new - x[row]) * factor
            new *= factor
            l1 += change
            squares += change * change
            linf = max(linf, change)
            mass += new
            if leaving[row] == 0:
                held += new
        block = begin // BLOCK_ROWS
        sums[block, 0] = l1
        sums[block, 1] = squares
        sums[block, 2] = linf
        sums[block, 3] = mass
        sums[block, 4] = held
