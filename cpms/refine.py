"""The old path of refinement policies, with their old names and parameters, for one release.

New code takes the classes of `cpms`: `cpms.RefinementPolicy`, `cpms.AdaptiveReduction`, `cpms.FixedReduction`.
"""

from __future__ import annotations

from typing import Any

from cpms.formats.formats import Format
from cpms.precision import refinement_policy
from cpms.precision.refinement_policy import AdaptiveReduction, FixedReduction, InnerPlan, RefinementPolicy
from cpms.precision.refinement_policy import default_policy as default_policy

__all__ = ["AdaptiveGain", "FixedGain", "Plan", "Refining", "default_gain", "default_policy"]


def __dir__() -> list[str]:
    return sorted(__all__)


default_gain = refinement_policy.default_inner_reduction


class Plan(InnerPlan):
    """`cpms.precision.refinement_policy.InnerPlan` by its old name; ``gain`` is its ``inner_reduction``."""

    def __init__(self, storage: Format | None, gain: float) -> None:
        super().__init__(storage, gain)

    @property
    def gain(self) -> float:
        """Factor by which inner sweeps reduce the residual."""
        return self.inner_reduction


class Refining(RefinementPolicy):
    """`cpms.RefinementPolicy` by its old name; ``trust`` and ``adapts`` are its attributes' old names."""

    trust: float = RefinementPolicy.noise_tolerance
    adapts: bool = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.noise_tolerance, cls.adaptive = cls.trust, cls.adapts


class FixedGain(FixedReduction):
    """`cpms.FixedReduction` by its old name; ``gain`` is its ``inner_reduction``."""

    trust, adapts = FixedReduction.noise_tolerance, FixedReduction.adaptive

    def __init__(self, storage: Format, gain: float | None = None) -> None:
        super().__init__(storage, gain)

    @property
    def gain(self) -> float | None:
        """Factor by which inner sweeps reduce the residual."""
        return self.inner_reduction


class AdaptiveGain(AdaptiveReduction):
    """`cpms.AdaptiveReduction` by its old name; ``ladder`` are its ``formats``."""

    trust, adapts = AdaptiveReduction.noise_tolerance, AdaptiveReduction.adaptive

    def __init__(self, ladder: tuple[Format, ...]) -> None:
        super().__init__(ladder)

    @property
    def ladder(self) -> tuple[Format, ...]:
        """Formats in order."""
        return self.formats
