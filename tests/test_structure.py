"""Which room may know which, read from the files: imports of any kind, includes of kernels, and sizes.

The tree is this repository's, or that of ``CPMS_TREE``: ``CPMS_TREE=/some/checkout pytest tests/test_structure.py``.
"""

from __future__ import annotations

import ast
import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import networkx
import pytest

TREE = Path(os.environ.get("CPMS_TREE") or Path(__file__).parents[1])

# The rooms of cpms, from the lowest to the highest, and what each may import besides itself.
BELOW: dict[str, set[str]] = {
    "base": set(),
    "formats": {"base"},
    "graph": {"base"},
    "storage": {"formats", "base"},
    "precision": {"formats", "base"},
    "sources": {"graph", "base"},
    "sparse": {"storage", "graph", "formats", "base"},
    "analysis": {"storage", "base"},
    "problems": {"sparse", "graph", "storage", "base"},
    "contracts": {"problems", "sparse", "precision", "formats", "base"},
    "certify": {"contracts", "problems", "graph", "base"},
    # The types that contracts hand to solvers: a format, a problem.
    "solvers": {"certify", "contracts", "problems", "precision", "formats", "base"},
}
for _room in ("backends", "engines", "api"):
    BELOW[_room] = set(BELOW)
for _room in ("mpi", "check", "testing"):
    BELOW[_room] = set(BELOW) - {"mpi", "check", "testing"}
for _room in ("experiment", "cli"):
    BELOW[_room] = set(BELOW)
for _room in ("mpi", "check", "testing", "experiment", "cli"):
    BELOW[_room].add("")  # The package itself, for its version and its public names.
BELOW["refine"] = {"precision", "formats", "base"}  # An old path with old parameters, for one release.
# Inside backends/cuda; what it has besides may import all of these.
BELOW_IN_CUDA: dict[str, set[str]] = {}
for _room in ("kernels", "runtime", "arrays", "spmv", "persistent", "reduction", "batch"):
    BELOW_IN_CUDA[_room] = set(BELOW_IN_CUDA)
for _room in ("graphs", "certificate"):
    BELOW_IN_CUDA[_room] = {"kernels", "runtime", "arrays"}

DOOR = "cpms/storage/device.py"
"""The one file below ``backends`` that loads device code."""
DEVICE_LIBRARIES = {"cupy", "cupyx", "pyopencl", "cuda"}
KNOW_NO_PAGERANK = ("formats", "storage", "sparse", "precision", "analysis")
OF_PAGERANK = re.compile(r"damping|teleport|dangling|pagerank|page_rank", re.IGNORECASE)
OF_GRAPHS = {"dangling_nodes"}
KERNELS_WITHOUT_PAGERANK = ("base", "convert", "persistent")
MOST_FILES, MOST_LINES, MOST_KERNEL_LINES, MOST_FLAT = 15, 400, 350, 6
MOST_ROOMS, MOST_FLOORS = 26, 15
KERNEL_ENDINGS = {".cu", ".cuh", ".hpp", ".h"}


@dataclass(frozen=True)
class Import:
    """A file imports a module, at a line."""

    file: str
    line: int
    module: str
    """A whole dotted name; what cannot be known before it runs is cut off."""


def python_files(root: Path) -> list[Path]:
    return sorted(p for p in (root / "cpms").rglob("*.py") if not {"_shipped", "__pycache__"} & set(p.parts))


def module_name(root: Path, path: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


class Tree:
    """The modules of a checkout, and who imports whom."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.parsed = {path: ast.parse(path.read_text(encoding="utf-8")) for path in python_files(root)}
        self.files = {module_name(root, path): path for path in self.parsed}
        self.tables = {name: self._lazy_table(name) for name in self.files}
        self.imports = [found for name in self.files for found in self._imports(name)]

    def relative(self, module: str) -> str:
        return self.files[module].relative_to(self.root).as_posix()

    def is_face(self, module: str) -> bool:
        """Whether a file does nothing but pass names on: it defines no class, and no function but for lazy names."""
        parsed = self.parsed[self.files[module]]
        functions = {node.name for node in parsed.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        passes_on = any(isinstance(node, ast.Import | ast.ImportFrom) for node in parsed.body)
        classes = any(isinstance(node, ast.ClassDef) for node in parsed.body)
        return passes_on and not classes and functions <= {"__getattr__", "__dir__"}

    def home(self, module: str, name: str) -> str:
        """Return the module that ``from module import name`` loads."""
        for candidate in (f"{module}.{name}", self.tables.get(module, {}).get(name)):
            if candidate in self.files:
                return candidate
        return module

    def _package(self, module: str) -> str:
        return module if self.files[module].name == "__init__.py" else module.rpartition(".")[0]

    def _lazy_table(self, module: str) -> dict[str, str]:
        """Return where names come from that a module looks up in a table of text when they are first used."""
        table: dict[str, str] = {}
        body = self.parsed[self.files[module]].body
        if not any(isinstance(node, ast.FunctionDef) and node.name == "__getattr__" for node in body):
            return table
        for node in body:
            value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            if not isinstance(value, ast.Dict):
                continue
            for key, place in zip(value.keys, value.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(place, ast.Constant) and isinstance(place.value, str):
                    text = place.value.lstrip(".")
                    found = (f"{self._package(module)}.{text}", f"cpms.{text}", text)
                    table |= {str(key.value): name for name in reversed(found) if name in self.files}
        return table

    def _imports(self, module: str) -> Iterator[Import]:
        file = self.relative(module)
        lazy_homes = sorted(set(self.tables[module].values()) - {module})
        yield from (Import(file, 1, home) for home in lazy_homes)
        for node in ast.walk(self.parsed[self.files[module]]):
            for name in self._names(module, node):
                if name != module:
                    yield Import(file, getattr(node, "lineno", 1), name)

    def _names(self, module: str, node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = self._absolute(module, "." * node.level + (node.module or ""))
            yield from (self.home(source, alias.name) for alias in node.names)
        elif isinstance(node, ast.Call) and node.args:
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ("import_module", "__import__"):
                name, whole = beginning(node.args[0])
                if name:
                    name = self._absolute(module, name)
                    yield name if whole else name.rpartition(".")[0] or name

    def _absolute(self, module: str, name: str) -> str:
        level = len(name) - len(name.lstrip("."))
        if not level:
            return name
        package = self._package(module).split(".")
        kept = package[: len(package) - level + 1]
        return ".".join([*kept, *([name[level:]] if name[level:] else [])])


def beginning(text: ast.expr) -> tuple[str, bool]:
    """Return the constant beginning of a text, and whether that is all of it."""
    if isinstance(text, ast.Constant) and isinstance(text.value, str):
        return text.value, True
    if isinstance(text, ast.JoinedStr) and text.values:
        return beginning(text.values[0])[0], False
    if isinstance(text, ast.BinOp):
        return beginning(text.left)[0], False
    return "", False


def room_of(module: str) -> str:
    """Return the first folder or flat module below cpms; empty for cpms itself."""
    parts = module.split(".")
    return parts[1] if parts[0] == "cpms" and len(parts) > 1 else ""


def spine(tree: Tree) -> Iterator[str]:
    """Yield imports of a room that may not know the other."""
    for found in tree.imports:
        module = module_name(tree.root, tree.root / found.file)
        room, other = room_of(module), room_of(found.module)
        if found.module.split(".")[0] != "cpms" or not room or room == other or is_door(found):
            continue
        if room not in BELOW and tree.is_face(module):
            continue
        if room not in BELOW:
            yield f"{found.file}: no room is called {room}"
        elif other not in BELOW[room]:
            yield f"{found.file}:{found.line}: {room} -> {other or 'cpms'} ({found.module})"


def cuda_spine(tree: Tree) -> Iterator[str]:
    """Yield imports inside ``backends/cuda`` of a room that may not know the other."""
    inside = "cpms.backends.cuda."
    for found in tree.imports:
        module = module_name(tree.root, tree.root / found.file)
        if not (module.startswith(inside) and found.module.startswith(inside)):
            continue
        room, other = (name.removeprefix(inside).split(".")[0] for name in (module, found.module))
        if room in BELOW_IN_CUDA and other != room and other not in BELOW_IN_CUDA[room]:
            yield f"{found.file}:{found.line}: backends/cuda/{room} -> {other} ({found.module})"


def is_door(found: Import) -> bool:
    return found.file == DOOR and room_of(found.module) == "backends"


def names_of_pagerank(tree: Tree) -> Iterator[str]:
    """Yield identifiers of PageRank in rooms that are for any problem."""
    for module, path in tree.files.items():
        if room_of(module) not in KNOW_NO_PAGERANK:
            continue
        for node in ast.walk(tree.parsed[path]):
            for name in identifiers(node):
                if OF_PAGERANK.search(name) and name not in OF_GRAPHS:
                    yield f"{tree.relative(module)}:{getattr(node, 'lineno', 1)}: {name}"


def identifiers(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node of syntax defines or uses."""
    for field in ("id", "attr", "arg", "name", "asname", "module"):
        value = getattr(node, field, None)
        if isinstance(value, str):
            yield value


def imports_of(tree: Tree, rooms: Iterable[str], others: Iterable[str]) -> Iterator[str]:
    """Yield imports by rooms of modules, or of anything in them."""
    rooms, others = set(rooms), tuple(others)
    for found in tree.imports:
        hit = any(found.module == other or found.module.startswith(f"{other}.") for other in others)
        if hit and room_of(module_name(tree.root, tree.root / found.file)) in rooms:
            yield f"{found.file}:{found.line}: {found.module}"


def solvers_know_backends(tree: Tree) -> Iterator[str]:
    yield from imports_of(tree, ("solvers", "certify"), ("cpms.backends", "cpms.engines"))


def certify_shares_code(tree: Tree) -> Iterator[str]:
    yield from imports_of(tree, ("certify",), ("cpms.solvers",))
    yield from imports_of(tree, ("backends",), ("cpms.certify.residual",))


def device_code_below_backends(tree: Tree) -> Iterator[str]:
    """Yield what loads device code below ``backends``, but for the door."""
    low = list(BELOW["backends"])
    for found in imports_of(tree, low, (*DEVICE_LIBRARIES, "numba.cuda", "cpms.backends")):
        if found.split(":")[0] != DOOR:
            yield found


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Return the sets of nodes that reach each other, and nodes with an edge to themselves."""
    graph = networkx.DiGraph([(node, other) for node, others in edges.items() for other in others])
    found = [sorted(part) for part in networkx.strongly_connected_components(graph) if len(part) > 1]
    return sorted([*found, *([node] for node in networkx.nodes_with_selfloops(graph))])


def import_circles(tree: Tree) -> Iterator[str]:
    """Yield circles of files, whatever kind of import closes them; but not those through the door."""
    edges: dict[str, set[str]] = {}
    for found in tree.imports:
        if found.module in tree.files and not is_door(found):
            edges.setdefault(found.file, set()).add(tree.relative(found.module))
    yield from (" <-> ".join(circle) for circle in circles(edges))


# The plan of the house. A room is a folder of cpms with all that lies in it, each backend for itself, or a flat module
# that is more than a face; kernels are no part of it. A floor is a place in the longest chain of rooms of which each
# imports from the next, by whatever kind of import but for the door.


def part_of_house(tree: Tree, module: str) -> str:
    """Return the room of a module; empty for what belongs to none: cpms and backends themselves, and faces."""
    name, parts = room_of(module), module.split(".")
    if name == "backends":
        return ".".join(parts[1:3]) if len(parts) > 2 else ""
    return (
        "" if f"cpms.{name}" == module and tree.is_face(module) and tree.files[module].name != "__init__.py" else name
    )


def plan(tree: Tree) -> networkx.DiGraph:
    """Return the rooms and who imports whom; an edge knows the imports that make it."""
    rooms = networkx.DiGraph()
    rooms.add_nodes_from({part_of_house(tree, module) for module in tree.files} - {"", "__main__"})
    for found in tree.imports:
        if found.module in tree.files and not is_door(found):
            room = part_of_house(tree, module_name(tree.root, tree.root / found.file))
            other = part_of_house(tree, found.module)
            if room != other and {room, other} <= set(rooms):
                imports = rooms.get_edge_data(room, other, {"imports": []})["imports"]
                rooms.add_edge(room, other, imports=[*imports, f"{found.file}:{found.line}"])
    return rooms


def many_rooms(tree: Tree) -> Iterator[str]:
    rooms = sorted(plan(tree))
    if len(rooms) > MOST_ROOMS:
        yield f"{len(rooms)} rooms, at most {MOST_ROOMS}: {', '.join(rooms)}"


def many_floors(tree: Tree) -> Iterator[str]:
    """Yield the longest chain of rooms if it is too long; the rooms of a circle lie on a floor together."""
    groups = networkx.condensation(plan(tree))
    chain = ["+".join(sorted(groups.nodes[group]["members"])) for group in networkx.dag_longest_path(groups)]
    if len(chain) > MOST_FLOORS:
        yield f"{len(chain)} floors, at most {MOST_FLOORS}: {' > '.join(chain)}"


def room_circles(tree: Tree) -> Iterator[str]:
    rooms = plan(tree)
    for circle in circles({room: set(rooms[room]) for room in rooms}):
        imports = [
            each
            for room, other in itertools.permutations(circle, 2)
            if rooms.has_edge(room, other)
            for each in rooms.edges[room, other]["imports"]
        ]
        yield f"{' <-> '.join(circle)}: {', '.join(imports)}"


# Kernels


def kernel_folder(tree: Tree) -> Path:
    return tree.root / "kernels" / "cuda"


def kernel_files(tree: Tree) -> list[Path]:
    return sorted(path for path in kernel_folder(tree).rglob("*") if path.suffix in KERNEL_ENDINGS)


def includes(path: Path) -> list[tuple[int, str]]:
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
    return [(n, m[1]) for n, line in lines if (m := re.match(r'\s*#\s*include\s*"([^"]+)"', line))]


def wrong_includes(tree: Tree) -> Iterator[str]:
    """Yield includes of PageRank where it may not be named, of what does not exist, and of more than its due."""
    folder = kernel_folder(tree)
    for path in kernel_files(tree):
        own = path.relative_to(folder).as_posix()
        room = own.split("/")[0]
        for line, name in includes(path):
            other = name.split("/")[0]
            if room in KERNELS_WITHOUT_PAGERANK and other == "pagerank":
                yield f"{own}:{line}: {name}"
            if room == "certificate" and other not in ("base", "certificate"):
                yield f"{own}:{line}: {name} (certificate includes base alone)"
            if not (folder / name).is_file():
                yield f"{own}:{line}: {name} is not in kernels/cuda; includes are named from there"


def include_circles(tree: Tree) -> Iterator[str]:
    folder = kernel_folder(tree)
    edges = {p.relative_to(folder).as_posix(): {name for _, name in includes(p)} for p in kernel_files(tree)}
    yield from (" <-> ".join(circle) for circle in circles(edges))


# Sizes


def is_compiled(parsed: ast.Module) -> bool:
    """Whether a file holds compiled loops, which may stay whole: Numba's cache misses edits of helpers elsewhere."""
    return any(isinstance(node, ast.ImportFrom) and node.module == "cpms.base.jit" for node in parsed.body)


def long_files(tree: Tree) -> Iterator[str]:
    python = [path for path, parsed in tree.parsed.items() if not is_compiled(parsed)]
    for path, most in [*((p, MOST_LINES) for p in python), *((p, MOST_KERNEL_LINES) for p in kernel_files(tree))]:
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > most:
            yield f"{path.relative_to(tree.root).as_posix()}: {lines} lines, at most {most}"


def full_folders(tree: Tree) -> Iterator[str]:
    """Yield folders of too many files; cpms itself has a limit of its own."""
    folders: dict[Path, int] = {}
    for path in [*tree.parsed, *kernel_files(tree)]:
        if path.name not in ("__init__.py", "__main__.py") and path.parent != tree.root / "cpms":
            folders[path.parent] = folders.get(path.parent, 0) + 1
    for folder, count in folders.items():
        if count > MOST_FILES:
            yield f"{folder.relative_to(tree.root).as_posix()}: {count} files, at most {MOST_FILES}"


def flat_modules(tree: Tree) -> Iterator[str]:
    flat = [m for m, path in tree.files.items() if path.parent == tree.root / "cpms" and not path.name.startswith("__")]
    real = sorted(module for module in flat if not tree.is_face(module))
    if len(real) > MOST_FLAT:
        yield f"{len(real)} flat modules in cpms, at most {MOST_FLAT}: {', '.join(real)}"


RULES: dict[str, Callable[[Tree], Iterator[str]]] = {
    "rooms know only what the table lets them know": spine,
    "rooms of backends/cuda know only what is below them": cuda_spine,
    "1. formats, storage, sparse, precision and analysis never name PageRank": names_of_pagerank,
    "2. solvers and certify never import backends or engines": solvers_know_backends,
    "3. certify shares no code with solvers and backends": certify_shares_code,
    "4. kernels that know no PageRank include none": wrong_includes,
    "5. device code is loaded below backends by the door alone": device_code_below_backends,
    "6. no circle of imports": import_circles,
    "no circle of rooms": room_circles,
    "no circle of includes": include_circles,
    "the house has few rooms": many_rooms,
    "the house has few floors": many_floors,
    "files are short": long_files,
    "folders have few files": full_folders,
    "cpms has few flat modules": flat_modules,
}


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
    "_HOMES = {'FP16': 'formats.named', 'solve_it': 'api.solve'}\n"
    "def __getattr__(name):\n    return import_module(f'cpms.{_HOMES[name]}')\n",
    "cpms/formats/__init__.py": "",
    "cpms/formats/named.py": "from cpms.base import errors\nFP16 = 1\n",
    "cpms/base/__init__.py": "",
    "cpms/base/errors.py": "class CpmsError(Exception): ...\n",
    "cpms/graph/__init__.py": "def dangling_nodes(graph): ...\n",
    "cpms/storage/__init__.py": "",
    "cpms/storage/device.py": "def codec():\n    from cpms.backends.cuda import codec\n    return codec\n",
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
    "5. device code is loaded below backends by the door alone": [
        ("a library", "cpms/storage/other.py", INSIDE + "import cupy as cp\n"),
        ("by a string", "cpms/sparse/other.py", INSIDE + "import_module('cupyx')\n"),
        ("of Numba", "cpms/solvers/power.py", "from numba.cuda import jit\n"),
        ("a backend", "cpms/storage/other.py", INSIDE + "from cpms.backends.cuda import codec\n"),
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
