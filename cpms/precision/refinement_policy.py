"""Precision policies of mixed-precision iterative refinement: the format of inner sweeps, and their reduction.

A policy plans each outer step: the format in which inner sweeps read the scaled residual, and the factor by which they
shall reduce the residual before it is computed in float64 again. The factor is the forcing term of inexact Newton
methods (Eisenstat and Walker, "Choosing the forcing terms in an inexact Newton method", SIAM J. Sci. Comput. 17, 1996);
a wider format follows where rounding errors stop the reduction, as in refinement with several precisions (Carson and
Higham, SIAM J. Sci. Comput. 40, 2018). Policies read two norms an outer step and cost nothing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

from cpms.base import plugins
from cpms.base.errors import InputError
from cpms.base.validation import described, real
from cpms.formats.formats import FP16, FP32, FP64, Format, format_of
from cpms.formats.quantization import residual_format
from cpms.precision.controllers import checked_state

NO_PROGRESS = 0.5
"""Reduction factor of an outer step above which its inner sweeps have made no progress."""
_NOISE_TOLERANCE = 3.0
"""Ratio of the computed residual to the predicted one above which the excess counts as rounding error."""
_FEWEST_RESIDUAL_SWEEPS = 8
"""Residual sweeps after inner sweeps first failed in the last format."""
_SMALLEST_REDUCTION = 8e-6
"""Least inner reduction: corrections are added to x in float32, whose rounding errors limit the residual."""


@dataclass(frozen=True)
class InnerPlan:
    """Plan of an outer step: the format of its inner sweeps, and the factor by which they reduce the residual.

    Parameters
    ----------
    storage : Format, str or None
        None for an outer step without inner sweeps, a residual sweep alone. Of a format of segments, the first segment
        is meant.
    inner_reduction : float
        Above 0 and at most 1.

    Raises
    ------
    InputError
        If there is no such format, or the factor is out of range.

    Examples
    --------
    >>> import cpms
    >>> cpms.InnerPlan("fp16", 1e-3).inner_reduction
    0.001
    """

    storage: Format | None
    inner_reduction: float

    def __post_init__(self) -> None:
        if self.storage is not None:
            object.__setattr__(self, "storage", residual_format(self.storage))
        object.__setattr__(self, "inner_reduction", _checked_reduction(self.inner_reduction))


class RefinementPolicy(ABC):
    """Policy that plans outer steps from residuals; its state is returned and not stored.

    Examples
    --------
    One that reduces the residual a thousandfold in fp32 in each outer step:

    >>> import cpms
    >>> class Thousandfold(cpms.RefinementPolicy):
    ...     def init(self):
    ...         return cpms.InnerPlan("fp32", 1e-3), None
    ...     def update(self, state, promised, found):
    ...         return cpms.InnerPlan("fp32", 1e-3), None
    >>> options = {"method": "refine", "engine": "reference"}
    >>> cpms.pagerank(([0, 1, 2, 0], [1, 2, 0, 2]), controller=Thousandfold(), **options).converged
    True
    """

    noise_tolerance: float = _NOISE_TOLERANCE
    """The plan is unchanged while the computed residual is at most this many times the predicted one."""
    adaptive: bool = False
    """Whether outer steps may reduce more than planned where rounding loses nothing: `Refinement.error_feedback`."""

    @abstractmethod
    def init(self) -> tuple[InnerPlan, Any]:
        """Return the first plan and the initial state, which may be any object."""

    @abstractmethod
    def update(self, state: Any, promised: float, found: float) -> tuple[InnerPlan, Any]:
        """Return the next plan and a new state, from the predicted and the computed residual of the last outer step.

        Parameters
        ----------
        state : object
            As `init` or the last call returned it.
        promised, found : float
            Predicted and computed ||r||_1, relative to ||r||_1 at the start of the outer step. ``promised`` is 1
            without inner sweeps, and 0 where rounding stopped their reduction. It is 0, too, after an outer step that
            reached its iteration limit before it had halved the residual; ``found`` is then the last norm of the inner
            sweeps, and the policy is called before the next residual sweep.
        """


@dataclass(frozen=True)
class FixedReduction(RefinementPolicy):
    """Policy of one format, ``storage``, and one factor ``inner_reduction``, `default_inner_reduction` unless given.

    Examples
    --------
    >>> import cpms
    >>> cpms.FixedReduction(cpms.FP16, 1e-2).init()[0].inner_reduction
    0.01
    """

    storage: Format
    inner_reduction: float | None = None
    noise_tolerance = math.inf

    def __post_init__(self) -> None:
        object.__setattr__(self, "storage", residual_format(self.storage))
        if self.inner_reduction is not None:
            object.__setattr__(self, "inner_reduction", _checked_reduction(self.inner_reduction))

    def init(self) -> tuple[InnerPlan, Any]:
        """Return the only plan."""
        plan = InnerPlan(
            self.storage,
            default_inner_reduction(self.storage) if self.inner_reduction is None else self.inner_reduction,
        )
        return plan, plan

    def update(self, state: Any, promised: float, found: float) -> tuple[InnerPlan, Any]:  # noqa: ARG002
        """Return the same plan again."""
        return checked_state(state, InnerPlan, self), state


class PolicyState(NamedTuple):
    """State of an adaptive policy.

    Parameters
    ----------
    position : int
        Of the format among `AdaptiveReduction.formats`.
    plan : InnerPlan
    failures : int
        How many times in succession the last format has failed.
    residual_sweeps : int
        Residual sweeps without inner sweeps that remain.
    """

    position: int
    plan: InnerPlan
    failures: int = 0
    residual_sweeps: int = 0


@dataclass(frozen=True)
class AdaptiveReduction(RefinementPolicy):
    """Policy that begins with the first of ``formats`` at its default reduction, and reacts to rounding errors.

    The excess of a computed residual over the predicted one is rounding error: the next outer steps then plan only the
    reduction that was reached. Where an outer step does not even halve the residual, the next format follows. Where the
    last format fails, some residual sweeps follow without inner ones, twice as many after each further failure.

    Examples
    --------
    >>> import cpms
    >>> policy = cpms.AdaptiveReduction((cpms.E5M2, cpms.FP16))
    >>> plan, state = policy.init()
    >>> policy.update(state, promised=0.2, found=0.9)[0].storage.name
    'fp16'
    """

    formats: tuple[Format, ...]
    adaptive = True

    def __post_init__(self) -> None:
        if not isinstance(self.formats, tuple | list) or not self.formats:
            raise InputError(
                f"formats is {described(self.formats)}; give one format or more, such as (cpms.FP16, cpms.FP32)"
            )
        object.__setattr__(self, "formats", tuple(residual_format(storage) for storage in self.formats))

    def init(self) -> tuple[InnerPlan, Any]:
        """Return the first format's plan."""
        return _planned(self._at_position(0))

    def update(self, state: Any, promised: float, found: float) -> tuple[InnerPlan, Any]:
        """Return the plan of the next outer step."""
        current: PolicyState = checked_state(state, PolicyState, self)
        promised, found = real("promised", promised), real("found", found)
        position, plan, failures, residual_sweeps = current
        if plan.storage is None:
            if residual_sweeps > 1:
                return _planned(current._replace(residual_sweeps=residual_sweeps - 1))
            return _planned(self._at_position(position)._replace(failures=failures))
        if found <= _NOISE_TOLERANCE * promised:
            return _planned(current._replace(failures=0) if found <= NO_PROGRESS else current)
        if found <= NO_PROGRESS:
            return _planned(current._replace(plan=InnerPlan(plan.storage, max(plan.inner_reduction, found))))
        if position + 1 < len(self.formats):
            return _planned(self._at_position(position + 1))
        return _planned(PolicyState(position, InnerPlan(None, 1.0), failures + 1, _FEWEST_RESIDUAL_SWEEPS << failures))

    def _at_position(self, position: int) -> PolicyState:
        storage = self.formats[position]
        return PolicyState(position, InnerPlan(storage, default_inner_reduction(storage)))


def _checked_reduction(inner_reduction: Any) -> float:
    number = real("inner_reduction", inner_reduction)
    if not 0.0 < number <= 1.0:
        raise InputError(f"inner_reduction is {number}; it must lie above 0 and be at most 1")
    return number


def _planned(state: PolicyState) -> tuple[InnerPlan, PolicyState]:
    return state.plan, state


def first_plan(policy: RefinementPolicy) -> tuple[InnerPlan, Any]:
    """Return the first plan and the state, checked; errors in a plug-in's code name it."""
    with plugins.running(policy):
        planned = policy.init()
    return checked_plan(policy, planned)


def next_plan(policy: RefinementPolicy, state: Any, promised: float, found: float) -> tuple[InnerPlan, Any]:
    """Return the next plan and the new state, as `first_plan` does."""
    with plugins.running(policy):
        planned = policy.update(state, promised, found)
    return checked_plan(policy, planned)


def checked_plan(policy: RefinementPolicy, planned: Any) -> tuple[InnerPlan, Any]:
    """Return the plan and the state that a policy returned; refuse anything but such a pair."""
    if not isinstance(planned, tuple | list) or len(planned) != 2 or not isinstance(planned[0], InnerPlan):
        raise InputError(
            f"{plugins.described_plugin(policy)} planned {described(planned)}; "
            "a policy must return a pair: a cpms.InnerPlan and a state"
        )
    return planned[0], planned[1]


def default_inner_reduction(storage: Format) -> float:
    """Return the reduction factor to which inner sweeps in a format are worthwhile.

    Fewer bits make larger rounding errors, so inner sweeps reduce less between two residual sweeps. The factor is
    0.2 u^1.08 for a unit roundoff of u / 8, fitted to the smallest factors that cost no additional inner sweeps on web,
    road, mesh and random graphs. It is at least 8e-6: corrections are added to x in float32.

    Examples
    --------
    >>> from cpms.formats.formats import BF16, E5M2
    >>> [f"{default_inner_reduction(storage):.1g}" for storage in (E5M2, BF16, FP16, FP32)]
    ['0.2', '0.005', '0.0005', '8e-06']
    """
    roundoff = residual_format(storage).unit_roundoff(1)
    return max(_SMALLEST_REDUCTION, float(0.2 * min(1.0, 8.0 * roundoff) ** 1.08))


def default_policy(storage: Format) -> RefinementPolicy:
    """Return the adaptive policy that begins with a format and continues with wider ones of at most 32 bits.

    Examples
    --------
    >>> from cpms.formats.formats import E5M2
    >>> [q.name for q in default_policy(FP16).formats], [q.name for q in default_policy(E5M2).formats]
    (['fp16', 'fp32'], ['e5m2', 'fp16', 'fp32'])
    """
    first = residual_format(storage)
    return AdaptiveReduction((first, *(wider for wider in (FP16, FP32) if wider.width > first.bits(1))))


def planned_formats(policy: RefinementPolicy) -> tuple[Format, ...]:
    """Return the formats that a policy plans: that of its first plan, and its ``formats`` if it has such.

    Examples
    --------
    >>> [storage.name for storage in planned_formats(AdaptiveReduction((FP16, FP32)))]
    ['fp16', 'fp32']
    """
    first, later = checked_plan(policy, policy.init())[0].storage, getattr(policy, "formats", ())
    found = [] if first is None else [first]
    return tuple(dict.fromkeys([*found, *(each for each in later if isinstance(each, Format))]))


def planned_storage(policy: RefinementPolicy | None, given: Format | None, otherwise: Format) -> Format:
    """Return the storage format of a solve: the first of its policy, or the one given, or else a default.

    Parameters
    ----------
    policy : RefinementPolicy or None
    given : Format or None
        Storage format of the call.
    otherwise : Format
        Default.

    Raises
    ------
    InputError
        If the format given is not the one with which the policy begins.

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
    plan, _ = first_plan(policy)
    if given is None:
        return plan.storage or FP64
    if plan.storage is not None and plan.storage != residual_format(given):
        raise InputError(
            f"storage is {given.name}, but the policy begins with {plan.storage.name}; leave storage out, or give that"
        )
    return given
