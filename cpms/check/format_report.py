"""All laws of a format over many bit patterns, with the simplest value that breaks each, field by field."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from cpms.base.errors import InputError
from cpms.base.text.counted import counted
from cpms.base.text.suggestions import require_one_of
from cpms.base.types import Floats
from cpms.base.validation import at_least, described, is_iterable
from cpms.check.format_laws import FORMAT_LAWS, LawError
from cpms.formats.formats import FloatFormat, Format, SegmentFormat, format_of
from cpms.formats.oracle import bits_of, split, value_of
from cpms.storage.array import SegmentedArray, encode
from cpms.storage.codecs import compiled_loops
from cpms.storage.corner_patterns import corner_arrays, fitting

_CHUNK = 1 << 17
_ALL_CODES = 16
_SAMPLED = 8
"""One in so many patterns is encoded by a format's NumPy functions, too, beside its compiled codec."""
_FIELDS = ("sign", "exponent", "mantissa")


@dataclass(frozen=True)
class Counterexample:
    """A value that breaks a law, shrunk.

    Parameters
    ----------
    law : str
    text : str
        The sentence of the law's error.
    value, got, expected : dict or None
        Each a number with the fields of its float64: sign, exponent and mantissa; and of a format of segments these.
    wrong : list of str
        The fields in which what came differs from what should have: sign, exponent, mantissa, or ``segment k`` where
        the mantissa of a format in several levels is wrong from that segment on.
    stored : str or None
        The code of the value, in bits from the sign on; of groups its first bytes.
    """

    law: str
    text: str
    value: dict[str, str] | None
    got: dict[str, str] | None
    expected: dict[str, str] | None
    wrong: list[str]
    stored: str | None = None


@dataclass(frozen=True)
class FormatReport:
    """What `check_format` found.

    Examples
    --------
    >>> check_format("posit8", patterns=1000).holds
    True
    """

    format: str
    patterns: int
    seconds: float
    laws: list[str]
    failures: list[Counterexample] = field(default_factory=list)
    corners: int = 0

    @property
    def holds(self) -> bool:
        """Whether every law held."""
        return not self.failures

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as plain data, for JSON."""
        return {**asdict(self), "holds": self.holds}

    def lines(self) -> list[str]:
        """Return the report as text."""
        rate = (self.patterns + self.corners) / self.seconds / 1e6 if self.seconds else 0.0
        laws = counted(len(self.laws), "law")
        tried = f"{self.patterns:,} patterns, {self.corners:,} corner patterns, {laws}"
        found = [f"{self.format}: {tried}, {self.seconds:.2f} s, {rate:.2f} M/s"]
        for failure in self.failures:
            found += [f"{failure.law}: {failure.text}"]
            for what in ("value", "got", "expected"):
                shown = getattr(failure, what)
                if shown is not None:
                    fields = [shown[name] for name in (*_FIELDS, "segments") if name in shown]
                    found.append(f"  {what:9}{shown['number']:>25}  " + " ".join(fields))
            if failure.stored is not None:
                found.append(f"  stored   {failure.stored:>25}")
            found.append(f"  wrong: {', '.join(failure.wrong) or 'nothing that fields show'}")
        return found if self.failures else [*found, "all laws hold"]


def check_format(
    format: Format | str,
    *,
    patterns: int = 1_000_000,
    laws: Iterable[str] | None = None,
    seed: int = 0,
    progress: Callable[[int], object] = lambda _: None,
) -> FormatReport:
    """Try the laws of formats on bit patterns: corner patterns, random ones, ordinary numbers, all codes of 16 bits.

    Corner patterns are NaN with all payloads of one bit and of leading ones, infinities, zeros, subnormal numbers,
    powers of two, the values where the format's rounding changes, ties, and neighbours of these: near every code of 12
    bits, else near numbers of all sizes.

    Parameters
    ----------
    format : Format or str
    patterns : int
        Numbers of float64 that each law is tried on, beside the corner patterns.
    laws : iterable of str, optional
        Names of laws, all of `FORMAT_LAWS` by default.
    seed : int
    progress : callable
        Called with the number of patterns after each part of them.

    Raises
    ------
    InputError
        If there is no such format or law.

    Examples
    --------
    >>> import cpms
    >>> cpms.check.check_format("bf16", patterns=1000).holds
    True
    """
    storage, count = format_of(format), at_least(0, "patterns", patterns)
    chosen = _laws(laws)
    failures: dict[str, Counterexample] = {}
    rng = np.random.default_rng(at_least(0, "seed", seed))
    if not isinstance(storage, SegmentFormat | FloatFormat):
        compiled_loops(storage)  # Refuses facts that are none, and compiles before the clock starts.
    began, done, corners = time.perf_counter(), 0, 0

    def hold(values: Floats, sample: Floats) -> None:
        for name, law in chosen.items():
            if name not in failures:
                try:
                    law(storage, sample if name == "codecs_agree" else values)
                except LawError as error:
                    failures[name] = _counterexample(storage, name, law, error)

    for values in _patterns(storage, count, rng):
        hold(values, values[: len(values) // _SAMPLED])
        done += len(values)
        progress(done)
    for values in corner_arrays(storage):
        hold(values, values)
        corners += len(np.unique(values.view(np.uint64)))
    seconds = time.perf_counter() - began
    return FormatReport(storage.name, done, seconds, list(chosen), list(failures.values()), corners)


def _laws(names: Iterable[str] | None) -> dict[str, Callable[..., None]]:
    known = {law.__name__: law for law in FORMAT_LAWS}
    if isinstance(names, str) or not (names is None or is_iterable(names)):
        raise InputError(f"laws is {described(names)}; give a list of names, such as ['round_trip']")
    chosen = list(known if names is None else names)
    for name in chosen:
        require_one_of("law", name, known)
    return {name: known[name] for name in chosen}


def _patterns(storage: Format, count: int, rng: np.random.Generator) -> Iterable[Floats]:
    yield fitting(storage, np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 0.1, -0.1]))
    if storage.group == 1 and storage.levels == 1 and storage.bits() <= _ALL_CODES:
        codes = np.arange(2 ** storage.bits()).astype(storage.code_type)
        yield fitting(storage, SegmentedArray(codes.view(np.uint8), len(codes), storage).decode())
    for begin in range(0, count, _CHUNK):
        size = min(_CHUNK, count - begin)
        yield fitting(storage, rng.integers(0, 2**64, size // 2, dtype=np.uint64).view(np.float64))
        size -= size // 2
        yield fitting(storage, rng.standard_normal(size) * np.exp2(rng.integers(-20, 20, size)))


def _counterexample(storage: Format, name: str, law: Callable[..., None], error: LawError) -> Counterexample:
    found = _shrunk(storage, law, error)
    wrong: list[str] = []
    value, got, expected = found.value, found.got, found.expected
    if got is not None and expected is not None:
        its, right = _fields(got, storage), _fields(expected, storage)
        wrong = [each for each in _FIELDS if its[each] != right[each]]
        # A rounded mantissa is no fault beside a wrong sign or exponent.
        wrong = [each for each in wrong if each != "mantissa"] or wrong
    if storage.levels > 1 and found.segment is not None:
        wrong = [each for each in wrong if each != "mantissa"] + [f"segment {found.segment}"]
    shown = [None if number is None else _fields(number, storage) for number in (value, got, expected)]
    stored = None if value is None else _stored(storage, value)
    return Counterexample(name, str(found), shown[0], shown[1], shown[2], wrong, stored)


def _fields(number: float, storage: Format) -> dict[str, str]:
    bits = f"{bits_of(number):064b}"
    fields = {"number": repr(number), "sign": bits[0], "exponent": bits[1:12], "mantissa": bits[12:]}
    if isinstance(storage, SegmentFormat) and storage.levels > 1:
        parts = zip(split(bits_of(number), storage.widths), storage.widths, strict=True)
        fields["segments"] = "[" + " ".join(f"{part:0{width // 4}x}" for part, width in parts) + "]"
    return fields


def _stored(storage: Format, value: float) -> str:
    """Return the code of a value alone: in bits, or the first bytes of its group."""
    array = encode([value], storage)
    if storage.group == 1 and not isinstance(storage, SegmentFormat):
        return f"{int(array.units[0]):0{storage.bits()}b}"
    return array.memory[:8].tobytes().hex(" ") + (" ..." if len(array.memory) > 8 else "")


def _shrunk(storage: Format, law: Callable[..., None], error: LawError) -> LawError:
    """Return the error of the simplest value that breaks a law alone: few bits of mantissa, an exponent near 0."""
    if error.value is None:
        return error
    best, bits = _fails(storage, law, error.value), bits_of(error.value)
    if best is None:
        return error
    for place in range(52):
        simpler = bits & ~(1 << place)
        found = _fails(storage, law, value_of(simpler)) if simpler != bits else None
        if found is not None:
            best, bits = found, simpler
    exponent = bits >> 52 & 2047
    for nearer in sorted(
        {1023, 1024, 1022, *(1023 + (exponent - 1023) // k for k in (8, 4, 2))}, key=lambda e: abs(e - 1023)
    ):
        simpler = bits & ~(2047 << 52) | nearer << 52
        if 0 < exponent < 2047 and abs(nearer - 1023) < abs(exponent - 1023):
            found = _fails(storage, law, value_of(simpler))
            if found is not None:
                return found
    return best


def _fails(storage: Format, law: Callable[..., None], value: float) -> LawError | None:
    try:
        law(storage, np.array([value]))
    except LawError as error:
        return error
    return None
