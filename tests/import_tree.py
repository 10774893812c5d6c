"""The modules of a checkout, and who imports whom by whatever kind of import, read from the files."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


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
