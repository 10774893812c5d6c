"""Share of the roofline: the bytes that a result moves a second, over the rate of a copy on the same device.

Work that is bound by memory cannot move bytes faster than a copy does, unless a cache holds some of them (Williams,
Waterman and Patterson, Roofline, Communications of the ACM 52 (2009)). Results without bytes, or without the rate of a
copy on their device, have no share; the caption counts them. The cost is that of the panel.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from cpms.experiment.report import captions, panels
from cpms.experiment.report.generic import bandwidth
from cpms.experiment.report.generic.bars import groups
from cpms.experiment.report.generic.parts import Made, baseline_of, explain_bits, range_of
from cpms.experiment.report.generic.words import bits_in_words
from cpms.experiment.report.palette import NEUTRAL, colour
from cpms.experiment.report.stand_ins import STARRED

_COPY: dict[str, Any] = {"color": NEUTRAL, "linewidth": 0.7, "linestyle": "--"}
"""The line at the rate of a copy."""
_OF_SOLVES = "; a sweep moves the matrix once, and reads and writes a vector in its bits"
_OF_REFINE = "; sweeps of refine count the whole graph, of which trimming may leave less"


def share_of_roofline(found: pd.DataFrame, width: float, baseline: str | None) -> Made:
    """Draw the bytes a second of each contestant as a share of the rate of a copy, with its range."""
    without = bandwidth.left_out(found)
    found = found[(found.seconds > 0) & (found.moved > 0) & (found.copy_gbps > 0)]
    if found.empty:
        return None
    ends = {"share": "seconds", "least_share": "most", "most_share": "least"}
    found = found.assign(**{share: 1e-7 * found.moved / found[time] / found.copy_gbps for share, time in ends.items()})
    figure, axes, places, found, some = groups(found, width, baseline_of(found, baseline))
    axes.barh(places, found.share, color=[colour(bits) for bits in found.fewest_bits], height=0.7)
    spread = np.array([found.share - found.least_share, found.most_share - found.share]).clip(min=0)
    if spread.any():
        axes.errorbar(found.share, places, xerr=spread, fmt="none", ecolor="#222222", elinewidth=0.7)
    panels.state_small(axes, found.share.tolist(), places)
    axes.axvline(100.0, **_COPY)
    axes.set_xlim(0, max(105.0, 1.05 * found.most_share.max()))
    names = [each.get_text() for each in axes.get_yticklabels()]
    panels.label_below(axes, "bytes a second, % of a copy", width, names)
    explain_bits(figure, found, marked=False, others=panels.key(lines={"copy": _COPY}))
    rates = sorted(set(found.copy_gbps.round()))
    copied = f"{rates[0]:.0f}" if len(rates) == 1 else f"{rates[0]:.0f} to {rates[-1]:.0f}"
    text = (
        f"{captions.in_words(found.traffic_name)} over the median time, as a share of the rate of a copy "
        f"({copied} GB/s, read and written), which bounds work on data beyond the caches; colour: bits "
        f"{bits_in_words(found)}"
    )
    texts = [text, "; lines: from least to most of the samples" if (found.least < found.most).any() else "", some]
    solves = found[found.kind.isin(bandwidth.SOLVES)]
    texts += [_OF_SOLVES if len(solves) else "", _OF_REFINE if (solves.method == "refine").any() else "", without]
    texts += [f"; {STARRED}" if any(map(captions.stands_in, found.graph)) else ""]
    return figure, "".join(texts), range_of(found, "share", "Bars of the share of a copy", "%")
