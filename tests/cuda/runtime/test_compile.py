"""Kernel variants compile through NVRTC, which needs no GPU: a cover of them, and all in slow tests."""

import shutil
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import kernel_catalogue
import pytest

from cpms import engines
from cpms.backends.cuda.kernels import batched, persistent, source, streaming, template, units
from cpms.backends.cuda.kernels.launch_shape import SHAPES
from cpms.backends.cuda.runtime import compile as compiling
from cpms.backends.cuda.runtime.backend import Backend
from cpms.backends.cuda.runtime.current import using
from cpms.base.errors import CpmsError
from cpms.formats.formats import CPMS2, E5M2, FP16, FP32, FP64, SegmentFormat
from cpms.graph.graph import Graph

nvrtc = pytest.importorskip("cuda.bindings.nvrtc", reason="cuda-bindings is not installed", exc_type=ImportError)

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
GROUPS = kernel_catalogue.every()
CARRIED_BY_WHEELS = {variant for unit in units.common_units() for variant in unit}
FAST = (b"--Ofast-compile=max",)
# Compiled as they run on the architecture that measurements were committed of, all else in NVRTC's fast mode: groups
# of kernels that compile soon, of two groups one variant of each kernel, and of the others those that wheels carry.
AS_THEY_RUN = ("fp64", "cpms2", "cpms4", "coo", "reduce_by_key", "topk", "rounding", "krylov", "helpers")


def one_of_each(variants):
    """Return the first variant of each kernel."""
    return list({variant.kernel: variant for variant in reversed(variants)}.values())


SOME_AS_THEY_RUN = {
    group: found
    for group, variants in GROUPS.items()
    if group not in AS_THEY_RUN and (found := [each for each in variants if each in CARRIED_BY_WHEELS])
}
SOME_AS_THEY_RUN |= {group: one_of_each(GROUPS[group]) for group in ("batches", "products")}


def compiled(text, architecture, *options):
    """Return NVRTC's status, its log, and machine code, or PTX for a virtual architecture."""
    try:
        status, program = nvrtc.nvrtcCreateProgram(text.encode(), b"kernels.cu", 0, [], [])
    except RuntimeError as error:
        pytest.skip(f"nvidia-cuda-nvrtc is not installed: {error}")
    given = [f"-arch={architecture}".encode(), *(o.encode() for o in compiling.OPTIONS), b"-default-device", *options]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(given), given)
    # NVRTC writes into these: at least two bytes, since Python shares bytes objects of length 1.
    log = bytes(nvrtc.nvrtcGetProgramLogSize(program)[1] + 2)
    nvrtc.nvrtcGetProgramLog(program, log)
    kind = "PTX" if architecture.startswith("compute") else "CUBIN"
    binary_size = getattr(nvrtc, f"nvrtcGet{kind}Size")(program)[1]
    binary = bytes(binary_size + 2)
    if binary_size:
        getattr(nvrtc, f"nvrtcGet{kind}")(program, binary)
    nvrtc.nvrtcDestroyProgram(program)
    return int(status), log.rstrip(b"\0").decode(), binary[:binary_size]


def headers_of_cub():
    """Return NVRTC's options for the headers that come with CuPy, or in a package of their own."""
    cupy, nvidia = find_spec("cupy"), find_spec("nvidia")
    roots = []
    if cupy and cupy.origin:
        bundled = Path(cupy.origin).parent / "_core" / "include" / "cupy" / "_cccl"
        roots = [bundled / "libcudacxx", bundled / "thrust", bundled / "cub"]
    if not all(root.is_dir() for root in roots or [Path("missing")]):
        packaged = nvidia.submodule_search_locations if nvidia else []
        roots = [found for place in packaged for found in Path(place).glob("cu*/include/cccl")]
    if not roots:
        pytest.skip("the headers of CUB are not installed; install nvidia-cuda-cccl")
    return [f"-I{root}".encode() for root in roots]


def cover():
    """Return, by group, a variant of each kernel: the first one."""
    chosen, known = {}, set()
    for group, variants in GROUPS.items():
        for variant in variants:
            if variant.kernel not in known:
                known.add(variant.kernel)
                chosen.setdefault(group, []).append(variant)
    return chosen


COVER = cover()
TO_MACHINE_CODE = ("fp64", "direct gather", "products", "helpers")


def compiles(wanted, architecture, *options):
    with_cub = any(variant.kernel in kernel_catalogue.REDUCE_BY_KEY for variant in wanted)
    status, log, binary = compiled(
        template.program(wanted), architecture, *options, *(headers_of_cub() if with_cub else [])
    )
    assert status == 0, log
    assert "warning" not in log
    for variant in wanted:
        assert variant.symbol.encode() in binary


@pytest.mark.parametrize("group", COVER)
def test_each_kernel_compiles(group):
    # To PTX, in a third of the time: some, and in slow tests every variant, to machine code.
    compiles(COVER[group], "sm_90" if group in TO_MACHINE_CODE else "compute_90", *FAST)


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_variant_compiles(architecture, group):
    wanted, some = GROUPS[group], one_of_each(GROUPS[group])
    if architecture == "sm_90":  # The next test compiles the rest of them there.
        rest = [variant for variant in wanted if variant not in SOME_AS_THEY_RUN.get(group, [])]
        compiles(rest, architecture, *(() if group in AS_THEY_RUN else FAST))
    elif 2 * len(some) > len(wanted):
        compiles(wanted, architecture, *FAST)
    else:  # To PTX takes a third of the time, and finds all but what assemblers refuse.
        compiles(wanted, architecture.replace("sm", "compute"), *FAST)
        compiles(some, architecture, *FAST)


@pytest.mark.slow
@pytest.mark.parametrize("group", SOME_AS_THEY_RUN)
def test_kernels_that_wheels_carry_or_one_of_each_compile_as_they_run(group):
    compiles(SOME_AS_THEY_RUN[group], "sm_90")


@pytest.mark.quick
def test_the_cover_leaves_no_kernel_out():
    covered = [variant.kernel for group in COVER.values() for variant in group]
    assert sorted(covered) == sorted(template._FILES)


@pytest.mark.parametrize("storage", [FP16, E5M2, FP32], ids=lambda storage: storage.name)
def test_turing_has_what_fits_in_its_shared_memory(storage):
    shape = SHAPES[24]
    wanted = [
        *(
            persistent.persistent_refine(storage, shape, personal=False),
            persistent.persistent_power(shape, personal=False),
        ),
        *batched.batch_inner_sweeps(storage, 4),
    ]
    status, log, _ = compiled(template.program(wanted), "sm_75", *FAST)
    assert status == 0, log


@pytest.mark.quick
def test_engines_ask_for_nothing_else():
    assert set(GROUPS) >= set(AS_THEY_RUN)
    graph = Graph.from_edges([0], [1])
    known = {variant.symbol for group in GROUPS.values() for variant in group}
    for storage in (FP64, CPMS2):
        for layout in engines.get_any("cuda").layouts:
            for engine in (engines.get_any("cuda_thread_rows"), engines.get_any("cuda_balanced_rows")):
                kernel = engine.kernel(graph, layout)
                wanted = streaming.composed_sweeps(kernel, storage, pattern=layout == "pattern")
                assert {variant.symbol for variant in wanted} <= known


@pytest.mark.parametrize("engine", ["coo_streams", "coo_basic", "reduce_by_key"])
def test_engines_in_coo_ask_for_nothing_else(engine):
    known = {variant.symbol for name in ("coo", "reduce_by_key") for variant in GROUPS[name]}
    for real in template.AFFINE:
        assert {v.symbol for v in engines.get_any(engine).system.variants(real)} <= known


@pytest.mark.quick
def test_symbols_tell_variants_apart():
    instances = {}
    for group in GROUPS.values():
        for variant in group:
            assert instances.setdefault(variant.symbol, variant.instance) == variant.instance


@pytest.mark.quick
def test_an_edited_header_is_another_source(tmp_path, monkeypatch):
    edited = tmp_path / "cuda"
    shutil.copytree(source.folder(), edited)
    wanted = [streaming.scale(FP64, 1)]
    before = template.program(wanted)
    monkeypatch.setattr(source, "folder", lambda: edited)
    assert template.program(wanted) == before
    with (edited / "base/words.cuh").open("a") as header:
        header.write("// one more line\n")
    assert source.digest(template.program(wanted)) != source.digest(before)


def test_compile_errors_name_file_and_line(tmp_path, monkeypatch):
    edited = tmp_path / "cuda"
    shutil.copytree(source.folder(), edited)
    text = (edited / "base/segmented_storage.cuh").read_text()
    line = text[: text.index("CPMS_CONSTANT int least")].count("\n") + 1
    (edited / "base/segmented_storage.cuh").write_text(
        text.replace("CPMS_CONSTANT int least", "CPMS_CONSTANT what least", 1)
    )
    monkeypatch.setattr(source, "folder", lambda: edited)
    status, log, _ = compiled(template.program([streaming.scale(FP64, 1)]), "sm_90")
    assert status != 0
    assert f"base/segmented_storage.cuh({line}): error" in log


class BrokenModule:
    def compile(self):
        raise FakeCuPy.CompileError('base/segmented_storage.cuh(7): error: identifier "what" is undefined')


class FakeCuPy:
    class CompileError(Exception):
        pass

    class cuda:  # noqa: N801
        nvrtc = SimpleNamespace(getVersion=lambda: (13, 5))
        driver = SimpleNamespace(CUDADriverError=ValueError)
        compiler = SimpleNamespace()

        class Device:
            compute_capability = "90"

            def __init__(self, number):
                pass

            def __enter__(self):
                return self

            def __exit__(self, *_):
                pass

    @staticmethod
    def RawModule(**_):  # noqa: N802
        return BrokenModule()


def test_a_kernel_that_does_not_compile_is_a_sentence_with_the_log():
    FakeCuPy.cuda.compiler.CompileException = FakeCuPy.CompileError
    backend = compiling.CudaBackend.__new__(compiling.CudaBackend)
    backend.arrays, backend._functions, backend.current_device = FakeCuPy, {}, lambda: 0
    with using(backend), pytest.raises(CpmsError, match=r"scale__w64.*do not compile:\n.*segmented_storage.cuh\(7\)"):
        backend.compile([streaming.scale(FP64, 1)])
    assert isinstance(backend, Backend)


def test_tiles_are_only_for_formats_with_wide_runs():
    for widths, block, tile in (
        ((32, 32), 32, 128),
        ((16, 16, 32), 64, 128),
        ((8,) * 8, 128, 512),
        ((32, 32), 33, 0),
        ((32, 32), None, 0),
        ((32, 32), 256, 0),
        ((64,), None, 0),
    ):
        assert streaming.tile_values(SegmentFormat("tried", widths, block)) == tile
