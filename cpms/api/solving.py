"""One solve of a request on what an engine has prepared for it, and its certificate.

The equation is solved by power iteration (Brin and Page, 1998) or by mixed-precision iterative refinement; both run on
the contracts of `cpms.contracts` alone. The residual of the answer is recomputed in float64 by code that no engine
shares, which costs about one sweep.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from cpms.api.request import Request
from cpms.api.result import Result
from cpms.base import work_clock
from cpms.certify.certificate import Certifier
from cpms.contracts.operator import Operator
from cpms.contracts.recomputation import Recomputation
from cpms.contracts.refinement import Refinement
from cpms.contracts.status import Step
from cpms.precision.refinement_policy import first_plan
from cpms.solvers.power import power
from cpms.solvers.refine import reduce_then_iterate
from cpms.storage.device import copy_to_host, on_device, to_device, to_host


class Solved(NamedTuple):
    """The result of a solve, and whether what was prepared for it can serve another one."""

    result: Result
    reusable: bool


def solve(
    request: Request,
    prepared: Operator[Any] | Refinement,
    on_step: Callable[[Step], None] | None = None,
    *,
    prepare_s: float,
    compiled_before_s: float,
    recomputation: Recomputation | None = None,
) -> Solved:
    """Solve and certify one problem; ``compiled_before_s`` is the work clock's when the call began.

    ``recomputation`` certifies answers in device memory, which then stay there until the end; without one they are
    copied to main memory and certified there.
    """
    problem, stopping = request.problem, request.stopping
    certifier, answer = Certifier(problem, stopping, recomputation), _Answer(on_device_only=recomputation is not None)
    began = work_clock.now()
    if isinstance(prepared, Refinement):
        skip_reduction = request.start is not None or stopping.iterations is not None
        request = request.with_residual_format(
            prepared.unreduced_residual_format if skip_reduction else prepared.default_residual_format
        )
        prepared.warm_up(prepared.readable(first_plan(request.policy)[0].storage))
        prepare_s += work_clock.now() - began
        began, matrix_bytes = work_clock.now(), prepared.nbytes
        ranks, status, history = reduce_then_iterate(
            *(prepared, request.start, request.policy, stopping, certifier, answer.of_array, on_step),
            skip_reduction=skip_reduction,
        )
        reusable = True
    else:
        matrix_bytes = prepared.nbytes
        ranks, status, history = power(
            *(prepared, request.initial_guess, request.controller, stopping, on_step),
            confirmed=certifier.is_below_tolerance,
            answer=answer.read,
        )
        reusable = answer.operator is prepared or prepared.survives_conversion
    solve_s = work_clock.now() - began - certifier.seconds
    status, residual_l1 = certifier.certify(ranks, status)
    total = certifier.recomputation.mass(ranks)
    device_ranks = answer.scaled_device_ranks()
    if recomputation is not None and problem.graph.device_arrays is None:
        ranks = copy_to_host(ranks)
    result = Result(
        **request.stated,
        ranks=ranks,
        status=status,
        history=tuple(history),
        residual_l1=residual_l1,
        residual_roundoff=certifier.recomputation.roundoff,
        mass=total,
        prepare_s=prepare_s,
        solve_s=solve_s,
        certify_s=certifier.seconds,
        matrix_bytes=matrix_bytes,
        device_ranks=device_ranks,
        compile_s=work_clock.compiled_s() - compiled_before_s,
    )
    return Solved(result, reusable)


class _Answer:
    """Moves answers to where they are certified, and holds the last one in device memory if the engine has it there.

    Parameters
    ----------
    on_device_only : bool
        Whether answers are certified in device memory, else in main memory.
    """

    def __init__(self, *, on_device_only: bool) -> None:
        self._on_device_only = on_device_only
        self.device_ranks: Any | None = None
        self.operator: Operator[Any] | None = None
        """The operator that the last answer was read from: the prepared one, or what it was converted to."""

    def read(self, operator: Operator[Any], x: Any, segments: int) -> Any:
        """Return a vector of an operator."""
        self.operator = operator
        found = operator.read_device(x, segments)
        return self.of_array(operator.read(x, segments) if found is None else found)

    def of_array(self, x: Any) -> Any:
        """Return an array, wherever it is."""
        if self._on_device_only:
            self.device_ranks = to_device(x)
            return self.device_ranks
        self.device_ranks = x if on_device(x) else None
        return to_host(x)

    def scaled_device_ranks(self) -> Any | None:
        """Return the last answer on the device, scaled to mass 1; None if it was on the host."""
        if self._on_device_only or self.device_ranks is None:
            return self.device_ranks
        return self.device_ranks / self.device_ranks.sum()
