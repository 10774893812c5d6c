"""Hypothesis profiles, chosen with ``--hypothesis-profile``, and the folder of real graphs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

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
