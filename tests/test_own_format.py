"""The page docs/own_format.md runs: its format and controller, in no file of the package, everywhere it says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import cpms
from cpms import check
from cpms.backends.cuda.arrays import codec
from cpms.cli.main import main
from cpms.storage.device import to_device

PAGE = (Path(__file__).parents[1] / "docs" / "own_format.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(python|toml)\n(.*?)```", PAGE, re.DOTALL)
DEFINED, USED, FIGURE, FAST, ON_DEVICE = (text for kind, text in BLOCKS if kind == "python")
(CONFIG,) = (text for kind, text in BLOCKS if kind == "toml")


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log16.py").write_text(DEFINED + FAST + ON_DEVICE)
    (tmp_path / "own.toml").write_text(CONFIG + "max_iterations = 60\n")
    (tmp_path / "bits.py").write_text(FIGURE)
    return tmp_path


def test_the_page_prints_what_it_should(capsys):
    exec(DEFINED + USED, {"__name__": "log16"})  # noqa: S102  # It is this project's own text.
    out = capsys.readouterr().out
    assert "True" in out
    assert "CONVERGED" in out


def test_the_command_line_and_an_experiment_take_it(own, capsys):
    assert main(["check", "log16.py:Log16", "--patterns", "20000"]) == 0
    assert main(["run", "own.toml", "--output", "out", "--only", "log16.py:Log16"]) == 0
    assert "code of plug-in log16.py:Log16 ran" in capsys.readouterr().out
    rows = [json.loads(line) for line in (own / "out" / "own.jsonl").read_text().splitlines()]
    assert {row["status"] for row in rows} <= {"ok"}
    assert {plugin["name"] for plugin in rows[0]["plugins"]} >= {"log16.py:Log16", "log16.py:Late"}
    assert main(["show", "bits.py", "--results", "out", "--output", "figures"]) == 0
    assert {path.suffix for path in (own / "figures").iterdir()} == {".pdf", ".svg", ".png"}
    assert main(["run", "own.toml", "--output", "other", "--no-plugins"]) == 2


def test_engine_cpu_takes_its_codec(own):
    fast = cpms.format_named("log16.py:FastLog16")
    assert check.check_format(fast, patterns=20_000).holds
    dense = np.random.default_rng(0).standard_normal((20, 30))
    check.products_are_within_their_bound(cpms.matrix(dense, storage=fast, engine="cpu"))
    graph = cpms.generate("uniform:nodes=200,edges=900,seed=1")
    assert cpms.pagerank(graph, method="power", storage=fast, engine="cpu").status.name == "CONVERGED"


def test_engine_cuda_takes_its_codec(own, device):
    values = np.random.default_rng(0).standard_normal(300)
    format = cpms.format_named("log16.py:CudaLog16")
    stored = codec.encode(to_device(values), format)
    np.testing.assert_allclose(
        np.asarray(device.to_host(codec.decode(stored))), cpms.encode(values, format).decode(), 1e-14
    )
