"""The tree keeps the rules of the house, and each rule finds its faults.

The tree is this repository's, or that of ``CPMS_TREE``: ``CPMS_TREE=/some/checkout pytest tests/test_structure.py``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest
from house_rules import BELOW, MOST_FILES, MOST_FLAT, MOST_FLOORS, MOST_KERNEL_LINES, MOST_LINES, MOST_ROOMS, RULES
from import_tree import Tree, python_files

TREE = Path(os.environ.get("CPMS_TREE") or Path(__file__).parents[1])


@cache
def tree_of(root: Path) -> Tree:
    return Tree(root)


@pytest.mark.quick
@pytest.mark.parametrize("rule", RULES)
def test_the_tree_keeps(rule: str) -> None:
    faults = list(RULES[rule](tree_of(TREE)))
    assert not faults, f"{rule}:\n" + "\n".join(faults)


@pytest.mark.quick
def test_every_folder_of_cpms_is_a_room() -> None:
    folders = {path.relative_to(TREE / "cpms").parts[0] for path in python_files(TREE) if path.parent != TREE / "cpms"}
    assert folders <= set(BELOW)


# The checker itself, on trees made up for it: green where all is well, and red for each fault by its own rule.

SOUND = {
    "cpms/__init__.py": "from importlib import import_module\n"
    "_HOMES = {'FP16': 'formats.named', 'solve_it': 'api.linear.solve'}\n"
    "def __getattr__(name):\n    return import_module(f'cpms.{_HOMES[name]}')\n",
    "cpms/formats/__init__.py": "",
    "cpms/formats/named.py": "from cpms.base import errors\nFP16 = 1\n",
    "cpms/base/__init__.py": "",
    "cpms/base/errors.py": "class CpmsError(Exception): ...\n",
    "cpms/graph/__init__.py": "def dangling_nodes(graph): ...\n",
    "cpms/storage/__init__.py": "",
    "cpms/base/device_modules.py": "def device_module(service): ...\n",
    "cpms/storage/device.py": "from cpms.base.device_modules import device_module\n",
    "cpms/contracts/__init__.py": "",
    "cpms/solvers/__init__.py": "",
    "cpms/solvers/power.py": "from typing import TYPE_CHECKING\nfrom cpms import contracts\n",
    "cpms/certify/__init__.py": "",
    "cpms/certify/residual.py": "from ..contracts import anything\n",
    "cpms/backends/__init__.py": "",
    "cpms/backends/cuda/__init__.py": "",
    "cpms/backends/cuda/codec.py": "import cupy\nimport cpms.storage.device\n",
    "cpms/backends/mpi/__init__.py": "",
    "cpms/backends/mpi/rows.py": "from cpms.backends.cuda import codec\n",
    "cpms/api/__init__.py": "",
    "cpms/api/solve.py": "from cpms.backends.cuda import codec\nfrom cpms.formats.named import FP16\n",
    "cpms/format.py": "from cpms.formats.named import FP16 as FP16\n",
    "kernels/cuda/base/memory.cuh": "",
    "kernels/cuda/persistent/walk.cuh": '#include "base/memory.cuh"\n#include <cub/cub.cuh>\n',
    "kernels/cuda/pagerank/refine.cu": '#include "persistent/walk.cuh"\n',
}
SOUND_ROOMS = 10
LATER = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    "
INSIDE = "def later():\n    from importlib import import_module\n    "
FAULTS: dict[str, list[tuple[str, str, str]]] = {
    "rooms know only what the table lets them know": [
        ("upwards", "cpms/formats/named.py", "import cpms.storage\n"),
        ("not in the table though below", "cpms/solvers/power.py", "from cpms import graph\n"),
        ("relative", "cpms/formats/named.py", "from ..storage import device\n"),
        ("relative to the package", "cpms/formats/__init__.py", "from .. import storage\n"),
        ("a name from the lazy table", "cpms/solvers/power.py", "from cpms import solve_it\n"),
        ("in a function", "cpms/formats/named.py", INSIDE + "from cpms.graph import dangling_nodes\n"),
        ("for types alone", "cpms/formats/named.py", LATER + "from cpms.graph import dangling_nodes\n"),
        ("by a string", "cpms/formats/named.py", INSIDE + "import_module('cpms.graph')\n"),
        ("by a string in parts", "cpms/formats/named.py", INSIDE + "import_module(f'cpms.graph.{1}')\n"),
        ("by a relative string", "cpms/formats/named.py", INSIDE + "import_module('..graph', __package__)\n"),
        ("of the whole package", "cpms/formats/named.py", "import cpms\n"),
        ("a face that nobody below may use", "cpms/solvers/power.py", "import cpms.format\n"),
        ("no room", "cpms/attic/old.py", "from cpms.base import errors\n\ndef old(): ...\n"),
    ],
    "rooms of backends/cuda know only what is below them": [
        ("upwards", "cpms/backends/cuda/runtime/launch.py", "from cpms.backends.cuda.batch import core\n"),
        ("beside", "cpms/backends/cuda/certificate/sums.py", "import cpms.backends.cuda.spmv\n"),
    ],
    "1. formats, storage, sparse, precision and analysis never name PageRank": [
        ("a parameter", "cpms/formats/named.py", "def f(damping): ...\n"),
        ("an attribute", "cpms/storage/device.py", "def f(problem):\n    return problem.teleport\n"),
        ("a class", "cpms/precision/plan.py", "class PageRankPlan: ...\n"),
    ],
    "2. solvers and certify never import backends or engines": [
        ("solvers", "cpms/solvers/power.py", INSIDE + "import cpms.backends.cuda\n"),
        ("certify", "cpms/certify/residual.py", LATER + "from cpms.engines import registry\n"),
    ],
    "3. certify shares no code with solvers and backends": [
        ("certify", "cpms/certify/residual.py", "from cpms.solvers import power\n"),
        ("backends", "cpms/backends/cuda/codec.py", "from cpms.certify import residual\n"),
    ],
    "4. kernels that know no PageRank include none": [
        ("base", "kernels/cuda/base/memory.cuh", '#include "pagerank/refine.cu"\n'),
        ("convert", "kernels/cuda/convert/convert.cu", '#include "pagerank/refine.cu"\n'),
        ("persistent", "kernels/cuda/persistent/walk.cuh", '  # include "pagerank/refine.cu"\n'),
        ("not from the root", "kernels/cuda/persistent/other.cuh", '#include "walk.cuh"\n'),
        ("certificate", "kernels/cuda/certificate/sums.cu", '#include "persistent/walk.cuh"\n'),
    ],
    "5. device code is used below backends through storage/device.py alone": [
        ("a library", "cpms/storage/other.py", INSIDE + "import cupy as cp\n"),
        ("by a string", "cpms/sparse/other.py", INSIDE + "import_module('cupyx')\n"),
        ("of Numba", "cpms/solvers/power.py", "from numba.cuda import jit\n"),
        ("a backend", "cpms/storage/device.py", INSIDE + "from cpms.backends.cuda import codec\n"),
        ("its services", "cpms/sparse/other.py", "from cpms.base.device_modules import device_module\n"),
    ],
    "6. no circle of imports": [
        ("two files", "cpms/base/errors.py", "from cpms.formats import named\n"),
        ("for types alone", "cpms/base/errors.py", LATER + "from cpms.formats.named import FP16\n"),
        ("in a function", "cpms/base/errors.py", INSIDE + "import_module('cpms.formats.named')\n"),
        ("by the lazy table", "cpms/base/errors.py", "from cpms import FP16\n"),
        ("by the package", "cpms/base/errors.py", INSIDE + "import cpms\n"),
    ],
    "no circle of rooms": [("two backends", "cpms/backends/cuda/codec.py", INSIDE + "import cpms.backends.mpi\n")],
    "the house has few rooms": [
        *((f"{MOST_ROOMS + 1}", f"cpms/r{k}/__init__.py", "") for k in range(MOST_ROOMS - SOUND_ROOMS)),
        ("flat", "cpms/flat.py", "def f(): ...\n"),
    ],
    "the house has few floors": [
        (f"{MOST_FLOORS + 1}", f"cpms/r{k}/__init__.py", LATER + f"import cpms.r{k + 1}\n")
        for k in range(MOST_FLOORS + 1)
    ],
    "no circle of includes": [("two files", "kernels/cuda/base/memory.cuh", '#include "persistent/walk.cuh"\n')],
    "files are short": [
        ("Python", "cpms/api/long.py", "x = 1\n" * (MOST_LINES + 1)),
        ("a kernel", "kernels/cuda/base/long.cuh", "\n" * (MOST_KERNEL_LINES + 1)),
    ],
    "folders have few files": [("16", f"cpms/api/f{k}.py", "") for k in range(MOST_FILES)],
    "cpms has few flat modules": [("7", f"cpms/f{k}.py", "def f(): ...\n") for k in range(MOST_FLAT + 1)],
}
TOGETHER = (
    *("folders have few files", "cpms has few flat modules"),
    *("the house has few rooms", "the house has few floors"),
)
SINGLE = [
    pytest.param(rule, file, text, id=f"{rule}: {what}")
    for rule, faults in FAULTS.items()
    if rule not in TOGETHER
    for what, file, text in faults
]


def planted(root: Path, added: Iterable[tuple[str, str]]) -> Tree:
    """Make the sound tree, with some more lines in some files."""
    texts = dict(SOUND)
    for file, text in added:
        texts[file] = texts.get(file, "") + text
    for file, text in texts.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(text)
    return Tree(root)


@pytest.mark.quick
def test_a_sound_tree_has_no_fault(tmp_path: Path) -> None:
    tree = planted(tmp_path, [])
    assert {rule: list(check(tree)) for rule, check in RULES.items()} == {rule: [] for rule in RULES}


@pytest.mark.quick
@pytest.mark.parametrize(("rule", "file", "text"), SINGLE)
def test_each_fault_is_found(tmp_path: Path, rule: str, file: str, text: str) -> None:
    (fault, *_) = RULES[rule](planted(tmp_path, [(file, text)]))
    assert Path(file).name in fault


@pytest.mark.quick
@pytest.mark.parametrize("rule", TOGETHER)
def test_too_many_files_are_found(tmp_path: Path, rule: str) -> None:
    files = [(file, text) for _, file, text in FAULTS[rule]]
    assert not list(RULES[rule](planted(tmp_path / "fewer", files[:-2])))
    assert len(list(RULES[rule](planted(tmp_path / "all", files)))) == 1


@pytest.mark.quick
def test_every_rule_has_been_broken() -> None:
    assert set(FAULTS) == set(RULES)
