"""Cubins that wheels carry: found by content alone, never stale, and loaded before NVRTC is asked."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import kernel_catalogue
import pytest

import cpms
from cpms.backends.cuda.device_engine import DeviceEngine
from cpms.backends.cuda.kernels import cubins, source, template, units
from cpms.backends.cuda.runtime.compile import CudaBackend
from cpms.backends.cuda.runtime.current import using
from cpms.base.errors import InputError

FAKE = 13, lambda text, options: f"{options} {source.digest(text)}".encode()


@pytest.fixture
def carried(tmp_path, monkeypatch):
    """A folder in place of the one that wheels carry."""
    monkeypatch.setattr(cubins, "folder", lambda: tmp_path / "cubins")
    cubins._held.cache_clear()
    yield cubins.folder()
    cubins._held.cache_clear()


def edit_a_header(tmp_path, monkeypatch):
    edited = tmp_path / "cuda"
    shutil.copytree(source.folder(), edited)
    with (edited / "certificate" / "residual.cu").open("a") as file:
        file.write("// changed\n")
    monkeypatch.setattr(source, "folder", lambda: edited)


def test_common_units_are_found_by_content_and_a_changed_source_is_not(carried, tmp_path, monkeypatch):
    made = cubins.build(carried, ["sm_90"], FAKE)
    every = units.common_units()
    certificate = next(unit for unit in every if template.CERTIFICATE[0] in unit)
    assert len(made) == len(every) == len(list(carried.iterdir()))
    assert all(cubins.shipped(template.program(unit), "sm_90", 13).read_bytes() for unit in every)
    assert cubins.described() == f"sm_90: {len(every)}"
    text = template.program(certificate)
    assert cubins.shipped(text, "sm_80", 13) is cubins.shipped(text, "sm_90", 12) is None
    edit_a_header(tmp_path, monkeypatch)
    assert cubins.shipped(template.program(certificate), "sm_90", 13) is None
    assert cubins.shipped(template.program([template.CONVERGENCE_ESTIMATE]), "sm_90", 13) is not None
    # Those of earlier sources do not go into the next wheel.
    again = cubins.build(carried, ["sm_90"], FAKE)
    assert set(carried.iterdir()) == set(again) != set(made)


def test_a_write_that_fails_leaves_no_part_of_a_cubin(carried, monkeypatch):
    def half(path, data):
        with path.open("wb") as file:
            file.write(data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(InputError, match="No space left"):
        cubins.build(carried, ["sm_90"], FAKE)
    assert list(carried.iterdir()) == []


def test_units_are_whole_steps_and_known_kernels():
    known = {variant for family in kernel_catalogue.every().values() for variant in family}
    every = units.common_units()
    assert {variant for unit in every for variant in unit} <= known
    assert all(units.units_of(unit) == [unit] for unit in every)
    for unit in (template.TRIMMING, template.PADDED_CSR):
        assert [units.units_of([variant]) for variant in unit] == [[unit]] * len(unit)


@pytest.mark.parametrize(("engine", "method"), [("cuda_fused", "power"), ("cuda", "power"), ("cuda", "refine")])
@pytest.mark.parametrize("graph", ["rmat:scale=9,edge_factor=8,seed=1", "grid:rows=20,columns=20"])
def test_wheels_carry_the_kernels_of_calls_with_default_arguments(host_backend, monkeypatch, engine, method, graph):
    """Units of what is asked for at once, since a cubin is found by the whole text of its unit."""
    asked, compile_all = {}, type(host_backend).compile

    def compile_some(backend, wanted):
        new = [variant for variant in wanted if variant not in asked]
        asked.update((variant, unit) for unit in units.units_of(new) for variant in unit)
        compile_all(backend, new)

    monkeypatch.setattr(type(host_backend), "compile", compile_some)
    monkeypatch.setattr(DeviceEngine, "missing", lambda _: None)
    with using(host_backend):
        assert cpms.pagerank(cpms.generate(graph), engine=engine, method=method).converged
    assert asked
    assert not {*asked.values()} - {*units.common_units()}


class Module:
    """A module of CuPy; a driver refuses the cubins that ``refuses`` names."""

    def __init__(self, taken, refuses, path=None, **_):
        self.what, self.refuses = path or "compiled", refuses
        self.compile = lambda: taken.append("compiled")

    def get_function(self, name):
        if self.refuses and self.what != "compiled":
            raise ValueError(f"no binary of {name} for this GPU")
        return self.what


@pytest.mark.parametrize("refuses", [False, True])
def test_a_shipped_cubin_is_loaded_and_one_that_the_driver_refuses_is_compiled(carried, refuses):
    made, taken = cubins.build(carried, ["sm_90"], FAKE), []
    backend = CudaBackend.__new__(CudaBackend)
    here = SimpleNamespace(compute_capability="90")

    class Device:
        def __init__(self, number):
            assert number == 0

        def __enter__(self):
            return here

        def __exit__(self, *_):
            pass

    cuda = SimpleNamespace(
        Device=Device,
        nvrtc=SimpleNamespace(getVersion=lambda: (13, 5)),
        driver=SimpleNamespace(CUDADriverError=ValueError),
        compiler=SimpleNamespace(CompileException=KeyError),
    )
    backend.arrays = SimpleNamespace(cuda=cuda, RawModule=lambda **given: Module(taken, refuses, **given))
    module = backend._module(template.CONTRIBUTIONS, 0)
    assert taken == (["compiled"] if refuses else [])
    assert (module.what == "compiled") == refuses
    assert refuses or str(carried) in module.what
    assert made


def test_nvrtc_makes_a_cubin_without_a_driver():
    pytest.importorskip("cuda.bindings.nvrtc", reason="cuda-bindings is not installed", exc_type=ImportError)
    try:
        major, compiled = cubins.installed_nvrtc()
    except RuntimeError as error:
        pytest.skip(f"nvidia-cuda-nvrtc is not installed: {error}")
    binary = compiled(template.program(template.CONTRIBUTIONS), ("-arch=sm_90", *cubins.OPTIONS))
    assert major >= 12
    assert all(variant.symbol.encode() in binary for variant in template.CONTRIBUTIONS)
