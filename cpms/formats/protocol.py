"""The protocol of number formats: the facts that a format must state, and its codec.

A format is a value with a name, the bits of a stored number, a unit roundoff and a codec on NumPy arrays. That is
enough for encoding, the laws, the engine ``reference``, experiments and figures. A codec in a few lines for Numba or in
CUDA makes the same format run in the engines ``cpu`` and ``cuda``. The formats of `cpms.formats.formats` have compiled
codecs of their own, chosen by their fields; a class derived from one of them cannot alter it.

A number is stored for itself (``group`` 1), as an unsigned integer, its code; or ``group`` numbers are stored together,
as in the block formats of OCP (Rouhani et al., "Microscaling Data Formats for Deep Learning", 2023), in ``group_bytes``
bytes. A format may be read in ``levels`` levels; it is always written whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from cpms.base import plugins
from cpms.base.errors import CpmsError, InputError, UnsupportedError
from cpms.base.real_arrays import read_only
from cpms.base.text.counted import counted
from cpms.base.types import Floats
from cpms.base.validation import as_whole, at_least, described, shortened, whole

Rounding: TypeAlias = Literal["zero", "nearest", "stochastic"]
Codec = tuple[Callable[..., Any], Callable[..., Any]]
"""The two functions of a compiled codec: load and store."""
_REQUIRED = ("bits", "unit_roundoff", "encode", "decode")
_METHODS = (*_REQUIRED, "numba_codec", "cuda_codec", "exponent_of", "segment_of", "nbytes", "checked_read")
_CODECS = ("numba_codec", "cuda_codec")
_CONTAINERS = (8, 16, 32, 64)
_KNOWN_FORMATS = 256


class Format:
    """A number format; derive from it to make one's own, with `bits`, `unit_roundoff`, `encode` and `decode`.

    Instances must have a ``name`` and are values: frozen, equal where they mean the same. What a class overrides is
    used by all engines that take the format, or the class is refused when it is defined.

    Examples
    --------
    Numbers from 0 on in steps of 1/16, in a byte:

    >>> import cpms, numpy as np
    >>> class Sixteenths(cpms.Format):
    ...     name = "sixteenths"
    ...     def bits(self, read=None):
    ...         return 8
    ...     def unit_roundoff(self, read=None):
    ...         return 2.0**-5
    ...     def encode(self, values):
    ...         return np.clip(np.rint(16 * np.nan_to_num(values)), 0, 255).astype(np.uint8)
    ...     def decode(self, codes, read=None):
    ...         return codes / 16.0
    >>> cpms.encode([0.3, 99.0], Sixteenths()).decode().tolist()
    [0.3125, 15.9375]
    """

    name: str
    _compiled: ClassVar[bool] = False

    def __init_subclass__(cls, *, compiled: bool = False, **options: Any) -> None:
        super().__init_subclass__(**options)
        if compiled:
            cls._compiled = True
        elif cls._compiled:
            _refuse_overrides(cls)
        else:
            _require_protocol(cls)

    @property
    def levels(self) -> int:
        """Number of levels in which it can be read, from the fewest bits to all."""
        return 1

    @property
    def segments(self) -> int:
        """Another name of ``levels``."""
        return self.levels

    @property
    def exact(self) -> bool:
        """Whether a full read returns the float64 that was written: not in general."""
        return False

    @property
    def group(self) -> int:
        """Numbers that are stored together."""
        return 1

    @property
    def min_normal(self) -> float:
        """Smallest positive number for which `unit_roundoff` holds; for groups, of their largest size."""
        return float(np.finfo(np.float64).tiny)

    @property
    def max_normal(self) -> float:
        """Largest number for which `unit_roundoff` holds."""
        return self.max_finite

    @property
    def max_finite(self) -> float:
        """Largest finite number."""
        return float(np.finfo(np.float64).max)

    @property
    def has_nan(self) -> bool:
        """Whether NaN is stored as NaN; where it is not, arrays with NaN are refused."""
        return True

    @property
    def has_infinity(self) -> bool:
        """Whether infinities are stored as such."""
        return True

    @property
    def has_negative_zero(self) -> bool:
        """Whether -0 is stored as such."""
        return True

    def bits(self, read: int | None = None) -> int:
        """Return the bits of a stored number that a read of the first ``read`` levels knows."""
        raise NotImplementedError

    def unit_roundoff(self, read: int | None = None) -> float:
        """Return the bound of the error of a number that is read: relative to it, or to the largest of its group."""
        raise NotImplementedError

    def encode(self, values: Floats) -> npt.NDArray[Any]:  # noqa: ARG002
        """Return float64 values, shape (n,), as codes, shape (n,), of `code_type`.

        Of groups, take values of shape (groups, group) and return bytes of shape (groups, group_bytes). Values can be
        infinite or NaN. Formats that come with the package are encoded by `cpms.encode` alone.
        """
        raise UnsupportedError(f"{self.name} has a compiled codec; use cpms.encode(values, {self.name!r})")

    def decode(self, codes: npt.NDArray[Any], read: int | None = None) -> Floats:  # noqa: ARG002
        """Return codes of `encode` as float64 values, from the first ``read`` levels (all by default)."""
        raise UnsupportedError(f"{self.name} has a compiled codec; use cpms.encode(values, {self.name!r}).decode()")

    def segment_of(self, codes: npt.NDArray[Any], k: int) -> npt.NDArray[Any]:
        """Return, as a view, the part of codes that level k, from 0 on, adds; all of them where there is one level."""
        if self.levels == 1:
            return codes
        raise UnsupportedError(f"{self.name} does not say where level {k} lies in its codes; give it a segment_of")

    def numba_codec(self) -> Codec | None:
        """Return the codec as two functions that Numba compiles, for the engine ``cpu``; None for none.

        They are ``load(code, read)``, which returns a float64 of a code, an int64, and ``store(value)``, which returns
        a code; of groups, ``load(group, place, read)``, where ``group`` is the bytes of one, and
        ``store(values, group)``, which writes the bytes. ``read`` is a number of levels, from 1 on.
        """
        return None

    def cuda_codec(self) -> str | None:
        """Return the codec in CUDA, for the engine ``cuda``; None for none. Not for groups.

        Two functions, in which ``u64`` is an unsigned integer of 64 bits, ``bits_of`` and ``value_of`` convert
        between it and float64: ``static CPMS_DEVICE double load(u64 code, int read)`` and
        ``static CPMS_DEVICE u64 store(double value)``.
        """
        return None

    def error(self, read: int | None = None, exponent: int = 0, largest: float = math.inf) -> tuple[float, float]:
        """Return a and b such that the error of a number v that is read is at most a |v| + b.

        ``exponent`` is that of the array, and ``largest`` the size of its largest number.
        """
        unit = self.unit_roundoff(read)
        least = self.min_normal * unit * 2.0**-exponent
        return (unit, least) if self.group == 1 else (0.0, max(unit * largest, least))

    def exponent_of(self, values: Floats) -> int:  # noqa: ARG002
        """Return the exponent e of an array, whose values are stored times 2**e; 0 by default."""
        return 0

    @property
    def code_type(self) -> np.dtype[Any]:
        """Type of codes: the smallest unsigned integers that hold them, or bytes for groups."""
        if self.group > 1:
            return np.dtype(np.uint8)
        container = next((width for width in _CONTAINERS if width >= self.bits()), None)
        if container is None:
            raise InputError(f"format {self.name!r} has {self.bits()} bits; a number of its own has 64 at most")
        return np.dtype(f"uint{container}")

    @property
    def group_bytes(self) -> int:
        """Bytes of a group."""
        return -(-self.group * self.bits() // 8) if self.group > 1 else self.code_type.itemsize

    def nbytes(self, length: int) -> int:
        """Bytes of an array of ``length`` values, in whole groups."""
        return -(-require_length(length) // self.group) * self.group_bytes

    def bytes_read(self, read: int | None = None) -> int:
        """Bytes of one value that a read of the first ``read`` levels touches; of groups, a share rounded up."""
        self.checked_read(read)
        return -(-self.group_bytes // self.group)

    def traffic(self, length: int, read: int | None = None) -> int:
        """Bytes of ``length`` values that a read of the first ``read`` levels touches, in whole groups."""
        each = self.bytes_read(read)
        return each * require_length(length) if self.group == 1 else self.nbytes(length)

    def mantissa_kept(self, read: int | None = None) -> int:
        """Return the mantissa bits that a cut with the same unit roundoff would keep."""
        unit = self.unit_roundoff(read)
        return max(0, -math.frexp(unit)[1] + 1) if unit > 0.0 else 52

    def checked_read(self, read: int | None) -> int:
        """Return ``read``, or all levels for None; refuse numbers that the format does not have."""
        return require_read(self.name, read, self.levels, "level")


def _refuse_overrides(cls: type[Format]) -> None:
    """Refuse a class that overrides something of a format whose compiled codec would ignore it."""
    base = next(each for each in cls.__mro__[1:] if "_compiled" in vars(each) and each is not cls)
    overridden = sorted(name for name in vars(cls) if not name.startswith("__") and hasattr(base, name))
    if overridden:
        raise InputError(
            f"class {cls.__name__} overrides {', '.join(overridden)} of {base.__name__}, whose compiled codec would "
            "ignore it; derive from cpms.Format, and give it bits, unit_roundoff, encode and decode"
        )


def _require_protocol(cls: type[Format]) -> None:
    """Refuse a class that lacks a part of the protocol, or whose compiled codec does other than encode and decode."""
    missing = [name for name in _REQUIRED if getattr(cls, name) is getattr(Format, name)]
    if missing:
        raise InputError(f"class {cls.__name__} is a cpms.Format without {', '.join(missing)}; define what is missing")
    for name in _METHODS:
        if not callable(getattr(cls, name)):
            raise InputError(f"class {cls.__name__} has {name}={described(getattr(cls, name))}; define it as a method")
    for codec in _CODECS:
        home = _home(cls, codec)
        changed = [name for name in ("encode", "decode", "bits") if home not in (Format, _home(cls, name))]
        later = [name for name in changed if issubclass(_home(cls, name), home)]
        if later:
            raise InputError(
                f"class {cls.__name__} overrides {', '.join(later)}, but engines would use {codec} of "
                f"{home.__name__}, which ignores it; override {codec}, too, and return None if there is none"
            )


def _home(cls: type[Format], name: str) -> type[Format]:
    """Return the class that defines an attribute."""
    return next(each for each in cls.__mro__ if name in vars(each))


def require_sound(format: Format) -> Format:
    """Return a format that is a value with sound facts, and refuse others; facts are checked once a format.

    Examples
    --------
    >>> from cpms.formats.posits import POSIT16
    >>> require_sound(POSIT16).name
    'posit16'
    """
    require_name(getattr(format, "name", None))
    if type(format).__hash__ is None:
        kind = type(format).__name__
        raise InputError(f"class {kind} has no hash; give it __hash__, or make it a dataclass with frozen=True")
    if not format._compiled:
        require_facts(format)
    return format


def require_name(name: object) -> None:
    """Refuse names that are no text."""
    if not isinstance(name, str):
        raise InputError(f"the name of a format is {described(name)}; give text")


def described_format(format: Format) -> str:
    """Return how errors name a format: by its name, and as the plug-in that it is.

    Examples
    --------
    >>> from cpms.formats.posits import POSIT16
    >>> described_format(POSIT16)
    'posit16'
    """
    plugin = plugins.called(format)
    return shortened(format.name) + ("" if plugin is None else f" (plug-in {shortened(plugin)})")


def ask(format: Format, name: str, *given: Any) -> Any:
    """Return a fact of a format of one's own, or what a function of it returns; its errors name the format.

    Arrays are given read-only. Infinities and NaN are values like others, so that NumPy does not warn of them.

    Examples
    --------
    >>> from cpms.formats.posits import POSIT16
    >>> ask(POSIT16, "bits"), ask(POSIT16, "group")
    (16, 1)
    """
    try:
        with np.errstate(all="ignore"):
            found = getattr(format, name)
            if name not in _METHODS:
                return found
            return found(*(read_only(each) if isinstance(each, np.ndarray) else each for each in given))
    except CpmsError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"{name} of {described_format(format)} fails ({plugins.sentence(error)})") from error


@lru_cache(_KNOWN_FORMATS)
def require_facts(format: Format) -> None:
    """Refuse a format of one's own whose facts are no numbers, or contradict each other, by a sentence that names them.

    Examples
    --------
    >>> from cpms.formats.posits import POSIT16
    >>> require_facts(POSIT16)
    """
    require_name(format.name)
    who = described_format(format)
    for fact in ("levels", "group"):
        _require(f"{fact} of {who} is", ask(format, fact), _is_count, "a whole number from 1 on")
    for read in range(1, format.levels + 1):
        _require(f"bits of {who} returns", ask(format, "bits", read), _is_count, "a whole number from 1 on")
        unit = ask(format, "unit_roundoff", read)
        _require(f"unit_roundoff of {who} returns", unit, _is_bound, "a number from 0 on")
    _require(f"group_bytes of {who} is", ask(format, "group_bytes"), _is_count, "a whole number from 1 on")
    for fact in ("min_normal", "max_normal", "max_finite"):
        _require(f"{fact} of {who} is", ask(format, fact), _is_size, "a number above 0")
    for fact in ("exact", "has_nan", "has_infinity", "has_negative_zero"):
        _require(f"{fact} of {who} is", ask(format, fact), _is_choice, "True or False")


def _require(what: str, given: Any, holds: Callable[[Any], bool], wanted: str) -> None:
    if not holds(given):
        raise InputError(f"{what} {described(given)}; it must be {wanted}")


def _is_count(value: Any) -> bool:
    count = as_whole(value)
    return count is not None and count >= 1


def _is_bound(value: Any) -> bool:
    return _is_number(value) and 0.0 <= value < math.inf


def _is_size(value: Any) -> bool:
    return _is_number(value) and value > 0.0


def _is_choice(value: Any) -> bool:
    return isinstance(value, bool | np.bool_)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating)


def require_read(name: str, read: object, most: int, part: str) -> int:
    """Return a number of segments or levels, all for None; refuse one that a format does not have."""
    if read is None:
        return most
    if type(read) is int and 1 <= read <= most:
        return read
    count = as_whole(read)
    count = whole(f"{part}s", read) if count is None else count
    if not 1 <= count <= most:
        raise InputError(
            f"{shortened(name)} has {counted(most, part)}; {described(count)} of them cannot be read or written"
        )
    return count


def require_length(length: object) -> int:
    """Return a number of values; refuse negative ones."""
    return at_least(0, "length", length)
