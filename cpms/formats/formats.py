"""Number formats by name: float64 in segments, packed floats, and formats of the protocol.

Segments are those of customized precision by mantissa segmentation (CPMS, Grützmacher et al.); packed floats follow
IEEE 754 in all but their widths. Widths, ranges, unit roundoffs and bytes are derived from a few fields. A format is
a value: it is compared, hashed and recorded as such, and creating one costs nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from typing import Any, TypeAlias, cast

import numpy as np

from cpms.base import plugins
from cpms.base.errors import InputError
from cpms.base.text.suggestions import nearest, unknown
from cpms.base.validation import described
from cpms.formats.block_float import BLOCK_FLOATS
from cpms.formats.packed_floats import FloatFormat as FloatFormat
from cpms.formats.protocol import Format as Format
from cpms.formats.protocol import Rounding as Rounding
from cpms.formats.protocol import require_sound
from cpms.formats.segments import DOUBLE_BITS as DOUBLE_BITS
from cpms.formats.segments import DOUBLE_HEAD_BITS as DOUBLE_HEAD_BITS
from cpms.formats.segments import SegmentFormat as SegmentFormat

BLOCK_BYTES = 128
"""Bytes of one segment's block in the CPMS paper: a cache line of its GPUs."""
CompiledFormat: TypeAlias = SegmentFormat | FloatFormat
"""Formats whose codecs come with every engine."""


def segment_format(name: str, *widths: int, planes: bool = False) -> SegmentFormat:
    """Make a `SegmentFormat` in blocks of 128 bytes of its unit, which is its narrowest segment or less, or in planes.

    Examples
    --------
    >>> segment_format("cpms2", 32, 32).block
    32
    """
    return SegmentFormat(name, widths, None if planes else BLOCK_BYTES * 8 // math.gcd(*widths))


FP64 = SegmentFormat("fp64", (64,), None)
CPMS2 = segment_format("cpms2", 32, 32)
CPMS4 = segment_format("cpms4", 16, 16, 16, 16)
CPMS8 = segment_format("cpms8", *[8] * 8)
CPMS2_PLANES = segment_format("cpms2-planes", 32, 32, planes=True)
CPMS4_PLANES = segment_format("cpms4-planes", 16, 16, 16, 16, planes=True)
CPMS8_PLANES = segment_format("cpms8-planes", *[8] * 8, planes=True)
FP32 = FloatFormat("fp32", 8, 23)
FP16 = FloatFormat("fp16", 5, 10)
BF16 = FloatFormat("bf16", 8, 7)
E4M3 = FloatFormat("e4m3", 4, 3)
E5M2 = FloatFormat("e5m2", 5, 2)

NAMED: tuple[CompiledFormat, ...] = (
    *(FP64, CPMS2, CPMS4, CPMS8, CPMS2_PLANES, CPMS4_PLANES, CPMS8_PLANES),
    *(FP32, FP16, BF16, E4M3, E5M2),
)


_HOMES = {
    "minifloats": "e4m3fn e4m3fnuz e5m2fnuz e4m3b11fnuz e2m3fn e3m2fn e2m1fn tf32",
    "microscaling": "mxfp8-e5m2 mxfp8-e4m3 mxfp6-e3m2 mxfp6-e2m3 mxfp4 mxint8",
    "posits": "posit8 posit16 posit32",
    "fixed_point": "int8 int16 int32",
    "shared_exponents": "gse",
}
"""Modules of formats of the protocol, and the formats' names; an attribute has its name in capitals."""
_DTYPES = {
    "float64": "fp64",
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float8_e5m2": "e5m2",
    "float8_e4m3": "e4m3",
    "float8_e3m4": "e3m4",
    "float8_e4m3fn": "e4m3fn",
    "float8_e4m3fnuz": "e4m3fnuz",
    "float8_e5m2fnuz": "e5m2fnuz",
    "float8_e4m3b11fnuz": "e4m3b11fnuz",
    "float6_e2m3fn": "e2m3fn",
    "float6_e3m2fn": "e3m2fn",
    "float4_e2m1fn": "e2m1fn",
    "int8": "int8",
    "int16": "int16",
    "int32": "int32",
}
"""Names of data types of NumPy and ml_dtypes, and the formats of the same bits."""
_OTHER_NAMES = ("half", "single", "double", *(order + code for order in ("", "<", "=") for code in ("f2", "f4", "f8")))
"""NumPy's other names of these types; a byte order is accepted, since it says nothing of a format."""


def names() -> list[str]:
    """Return the names of all formats: those of this module, of the protocol, and of plug-ins.

    Examples
    --------
    >>> [name for name in names() if name.startswith("mxfp8")]
    ['mxfp8-e5m2', 'mxfp8-e4m3']
    """
    return [known.name for known in NAMED] + " ".join(_HOMES.values()).split() + plugins.offered("formats")


def _defined(name: str) -> Format | None:
    """Return a format of the protocol or a plug-in by its name; None if there is none."""
    home = next((module for module, defined in _HOMES.items() if name in defined.split()), None)
    if home is None:
        plugin: Format | None = plugins.load("formats", name, Format)
        return plugin
    found: Format = getattr(import_module(f"cpms.formats.{home}"), name.upper().replace("-", "_"))
    return found


def dtype_name(given: object) -> str | None:
    """Return the name of the format that is a data type of NumPy or ml_dtypes, given by itself or by its name.

    Examples
    --------
    >>> import numpy as np
    >>> dtype_name(np.float32), dtype_name("float8_e4m3fn"), dtype_name("half"), dtype_name("cpms4")
    ('fp32', 'e4m3fn', 'fp16', None)
    """
    if isinstance(given, str) and given not in _OTHER_NAMES:
        return _DTYPES.get(given)
    if not isinstance(given, np.dtype | type | str):
        return None
    try:
        name = np.dtype(given).name
    except TypeError:
        return None
    if name not in _DTYPES:
        raise InputError(f"storage is the data type {name}; it can be one of {', '.join(_DTYPES)}")
    return _DTYPES[name]


def element_type(storage: Format) -> np.dtype[Any] | None:
    """Return the NumPy type that equals a format bit for bit; None if there is none.

    Libraries such as SciPy and cuSPARSE compute in such types alone.

    Examples
    --------
    >>> [element_type(storage) for storage in (FP64, FP32, CPMS2, format_named("fp32-zero"))]
    [dtype('float64'), dtype('float32'), None, None]
    """
    if isinstance(storage, FloatFormat):
        is_single = (storage.exponent_bits, storage.mantissa_bits) == (8, 23) and not storage.scaled
        return np.dtype(np.float32) if is_single and storage.rounding == "nearest" else None
    return np.dtype(np.float64) if isinstance(storage, SegmentFormat) and storage.segments == 1 else None


def format_of(given: Format | str | np.dtype[Any] | type) -> Format:
    """Return a format that is given by itself, by its name or as a data type; see `format_named`.

    Examples
    --------
    >>> format_of("cpms4") is format_of(CPMS4)
    False
    >>> format_of("cpms4") == format_of(CPMS4)
    True
    """
    if isinstance(given, Format):
        return require_sound(given)
    if isinstance(given, type) and issubclass(given, Format):
        raise InputError(f"storage is the class {given.__name__}; give an instance of it, such as {given.__name__}()")
    return format_named(given)


def format_named(name: str | np.dtype[Any] | type) -> Format:
    """Return the format that the command line and configurations call ``name``.

    A name is one that ``cpms formats`` lists, ``seg16-16-32`` (128-byte blocks of 16 bits) or ``e6m9``. Any of
    ``-planes``, ``-nearest``, ``-zero``, ``-stochastic`` and ``-scaled`` may follow it.

    ``module:attribute`` and ``file.py:attribute`` name formats of one's own, and run their code. Names of data types of
    NumPy and ml_dtypes are those of the formats with the same bits.

    Raises
    ------
    InputError
        If the name is none of these.

    Examples
    --------
    >>> import cpms
    >>> cpms.format_named("cpms4-nearest").rounding, cpms.format_named("seg16-16-32").block
    ('nearest', 64)
    >>> cpms.format_named("e5m10-scaled").scaled
    True
    """
    name = dtype_name(name) or name
    if not isinstance(name, str):
        raise InputError(f"storage is {described(name)}; give a format such as cpms.CPMS4, or the name of one")
    if (defined := _defined(name)) is not None:
        return require_sound(defined)
    by_name = {known.name: known for known in NAMED}
    stem, suffixes = name, []
    while stem not in by_name and (match := re.fullmatch(r"(.+)-(planes|nearest|zero|stochastic|scaled)", stem)):
        stem = match[1]
        suffixes.append(match[2])
    base = by_name.get(stem) or _spelled(stem)
    if base is None and name in (block_floats := [each.name for each in BLOCK_FLOATS]):
        raise InputError(
            f"{', '.join(block_floats)} are block floats, which cpms.matrix and cpms.solve alone store; "
            "for arrays and iterates use a format that 'cpms formats' lists, such as fp16-scaled or mxfp8-e4m3"
        )
    if base is None:
        forms = (
            ", another that 'cpms formats' lists, a form such as seg16-16-32 or e6m9, and end in -planes, -nearest, "
            "-zero, -stochastic or -scaled"
        )
        raise InputError(unknown("storage", name, list(by_name), forms, near=_near(name, stem, names())))
    for suffix in reversed(suffixes):
        base = _with_suffix(base, suffix)
    return replace(base, name=name)


def _near(name: str, stem: str, known: Iterable[str]) -> str | None:
    """Return the name in small letters if that is a format, or the nearest stem with the endings given."""
    with suppress(InputError):
        if name != name.lower():
            return format_named(name.lower()).name
    near = nearest(stem, known)
    return near and near + name[len(stem) :]


def _spelled(stem: str) -> CompiledFormat | None:
    if match := re.fullmatch(r"seg(\d{1,2}(?:-\d{1,2})*)", stem, re.ASCII):
        widths = tuple(int(width) for width in match[1].split("-"))
        return segment_format(stem, *widths) if min(widths) else None
    if match := re.fullmatch(r"e(\d{1,2})m(\d{1,2})", stem, re.ASCII):
        return FloatFormat(stem, int(match[1]), int(match[2]))
    return None


def _with_suffix(base: CompiledFormat, suffix: str) -> CompiledFormat:
    if isinstance(base, SegmentFormat):
        if suffix == "planes":
            return replace(base, block=None)
        if suffix in ("nearest", "zero"):
            return replace(base, rounding=cast(Rounding, suffix))
        raise InputError(f"{base.name} is made of segments; -{suffix} is for packed floats such as fp16")
    if suffix == "planes":
        raise InputError(f"{base.name} is a packed float; -planes is for segments such as cpms4")
    if suffix == "scaled":
        return replace(base, scaled=True)
    return replace(base, rounding=cast(Rounding, suffix))
