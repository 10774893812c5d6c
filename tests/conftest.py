"""Hypothesis profiles, chosen with ``--hypothesis-profile``; the folder of real graphs; where CUDA kernels run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from cpms.cuda.compile import CudaBackend, missing
from cpms.cuda.host import HostBackend, compiler

settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, max_examples=40)
settings.register_profile("thorough", settings.get_profile("default"), max_examples=2000)
settings.load_profile("default")


@pytest.fixture(scope="session")
def cpms_data() -> Path:
    """Folder of the real graphs; the test is skipped where there is none."""
    folder = os.environ.get("CPMS_DATA")
    if not folder:
        pytest.skip("CPMS_DATA names no folder with the real graphs")
    return Path(folder)


@pytest.fixture(scope="session")
def host_backend(tmp_path_factory: pytest.TempPathFactory) -> HostBackend:
    """Where CUDA kernels run on this machine's processor; skipped without a C++ compiler."""
    if compiler() is None:
        pytest.skip("there is no C++ compiler")
    folder = tmp_path_factory.getbasetemp().parent / "cuda-kernels-on-host"
    folder.mkdir(exist_ok=True)
    return HostBackend(folder)


@pytest.fixture(scope="session")
def gpu_backend() -> CudaBackend:
    """A GPU; skipped where there is none."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    return CudaBackend()
