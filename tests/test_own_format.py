"""The page docs/own_format.md runs: its format and controller, in no file of the package, everywhere it says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cpms
from cpms import check, testing
from cpms.backends.cuda.arrays import codec
from cpms.base import plugins
from cpms.cli.main import main
from cpms.storage.device import to_device

PAGE = (Path(__file__).parents[1] / "docs" / "own_format.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", PAGE, re.DOTALL)
PROGRAM, FIGURE, FAST, ON_DEVICE, PAIR = (text for kind, text in BLOCKS if kind == "python")
(CONFIG,) = (text for kind, text in BLOCKS if kind == "toml")
CHECK, RUN, SHOW_CONFIG, SHOW_PROGRAM = re.findall(r"^cpms (.*)$", PAGE, re.MULTILINE)


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log16.py").write_text(PROGRAM + FAST + ON_DEVICE)
    (tmp_path / "pair12.py").write_text(PAIR)
    (tmp_path / "own.toml").write_text(CONFIG + "max_iterations = 60\n")
    (tmp_path / "bits.py").write_text(FIGURE)
    return tmp_path


def test_the_program_has_20_lines_and_prints_what_it_should(capsys):
    defined, used = PROGRAM.split("if __name__")
    assert [sum(bool(line.strip()) for line in part.splitlines()) for part in (defined, used)] == [20, 4]
    exec(PROGRAM, {"__name__": "__main__"})  # noqa: S102  # It is this project's own text.
    stored, product, ranks = capsys.readouterr().out.splitlines()
    assert stored.endswith("] True")
    np.testing.assert_allclose(np.fromstring(product.strip("[]"), sep=" "), [0.5, -2.5], rtol=2e-3)
    assert ranks.startswith("[(0, 0.33260")


def test_the_recipe_of_the_laws_fits_it(own):
    mine = cpms.format_named("log16.py:Log16")

    @settings(deadline=None, max_examples=60)
    @given(testing.float_arrays(near=mine), st.sampled_from(check.FORMAT_LAWS))
    def laws_hold(values, law):
        law(mine, values)

    laws_hold()


def test_the_commands_of_the_page_run_it(own, capsys):
    assert main(CHECK.split()) == 0
    assert main(RUN.split()) == 0
    err = capsys.readouterr().err
    assert err.count("plug-in log16.py:Log16 of cpms.formats runs code of") == 2, "once a command"
    assert err.count("plug-in log16.py:Late of cpms.controllers runs code of") == 1
    rows = [json.loads(line) for line in (own / "out" / "own.jsonl").read_text().splitlines()]
    assert {row["status"] for row in rows} == {"ok"}
    assert {(each["name"], each["group"]) for each in rows[0]["plugins"]} == {
        ("log16.py:Log16", "formats"),
        ("log16.py:Late", "controllers"),
    }
    assert all(len(each["sha256"]) == 64 for each in rows[0]["plugins"])
    assert main(SHOW_CONFIG.split()) == 0
    assert {"own_time.pdf", "own_residual.svg", "own_residual_by_bits.png"} <= {
        path.name for path in Path("out").iterdir()
    }
    assert main(SHOW_PROGRAM.split()) == 0
    assert {path.suffix for path in Path("out").glob("bits.*")} == {".pdf", ".svg", ".png", ".json"}
    assert json.loads(Path("out/bits.json").read_text())["plugins"][0]["group"] == "show_programs"
    for command in (CHECK, RUN, SHOW_CONFIG, SHOW_PROGRAM):
        assert main([*command.split(), "--no-plugins"]) == 2
        assert "which --no-plugins refuses" in capsys.readouterr().err


def test_engine_cpu_takes_its_codec(own):
    fast = cpms.format_named("log16.py:FastLog16")
    assert check.check_format(fast, patterns=20_000).holds
    dense = np.random.default_rng(0).standard_normal((20, 30))
    check.products_are_within_their_bound(cpms.matrix(dense, storage=fast, engine="cpu"))
    graph = cpms.generate("uniform:nodes=200,edges=900,seed=1")
    assert cpms.pagerank(graph, method="power", storage=fast, engine="cpu").status.name == "CONVERGED"


def test_pairs_of_12_bits_take_three_bytes_and_run_where_the_page_says(own):
    pair = cpms.format_named("pair12.py:Pair12")
    assert check.check_format(pair, patterns=20_000).holds
    assert (cpms.encode(np.ones(1000), pair).nbytes, cpms.encode(np.ones(1000), "pair12.py:E5M6").nbytes) == (
        1500,
        2000,
    )
    graph = cpms.generate("uniform:nodes=200,edges=900,seed=1")
    reference, cpu = (
        cpms.pagerank(graph, method="power", layout="csr", storage=pair, engine=engine, tol=1e-8)
        for engine in ("reference", "cpu")
    )
    assert cpu.status.name == "CONVERGED"
    np.testing.assert_allclose(cpu.ranks, reference.ranks, atol=1e-12)


def test_engine_auto_names_the_engine_of_a_format_without_a_compiled_codec(own, capsys):
    rank = ["rank", "uniform:nodes=200,edges=900,seed=1", "--method", "power", "--storage", "log16.py:Log16"]
    assert main(rank) == 2
    assert "or use engine reference" in capsys.readouterr().err
    assert main([*rank, "--engine", "reference"]) == 0


def test_engine_cuda_takes_its_codec(own, device):
    values = np.random.default_rng(0).standard_normal(300)
    format = cpms.format_named("log16.py:CudaLog16")
    stored = codec.encode(to_device(values), format)
    np.testing.assert_allclose(
        np.asarray(device.to_host(codec.decode(stored))), cpms.encode(values, format).decode(), 1e-14
    )


@pytest.mark.gpu
def test_the_program_runs_on_a_gpu(own, gpu_backend, capsys):
    """The program of the page with its last class, its engine and nothing else exchanged."""
    del gpu_backend
    defined, used = PROGRAM.split("if __name__")
    used = used.replace("Log16()", "CudaLog16()").replace('engine="reference"', 'engine="cuda"')
    exec(defined + FAST + ON_DEVICE + "\nif __name__" + used, {"__name__": "__main__"})  # noqa: S102  # As above.
    stored, product, ranks = capsys.readouterr().out.splitlines()
    assert stored.endswith("] True")
    np.testing.assert_allclose(np.fromstring(product.strip("[]"), sep=" "), [0.5, -2.5], rtol=2e-3)
    assert ranks.startswith("[(0, 0.33260")
    (own / "own.toml").write_text(
        CONFIG.replace('engines = ["reference"]', 'engines = ["cuda"]').replace("Log16", "CudaLog16")
        + "max_iterations = 60\n"
    )
    assert main(RUN.split()) == 0
    rows = [json.loads(line) for line in (own / "out" / "own.jsonl").read_text().splitlines()]
    assert {(row["status"], row["engine"]) for row in rows} == {("ok", "cuda")}


@pytest.mark.gpu
def test_rounding_on_a_gpu_takes_its_codec(own, gpu_backend):
    import cupy

    values = gpu_backend.arrays.asarray(np.random.default_rng(0).standard_normal((30, 10)))
    format = cpms.format_named("log16.py:CudaLog16")
    found, right = cpms.quantize(values, format), cpms.quantize(cupy.asnumpy(values), format)
    np.testing.assert_allclose(cupy.asnumpy(found), right, 1e-14)
    with pytest.raises(cpms.InputError, match="log16 has no NaN"):
        cpms.quantize(values * np.nan, format)


@pytest.mark.gpu
def test_an_installed_package_brings_the_format_to_a_gpu(own, gpu_backend, monkeypatch):
    """By entry points, as wheels declare them: a product, and an experiment with a controller."""
    del gpu_backend
    info = own / "site" / "log_package-1.5.dist-info"
    info.mkdir(parents=True)
    (own / "site" / "log_package.py").write_text(PROGRAM + FAST + ON_DEVICE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: log-package\nVersion: 1.5\n")
    points = {"formats": "packed-log16 = log_package:CudaLog16", "controllers": "packed-late = log_package:Late"}
    (info / "entry_points.txt").write_text("".join(f"[cpms.{group}]\n{each}\n" for group, each in points.items()))
    monkeypatch.syspath_prepend(own / "site")
    plugins.declared.cache_clear()
    try:
        product = cpms.matrix([[0.5, 0.0], [-3.0, 0.25]], storage="packed-log16", engine="cuda") @ [1.0, 2.0]
        np.testing.assert_allclose(product, [0.5, -2.5], rtol=2e-3)
        text = CONFIG.replace('engines = ["reference"]', 'engines = ["cuda"]\nmax_iterations = 60')
        names = {"log16.py:Log16": "packed-log16", "log16.py:Late": "packed-late"}
        for name, packed in names.items():
            text = text.replace(name, packed)
        (own / "own.toml").write_text(text)
        assert main(RUN.split()) == 0
    finally:
        plugins.declared.cache_clear()
    rows = [json.loads(line) for line in (own / "out" / "own.jsonl").read_text().splitlines()]
    assert {(row["status"], row["engine"]) for row in rows} == {("ok", "cuda")}
    assert {row["storage"] for row in rows} == {"fp16", "packed-log16"}
    assert {each["version"] for row in rows for each in row.get("plugins", [])} == {"1.5"}
