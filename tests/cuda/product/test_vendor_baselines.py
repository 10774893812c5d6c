"""Baselines of NVIDIA's libraries, as far as they run without a GPU: what is prepared again, and what is refused."""

from types import SimpleNamespace

import numpy as np
import pytest

from cpms.backends.cuda.product import vendor_cg
from cpms.backends.cuda.product.cusparse import CusparseProduct
from cpms.backends.cuda.product.cusparse_sell import require_32_bits
from cpms.base.errors import UnsupportedError
from cpms.contracts.linear_solve import SolveStatus
from cpms.contracts.product_request import ProductRequest
from cpms.formats.formats import FP64


class Workspace:
    """A workspace whose first residual is 0."""

    def __init__(self, _, weights):
        self.weights, self.x = weights, np.zeros(2)

    def restart(self, _):
        return 0.0


def test_another_preconditioner_has_a_workspace_of_its_own(monkeypatch):
    monkeypatch.setattr(vendor_cg, "_Workspace", Workspace)
    operator, weights = CusparseProduct(ProductRequest(FP64), None, None, FP64), np.ones(2)
    held = []
    for preconditioner in (None, None, SimpleNamespace(weights=weights), SimpleNamespace(weights=weights), None):
        recorder = SimpleNamespace(correct=lambda _: None, left=9)
        task = SimpleNamespace(stored=operator, preconditioner=preconditioner, b=None, goal=1.0, recorder=recorder)
        assert vendor_cg.cg(task, np.zeros(2)) is SolveStatus.CONVERGED
        held.append(vendor_cg._PREPARED[operator])
    assert held[0] is held[1] is not held[2] is held[3] is not held[4]
    assert [each.weights is None for each in held] == [True, True, False, False, True]


def test_slots_that_31_bits_do_not_number_are_refused():
    layout = SimpleNamespace(slots=2**31 - 1, matrix=SimpleNamespace(shape=(3, 4)))
    require_32_bits(layout)
    layout.slots += 1
    with pytest.raises(UnsupportedError, match="indices of 32 bits, which 2,147,483,648 exceeds; use cuda"):
        require_32_bits(layout)
