"""`import cpms` is light: heavy libraries load when they are first used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import cpms

pytestmark = pytest.mark.quick

HEAVY = ["numba", "cupy", "pandas", "matplotlib", "scipy", "pydantic", "hypothesis", "pyopencl", "mpi4py", "networkx"]


def loaded_after(statement):
    program = f"import sys\n{statement}\nprint(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import_loads_no_heavy_library():
    assert loaded_after("import cpms").isdisjoint([*HEAVY, "numpy"])


@pytest.mark.parametrize(
    "statement",
    [
        "from cpms import CPMS4, format_named, Level, Threshold",
        "from cpms import CpmsError, Result, Status, encode, convert_inplace",
        "from cpms import Graph",
        "from cpms import pagerank",
        "import cpms.analysis.rankings, cpms.engines; cpms.engines.names()",
    ],
)
def test_names_load_no_more_than_they_need(statement):
    assert loaded_after(statement).isdisjoint(HEAVY)


@pytest.mark.parametrize("name", cpms.__all__)
def test_every_public_name_exists(name):
    assert getattr(cpms, name) is not None
    assert name in dir(cpms)


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = cpms.nothing_of_the_kind


@pytest.mark.parametrize("module", [cpms, cpms.check, cpms.refine, cpms.testing], ids=lambda module: module.__name__)
def test_dir_shows_public_names_alone(module):
    shown = set(dir(module))
    modules = {"check", "datasets", "engines", "generators", "refine", "testing"} if module is cpms else set()
    assert shown == {*module.__all__, *modules}
    assert all(hasattr(module, name) for name in shown)


def test_a_small_solve_on_the_command_line_loads_neither_linear_algebra_nor_downloads():
    program = "from cpms.cli.main import main; main(['rank', 'grid:rows=3,columns=3', '--engine', 'cpu', '--json'])"
    assert loaded_after(program).isdisjoint(["scipy.linalg", "scipy.sparse", "pooch", "pandas", "networkx"])


def test_cached_loops_load_nothing_that_only_compilation_needs():
    program = "from cpms.cli.main import main; main(['rank', 'grid:rows=3,columns=3', '--engine', 'cpu', '--json'])"
    loaded_after(program)  # Its loops are in the cache from now on.
    assert loaded_after(program).isdisjoint(["numba.np.arraymath", "cpms.backends.cpu.refinement"])


def test_modules_for_users_load_when_they_are_named():
    assert "cpms.precision.refinement_policy" not in loaded_after("import cpms")
    assert "cpms.precision.refinement_policy" in loaded_after("import cpms; cpms.AdaptiveReduction((cpms.FP16,))")


OPTIONAL = {
    "cupy": ("cpms.pagerank(graph, engine='cuda')", "pip install 'cpms[cuda13]'"),
    "mpi4py": ("cpms.pagerank(graph, engine='mpi')", "pip install 'cpms[mpi]'"),
    "pyopencl": ("cpms.pagerank(graph, engine='opencl')", "pip install 'cpms[opencl]'"),
    "networkx": ("cpms.load('graph.gml')", "pip install networkx"),
    "backports": ("cpms.load('graph.txt.zst')", "pip install backports.zstd"),
    "igraph": ("cpms.load('reordered:of=rmat:scale=4,by=communities')", "pip install igraph"),
    "pyamg": ("import_module('cpms.sources.matrices').generate('pyamg:airfoil')", "pip install pyamg"),
    "skfem": ("import_module('cpms.sources.matrices').generate('elements:points=20')", "pip install scikit-fem"),
    "hypothesis": ("cpms.testing.finite_floats", "pip install hypothesis"),
    "cuda": ("import_module('cpms.backends.cuda.kernels.cubins').installed_nvrtc()", "pip install cuda-bindings"),
}


def test_what_needs_an_absent_library_says_how_to_install_it(tmp_path):
    (tmp_path / "graph.gml").write_text("graph [ ]")
    (tmp_path / "graph.txt.zst").write_bytes(bytes.fromhex("28b52ffd"))
    program = [
        "import sys",
        "from importlib import import_module",
        f"sys.modules.update(dict.fromkeys({[*OPTIONAL, 'compression.zstd']}))",
        "import cpms",
        "graph = cpms.load('grid:rows=3,columns=3')",
        f"for call in {[call for call, _ in OPTIONAL.values()]}:",
        "    try:",
        "        print(eval(call))",
        "    except cpms.UnavailableError as error:",
        "        print(str(error))",
    ]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(program)], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    for sentence, (_, command) in zip(done.stdout.splitlines(), OPTIONAL.values(), strict=True):
        assert command in sentence
