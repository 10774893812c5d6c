"""Figure 2: where conversion in place takes the segments of float64 values, drawn from what it does to an array."""

import numpy as np

from cpms.experiment.report.palette import NEUTRAL, colour
from cpms.formats.formats import format_named
from cpms.storage.array import convert_inplace

NEEDS = ["conversion_cpu", "gpu_conversion"]
STORAGES = ("cpms2", "cpms4")
GAP = 1.0
"""Room for the values that are left out, in boxes."""
_PITCH = 4.4
"""Distance of the first boxes of two blocks of the lower line: three boxes, their gap, and that between blocks."""


def show(rows, out):
    del rows  # Conversion has no program of its own for pictures; its rates are those of program conversion.
    out.figure(
        _figure(out),
        caption="Conversion in place of float64 values to cpms2 and cpms4: upper line, the values as they were, of "
        "2 or 4 segments; lower line, the same memory after it, blocks of 128 bytes of one segment each. Numbers are "
        "those of values, colours the bits that are read with a segment and those before it; grey lines: where the "
        "segments of the first and the last value of a block go. Drawn from an array that was converted",
        alt="Two pictures of memory. Above, the segments of each value lie side by side; below, all first segments come"
        " first, then all second ones, and so on; lines join the two places of a segment.",
        of=[],
    )


def _figure(out):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(out.width, 1.6 if out.double else 2.9))
    panels = figure.subplots(*((1, 2) if out.double else (2, 1)), squeeze=False)
    for panel, storage in zip(panels.flat, STORAGES, strict=True):
        _picture(panel, format_named(storage))
    return figure


def _picture(panel, storage):
    segments, block = storage.segments, storage.block
    shown = [0, 1, block - 1]
    after = _places(storage)
    for value in shown:
        for segment in range(segments):
            x, y = _upper(value, segment, shown, storage), _lower(after[value, segment], shown, block)
            _box(panel, x, 0.0, value, storage.bits(segment + 1))
            _box(panel, y, 3.0, value, storage.bits(segment + 1))
            if value != shown[1]:
                panel.plot([x + 0.5, y + 0.5], [1.0, 3.0], color=NEUTRAL, linewidth=0.6, zorder=0)
    texts = {"ha": "center", "va": "center", "fontsize": 7}
    panel.text(2 * segments + _upper_gap(segments) / 2, 0.5, "…", **texts)
    for segment in range(segments):
        begin = segment * _PITCH
        panel.text(begin + 2 + GAP / 2, 3.5, "…", **texts)
        panel.text(begin + 2, 4.7, f"{storage.bits(segment + 1)} bits", **texts)
    for end in (0, 4):
        panel.plot([end, end], [5.4, 6.0], color=NEUTRAL, linewidth=0.6)
    panel.plot([0, 4], [5.7, 5.7], color=NEUTRAL, linewidth=0.6)
    panel.text(2, 6.4, f"{block * 8 // segments} bytes", **texts)
    for name, y in (("before", 0.5), ("after", 3.5)):
        panel.text(-0.02 * segments * _PITCH, y, name, ha="right", va="center", fontsize=7)
    panel.set_title(f"{storage.name}: {block} values of 64 bits", fontsize=8, pad=3)
    width = segments * _PITCH
    panel.set_xlim(-0.14 * width, width)
    panel.set_ylim(6.9, -0.2)
    panel.set_xticks([])
    panel.set_yticks([])
    for spine in panel.spines.values():
        spine.set_visible(False)


def _places(storage):
    """Return for each value and segment its place after conversion, in segments, by converting an array."""
    segments, block = storage.segments, storage.block
    kind = np.dtype(f"u{8 // segments}")
    numbers = np.arange(block * segments, dtype=kind)
    converted = convert_inplace(numbers.view(np.float64).copy(), storage).memory.view(kind)[: block * segments]
    places = np.empty(block * segments, int)
    places[converted] = np.arange(block * segments)
    before = np.arange(block * segments).reshape(block, segments)[:, ::-1]  # The leading segment is the last in memory.
    return places[before]


def _upper(value, segment, shown, storage):
    """Return the left end of a segment of a value as it was."""
    segments = storage.segments
    return shown.index(value) * segments + segment + (_upper_gap(segments) if value == shown[-1] else 0.0)


def _upper_gap(segments):
    """Return the room for the values that are left out of the upper line, which is as long as the lower one."""
    return segments * _PITCH - 0.4 - 3 * segments


def _lower(place, shown, block):
    """Return the left end of a segment after conversion, from its place in memory."""
    segment, value = divmod(int(place), block)
    return segment * _PITCH + shown.index(value) + (GAP if value == shown[-1] else 0.0)


def _box(panel, x, y, value, bits):
    corners = [x, x + 1, x + 1, x], [y, y, y + 1, y + 1]
    panel.fill(*corners, facecolor=colour(bits) + "66", edgecolor=NEUTRAL, linewidth=0.5)
    panel.text(x + 0.5, y + 0.5, str(value), ha="center", va="center", fontsize=7)
