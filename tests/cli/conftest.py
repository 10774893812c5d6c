"""A small graph for the command line."""

import pytest
from cli_runs import TRIANGLE


@pytest.fixture
def triangle(tmp_path):
    path = tmp_path / "triangle.mtx"
    path.write_text(TRIANGLE)
    return path
