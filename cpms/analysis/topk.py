"""Top-k selection: the k largest values with their indices, by a reduction over sorted lists of candidates.

Each thread compares its range of values with the least candidate so far, so most values cost one comparison. The order
is total (ties by index, NaN last), so the result is bitwise the same for any number of threads and on GPUs.
"""

from __future__ import annotations

from functools import reduce

import numpy as np
import numpy.typing as npt

from cpms.analysis.topk_checks import Largest, checked
from cpms.base import threads
from cpms.base.real_arrays import real_array
from cpms.storage.device import launch_topk, on_device

Values = npt.NDArray[np.float64] | npt.NDArray[np.float32]
Places = npt.NDArray[np.int64]

_FEW_VALUES = 1 << 16
"""Number of values below which NumPy takes less time than loading the compiled loops."""
_VALUES_EACH = 128
"""Least number of values for each of the k; with fewer, most values would be candidates."""


def topk(values: npt.ArrayLike, k: int) -> Largest:
    """Return the ``k`` largest values with their indices, largest first, ties by smaller index.

    The indices are those of ``numpy.argsort(-values, kind="stable")[:k]`` for any number of threads or blocks, on
    processors and on GPUs. Zeros of both signs tie, and NaN is last, after -inf. Most values are compared once, with
    the least candidate so far. Sorted lists of candidates are merged without branches, an idea of
    https://github.com/ilgazer/PageRank_Thrust.

    Parameters
    ----------
    values : array_like of float64 or float32, shape (n,)
        A NumPy array (one that is not contiguous is copied), or an array in device memory (CuPy's, or any with
        ``__cuda_array_interface__`` or DLPack), which is not copied to the host.
    k : int
        From 0 to n. On a device, the whole array is sorted if k is more than 1024.

    Returns
    -------
    Largest
        ``values``, shape (k,), unchanged, and their indices ``places``, shape (k,), int64.

    Raises
    ------
    InputError
        If the values are of another type or shape, or k is negative or larger than n.
    UnsupportedError
        If device memory runs out.

    Examples
    --------
    >>> import cpms
    >>> values, places = cpms.topk([0.2, 0.4, 0.1, 0.4], 3)
    >>> values.tolist(), places.tolist()
    ([0.4, 0.4, 0.2], [1, 3, 0])
    """
    if on_device(values):
        return Largest(*launch_topk().topk(values, k))
    given: Values = np.require(real_array("values", values), requirements=["C_CONTIGUOUS", "ALIGNED"])
    k = checked(given, k)
    wide = k == 0 or len(given) < _FEW_VALUES or k * _VALUES_EACH > len(given)
    places = _by_partition(given, k) if wide else _by_reduction(given, k)
    return Largest(given[places], places)


def _by_partition(values: Values, k: int) -> Places:
    """Return the indices by NumPy's partition, and a stable sort of the k largest values."""
    if k == 0:
        return np.zeros(0, np.int64)
    negated = -values
    last = np.partition(negated, k - 1)[k - 1]
    before, level = (negated < last, negated == last) if last == last else (negated == negated, negated != negated)
    above = np.flatnonzero(before)
    chosen = np.concatenate([above, np.flatnonzero(level)[: k - len(above)]])
    return chosen[np.argsort(negated[chosen], kind="stable")]


def _by_reduction(values: Values, k: int) -> Places:
    """Return the indices by a merge of the sorted lists that threads make of their ranges."""
    from cpms.analysis import topk_loops as kernels

    parts = threads.ranges(len(values), at_least=_FEW_VALUES, parts=threads.available())
    lists = threads.each(lambda part: kernels.select(values, *part, k), parts)
    _, places = reduce(lambda a, b: kernels.merge(*a, *b), lists)
    found: Places = places
    return found
