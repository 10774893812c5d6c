"""Devices of tests of batches: the host by emulation, and a GPU."""

import pytest

from cpms import format_named
from cpms.backends.cuda import device_engine
from cpms.backends.cuda.batch import refinement
from cpms.backends.cuda.kernels import batched
from cpms.backends.cuda.runtime import current, host_emulation


@pytest.fixture(scope="session", autouse=True)
def compiled_together(request):
    """Compile what these tests launch on this machine at once: one by one it takes longer."""
    if host_emulation.compiler() is not None:
        full = [variant for each in (1, 2) for variant in batched.batch_residual_sweeps(each, refines=False)]
        e5m2 = format_named("e5m2")
        low = [*batched.batch_inner_sweeps(e5m2, 1), *batched.batch_history(e5m2)]
        wanted = [*refinement.needed_variants(), *full, *low]
        request.getfixturevalue("host_backend").compile(wanted)


@pytest.fixture(params=["host", pytest.param("gpu", marks=pytest.mark.gpu)])
def device(request, monkeypatch):
    monkeypatch.setattr(device_engine, "missing", lambda: None)
    with current.using(request.getfixturevalue(f"{request.param}_backend")) as backend:
        yield backend
