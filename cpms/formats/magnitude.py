"""A split of a matrix by magnitude: each entry in the fewest bits that its size needs for a normwise tolerance.

The adaptive precision of Graillat, Jézéquel, Mary and Molina (Adaptive precision sparse matrix-vector product and its
application to Krylov solvers, SIAM J. Sci. Comput. 46, 2024). An entry of size a may be stored with a unit roundoff of
tau / a if the error of an entry is to be tau at most; so small ones need few bits, and those below tau none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from cpms.base.errors import InputError
from cpms.base.text.suggestions import require_one_of
from cpms.base.validation import described, real
from cpms.formats.formats import FP32, FP64, FloatFormat, Format, format_named, format_of
from cpms.formats.protocol import require_read

SplitNorm = Literal["rows", "matrix"]
DEFAULT_FORMATS: tuple[Format, ...] = (format_named("e4m3-scaled"), format_named("fp16-scaled"), FP32, FP64)


@dataclass(frozen=True)
class MagnitudeSplit:
    r"""Storage of a matrix A in several formats: each entry is stored in the fewest bits that its size needs.

    An entry a is stored in the narrowest format of unit roundoff u with u \|a\| <= tau, and left out if \|a\| <= tau.

    Parameters
    ----------
    tolerance : float
        eps, from 2**-53 to below 1: the stored matrix B has \|\|A - B\|\| <= eps \|\|A\|\| in the maximum norm.
    formats : tuple of Format
        Packed floats, and fp64 where they may not suffice.
    by : {"rows", "matrix"}
        ``rows``: tau of a row of n entries is eps / n times the sum of their sizes, so that the bound holds for each
        row. ``matrix``: tau is eps / n times the largest such sum, n being the entries of the longest row; this stores
        fewer bits.

    Raises
    ------
    InputError
        If the tolerance is out of range, or a format is neither a packed float nor fp64.

    Notes
    -----
    Source: Graillat, Jézéquel, Mary and Molina, "Adaptive precision sparse matrix-vector product and its application to
    Krylov solvers", SIAM J. Sci. Comput. 46, 2024.

    Examples
    --------
    >>> import cpms
    >>> cpms.MagnitudeSplit(1e-6).name
    'split-1e-06'
    """

    tolerance: float
    formats: tuple[Format, ...] = DEFAULT_FORMATS
    by: SplitNorm = "rows"

    def __post_init__(self) -> None:
        object.__setattr__(self, "tolerance", real("tolerance", self.tolerance))
        if not 2.0**-53 <= self.tolerance < 1.0:
            raise InputError(f"tolerance is {self.tolerance}; it must be from 2**-53 to below 1")
        require_one_of("by", self.by, get_args(SplitNorm))
        if not isinstance(self.formats, tuple | list) or not self.formats:
            raise InputError(f"formats is {described(self.formats)}; give a tuple of formats")
        formats = tuple(format_of(each) for each in self.formats)
        wrong = next((each for each in formats if not isinstance(each, FloatFormat) and each != FP64), None)
        if wrong is not None:
            raise InputError(f"a split has packed floats and fp64, not {wrong.name}; give such as fp16-scaled")
        object.__setattr__(self, "formats", tuple(sorted(formats, key=lambda each: each.bits(None))))

    @property
    def name(self) -> str:
        """Name with the tolerance."""
        return f"split-{self.tolerance:g}"

    @property
    def segments(self) -> int:
        """Every entry is read whole: one segment."""
        return 1

    def checked_read(self, read: int | None) -> int:
        """Return 1, the only level there is."""
        return require_read(self.name, read, 1, "segment")


def split_named(name: str) -> MagnitudeSplit | None:
    """Return the split of a name such as ``split-1e-6``; None for other names.

    Examples
    --------
    >>> split_named("split-1e-6").tolerance, split_named("fp64")
    (1e-06, None)
    """
    if not name.startswith("split-"):
        return None
    try:
        tolerance = float(name.removeprefix("split-"))
    except ValueError:
        raise InputError(f"storage {name!r} is no split; write the tolerance behind it, such as split-1e-6") from None
    return MagnitudeSplit(tolerance)
