"""Policies of method ``refine``: which format low sweeps read, and how far they shrink the residual."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

from cpms.base.errors import InputError
from cpms.base.validation import described, real
from cpms.formats.formats import FP16, FP32, FP64, FloatFormat, Format, format_of
from cpms.formats.quantization import quantiser

NO_PROGRESS = 0.5
"""Share of the residual that a round of low sweeps leaves which has made no progress."""
_NOISE = 3.0
"""How many times what low sweeps promised a residual may be before that counts as noise."""
_FEWEST_FULL = 8
"""Full sweeps after low ones that failed in the last format, where those before had not."""
_LEAST_GAIN = 8e-6


@dataclass(frozen=True)
class InnerPlan:
    """How the low sweeps of a round go: format Q, and the factor by which they shrink the residual.

    Without ``storage`` there are none: rounds are full sweeps. A format of segments stands for its first one, and a
    name for its format.
    """

    storage: FloatFormat | None
    inner_reduction: float

    def __post_init__(self) -> None:
        if self.storage is not None:
            object.__setattr__(self, "storage", quantiser(format_of(self.storage)))
        object.__setattr__(self, "inner_reduction", _gain(self.inner_reduction))


class RefinementPolicy(ABC):
    """Policy that plans rounds from residuals; state is returned, not kept."""

    noise_tolerance: float = _NOISE
    """The plan stays as long as a full sweep finds at most so many times what low sweeps promised."""
    adaptive: bool = False
    """Whether rounds may go below the gain that is planned where rounding loses nothing; see `Refinement.error_feedback`."""

    @abstractmethod
    def init(self) -> tuple[InnerPlan, Any]:
        """Return the first plan and a state."""

    @abstractmethod
    def update(self, state: Any, promised: float, found: float) -> tuple[InnerPlan, Any]:
        """Return the next plan, after low sweeps promised one ||r||_1 and the full sweep found another.

        Both are shares of what the round before had found; ``promised`` is 1 where no low sweeps ran. It is 0 where
        rounding held them; and where a round was cut short that had not halved the residual, which is said at once:
        ``found`` is what low sweeps found last.
        """


@dataclass(frozen=True)
class FixedReduction(RefinementPolicy):
    """One format and one gain throughout; the gain is `default_inner_reduction` unless given.

    Examples
    --------
    >>> FixedReduction(FP16, 1e-2).init()[0].inner_reduction
    0.01
    """

    storage: FloatFormat
    inner_reduction: float | None = None
    noise_tolerance = math.inf

    def __post_init__(self) -> None:
        object.__setattr__(self, "storage", quantiser(format_of(self.storage)))
        if self.inner_reduction is not None:
            object.__setattr__(self, "inner_reduction", _gain(self.inner_reduction))

    def init(self) -> tuple[InnerPlan, Any]:
        """Return the one plan there is."""
        plan = InnerPlan(
            self.storage,
            default_inner_reduction(self.storage) if self.inner_reduction is None else self.inner_reduction,
        )
        return plan, plan

    def update(self, state: Any, promised: float, found: float) -> tuple[InnerPlan, Any]:  # noqa: ARG002
        """Return the same plan again."""
        return _known(state, InnerPlan, self), state


class PolicyState(NamedTuple):
    """Where an adaptive policy stands: how often the last format failed on end, and how many full sweeps are left."""

    step: int
    plan: InnerPlan
    failed: int = 0
    full: int = 0


@dataclass(frozen=True)
class AdaptiveReduction(RefinementPolicy):
    """Begin with the first format at its default gain; ask for less, or for more bits, where noise shows.

    A residual above what the low sweeps promised is rounding noise: the next rounds ask only for what
    was reached. Where a round does not even halve the residual, the next format has its turn. After
    the last one come some full sweeps, twice as many each time that it fails again.

    Examples
    --------
    >>> from cpms.formats.formats import E5M2
    >>> policy = AdaptiveReduction((E5M2, FP16))
    >>> plan, state = policy.init()
    >>> policy.update(state, promised=0.2, found=0.9)[0].storage.name
    'fp16'
    """

    formats: tuple[FloatFormat, ...]
    adaptive = True

    def __post_init__(self) -> None:
        if not isinstance(self.formats, tuple | list) or not self.formats:
            raise InputError(
                f"ladder is {described(self.formats)}; give one format or more, such as (cpms.FP16, cpms.FP32)"
            )
        object.__setattr__(self, "formats", tuple(quantiser(format_of(storage)) for storage in self.formats))

    def init(self) -> tuple[InnerPlan, Any]:
        """Return the first format's plan."""
        return _of(self._begun(0))

    def update(self, state: Any, promised: float, found: float) -> tuple[InnerPlan, Any]:
        """Return the plan for the next round."""
        place: PolicyState = _known(state, PolicyState, self)
        promised, found = real("promised", promised), real("found", found)
        plan = place.plan
        if plan.storage is None:
            left = place.full - 1
            return _of(place._replace(full=left) if left else self._begun(place.step)._replace(failed=place.failed))
        if found <= _NOISE * promised:
            return _of(place._replace(failed=0) if found <= NO_PROGRESS else place)
        if found <= NO_PROGRESS:
            return _of(place._replace(plan=InnerPlan(plan.storage, max(plan.inner_reduction, found))))
        if place.step + 1 < len(self.formats):
            return _of(self._begun(place.step + 1))
        return _of(PolicyState(place.step, InnerPlan(None, 1.0), place.failed + 1, _FEWEST_FULL << place.failed))

    def _begun(self, step: int) -> PolicyState:
        return PolicyState(step, InnerPlan(self.formats[step], default_inner_reduction(self.formats[step])))


def _gain(inner_reduction: Any) -> float:
    number = real("inner_reduction", inner_reduction)
    if not 0.0 < number <= 1.0:
        raise InputError(f"gain is {number}; it must lie above 0 and be at most 1")
    return number


def _known(state: Any, kind: type[Any], of: RefinementPolicy) -> Any:
    """Return a state that a policy is handed; refuse one that it cannot have returned."""
    if not isinstance(state, kind):
        raise InputError(
            f"{type(of).__name__} is handed the state {described(state)}; hand it the one that init or update returned"
        )
    return state


def _of(place: PolicyState) -> tuple[InnerPlan, PolicyState]:
    return place.plan, place


def checked_plan(policy: RefinementPolicy, planned: Any) -> tuple[InnerPlan, Any]:
    """Return what a policy has planned; refuse what is no plan and state."""
    if not isinstance(planned, tuple | list) or len(planned) != 2 or not isinstance(planned[0], InnerPlan):
        raise InputError(
            f"{type(policy).__name__} planned {described(planned)}; "
            "a policy must return a pair: a cpms.precision.refinement_policy.InnerPlan and a state"
        )
    return planned[0], planned[1]


def default_inner_reduction(storage: FloatFormat) -> float:
    """Return the share of the residual down to which low sweeps in a format pay.

    Fewer bits make more noise, so less can be asked of them between two full sweeps: the values, 0.2 u^1.08 for a unit
    roundoff of u / 8, are the least that cost no more low sweeps on web, road, mesh and random graphs. Below 8e-6 the
    float32 of what is added to x would have the last word.

    Examples
    --------
    >>> from cpms.formats.formats import BF16, E5M2
    >>> [f"{default_inner_reduction(storage):.1g}" for storage in (E5M2, BF16, FP16, FP32)]
    ['0.2', '0.005', '0.0005', '8e-06']
    """
    roundoff = quantiser(format_of(storage)).unit_roundoff()
    return max(_LEAST_GAIN, float(0.2 * min(1.0, 8.0 * roundoff) ** 1.08))


def default_policy(storage: Format) -> RefinementPolicy:
    """Return the adaptive policy that begins with a format and widens it up to 32 bits.

    Examples
    --------
    >>> from cpms.formats.formats import E5M2
    >>> [q.name for q in default_policy(FP16).formats], [q.name for q in default_policy(E5M2).formats]
    (['fp16', 'fp32'], ['e5m2', 'fp16', 'fp32'])
    """
    first = quantiser(format_of(storage))
    return AdaptiveReduction((first, *(wider for wider in (FP16, FP32) if wider.width > first.width)))


def planned_storage(policy: RefinementPolicy | None, given: Format | None, otherwise: Format) -> Format:
    """Return the format with which a policy begins, as it was asked for; without one what was given, or else another.

    Raises
    ------
    InputError
        If another one was asked for.

    Examples
    --------
    >>> planned_storage(FixedReduction(FP16), None, FP32).name, planned_storage(None, None, FP32).name
    ('fp16', 'fp32')
    """
    otherwise, given = format_of(otherwise), None if given is None else format_of(given)
    if policy is None:
        return given or otherwise
    if not isinstance(policy, RefinementPolicy):
        raise InputError(f"policy is {described(policy)}; give one such as cpms.AdaptiveReduction((cpms.FP16,))")
    plan, _ = checked_plan(policy, policy.init())
    if given is None:
        return plan.storage or FP64
    if plan.storage is not None and plan.storage != quantiser(given):
        raise InputError(
            f"storage is {given.name}, but the policy begins with {plan.storage.name}; leave storage out, or give that"
        )
    return given
