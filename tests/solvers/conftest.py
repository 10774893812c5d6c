"""The engines that refine."""

from __future__ import annotations

import pytest
from refine_cases import ENGINES

from cpms import UnavailableError, engines


@pytest.fixture(params=ENGINES, scope="module")
def engine(request):
    try:
        return engines.get(request.param)
    except UnavailableError as error:
        pytest.skip(str(error))
