"""Backends of kernels: the host by emulation, and a GPU."""

import pytest

from cpms.backends.cuda.runtime import current as current_module


@pytest.fixture(params=["host", pytest.param("gpu", marks=pytest.mark.gpu)])
def backend(request):
    with current_module.using(request.getfixturevalue(f"{request.param}_backend")) as current:
        yield current
