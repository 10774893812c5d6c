"""Which engines can use a format with a codec of its own, by the kinds of codec that the format defines.

Such formats are called "formats of the protocol", after `cpms.formats.protocol.Format`. They may define their codec for
NumPy, Numba and CUDA; an engine needs one of these.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from cpms.formats.formats import FloatFormat, Format, SegmentFormat
from cpms.formats.segments import DEVICE_WIDTHS

TakesCodecs: TypeAlias = Literal["none", "numpy", "numba", "cuda"]
"""The kind of codec that an engine needs of a format of the protocol; "none" if it takes no such format."""


def has_own_codec(storage: Any) -> bool:
    """Return whether a format has a codec of its own; segments and packed floats have codecs in every engine.

    Examples
    --------
    >>> import cpms
    >>> has_own_codec(cpms.FP16), has_own_codec(cpms.format_named("posit16"))
    (False, True)
    """
    return isinstance(storage, Format) and not isinstance(storage, SegmentFormat | FloatFormat)


def codec_refusal(name: str, takes: TakesCodecs, storage: Any) -> str | None:
    """Return why an engine does not take a format, as a sentence; None if it does.

    A format of the protocol needs a codec. Kernels of devices load segments of 8, 16, 32 and 64 bits alone.

    Examples
    --------
    >>> import cpms
    >>> codec_refusal("scipy", "none", cpms.format_named("posit16"))
    'engine scipy has no code for posit16, a format with a codec of its own; use reference, cpu or cuda'
    >>> codec_refusal("cuda", "cuda", cpms.format_named("seg24-40"))
    'engine cuda has no segments of 24 bits, which seg24-40 has; use cpms8, read by bytes, or engine cpu'
    """
    odd = sorted(set(storage.widths) - set(DEVICE_WIDTHS)) if isinstance(storage, SegmentFormat) else []
    if takes == "cuda" and odd:
        what = f"engine {name} has no segments of {odd[0]} bits, which {storage.name} has"
        return f"{what}; use cpms8, read by bytes, or engine cpu"
    if not isinstance(storage, Format) or not has_own_codec(storage):
        return None
    if takes == "none":
        what = f"{storage.name}, a format with a codec of its own"
        return f"engine {name} has no code for {what}; use reference, cpu or cuda"
    if takes == "numba" and storage.numba_codec() is None:
        return (
            f"engine {name} needs the codec of {storage.name} in Numba; give it a numba_codec, or use engine reference"
        )
    if takes == "cuda" and storage.group > 1:
        return f"engine {name} has no groups of numbers as {storage.name} has; use cpu"
    if takes == "cuda" and storage.cuda_codec() is None:
        return f"engine {name} needs the codec of {storage.name} in CUDA; give it a cuda_codec, or use cpu"
    return None
