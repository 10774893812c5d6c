"""Rules of the house: which room may know which, includes of kernels, and sizes; each yields its faults."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import networkx
from import_tree import Tree, module_name

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
for _room in ("kernels", "runtime", "arrays", "spmv", "persistent", "reduction", "batch", "krylov", "product"):
    BELOW_IN_CUDA[_room] = set(BELOW_IN_CUDA)
for _room in ("graphs", "certificate"):
    BELOW_IN_CUDA[_room] = {"kernels", "runtime", "arrays"}

DEVICE_SERVICES = "cpms.base.device_modules"
"""The module that loads device code below ``backends``, by names that the package gives it."""
USERS_OF_DEVICE_SERVICES = {"cpms/__init__.py", "cpms/storage/device.py"}
DEVICE_LIBRARIES = {"cupy", "cupyx", "pyopencl", "cuda"}
KNOW_NO_PAGERANK = ("formats", "storage", "sparse", "precision", "analysis")
OF_PAGERANK = re.compile(r"damping|teleport|dangling|pagerank|page_rank", re.IGNORECASE)
OF_GRAPHS = {"dangling_nodes"}
KERNELS_WITHOUT_PAGERANK = ("base", "convert", "persistent", "product", "krylov")
MOST_FILES, MOST_LINES, MOST_KERNEL_LINES, MOST_FLAT = 15, 400, 350, 6
MOST_ROOMS, MOST_FLOORS = 26, 15
KERNEL_ENDINGS = {".cu", ".cuh", ".hpp", ".h"}


def room_of(module: str) -> str:
    """Return the first folder or flat module below cpms; empty for cpms itself."""
    parts = module.split(".")
    return parts[1] if parts[0] == "cpms" and len(parts) > 1 else ""


def spine(tree: Tree) -> Iterator[str]:
    """Yield imports of a room that may not know the other."""
    for found in tree.imports:
        module = module_name(tree.root, tree.root / found.file)
        room, other = room_of(module), room_of(found.module)
        if found.module.split(".")[0] != "cpms" or not room or room == other:
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
    """Yield imports of device code below ``backends``, and uses of its services beside storage/device.py."""
    yield from imports_of(tree, list(BELOW["backends"]), (*DEVICE_LIBRARIES, "numba.cuda", "cpms.backends"))
    for found in tree.imports:
        if found.module == DEVICE_SERVICES and found.file not in USERS_OF_DEVICE_SERVICES:
            yield f"{found.file}:{found.line}: {found.module}"


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Return the sets of nodes that reach each other, and nodes with an edge to themselves."""
    graph = networkx.DiGraph([(node, other) for node, others in edges.items() for other in others])
    found = [sorted(part) for part in networkx.strongly_connected_components(graph) if len(part) > 1]
    return sorted([*found, *([node] for node in networkx.nodes_with_selfloops(graph))])


def import_circles(tree: Tree) -> Iterator[str]:
    """Yield circles of files, whatever kind of import closes them."""
    edges: dict[str, set[str]] = {}
    for found in tree.imports:
        if found.module in tree.files:
            edges.setdefault(found.file, set()).add(tree.relative(found.module))
    yield from (" <-> ".join(circle) for circle in circles(edges))


# The plan of the house. A room is a folder of cpms with all that lies in it, each backend for itself, or a flat module
# that is more than a face; kernels are no part of it. A floor is a place in the longest chain of rooms of which each
# imports from the next, by whatever kind of import.


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
        if found.module in tree.files:
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
    "5. device code is used below backends through storage/device.py alone": device_code_below_backends,
    "6. no circle of imports": import_circles,
    "no circle of rooms": room_circles,
    "no circle of includes": include_circles,
    "the house has few rooms": many_rooms,
    "the house has few floors": many_floors,
    "files are short": long_files,
    "folders have few files": full_folders,
    "cpms has few flat modules": flat_modules,
}
