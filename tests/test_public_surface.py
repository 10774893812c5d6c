"""What users build on is only added to: public names, parameters, options, exit codes and JSON keys, in a golden file.

``python tests/test_public_surface.py`` puts what is new into the golden file. It removes and changes nothing: whoever
means to break a promise edits the file by hand.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import enum
import importlib.util
import inspect
import io
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path, PurePath
from types import ModuleType
from typing import Any

import pytest

from cpms.cli import main as cli

GOLDEN = Path(__file__).parent / "golden" / "public_surface.json"
REWRITE = "python tests/test_public_surface.py"
MODULES: dict[str, tuple[str, ...] | None] = {
    "cpms": None,
    "cpms.check": None,
    "cpms.testing": None,
    "cpms.datasets": None,
    "cpms.refine": ("Refining", "Plan", "FixedGain", "AdaptiveGain", "default_gain", "default_policy"),
}
"""Modules that users name; where names are listed, these alone are public."""
FUNCTIONS_TO_COME = ("matrix", "solve")
"""Names that stay free of modules, since functions of ``cpms`` have them or will have them."""
REQUIRED = "required"
Entries = Iterator[tuple[str, str]]


def public_names(module: str, known: dict[str, str]) -> list[str]:
    """Return what a module defines or lists, and what it has had before, wherever that is defined now."""
    found = import_module(module)
    listed = MODULES[module] or getattr(found, "__all__", None)
    own = [name for name, value in vars(found).items() if getattr(value, "__module__", None) == module]
    before = [entry.removeprefix(f"{module}.") for entry in known if entry.startswith(f"{module}.")]
    names = {*(own if listed is None else listed), *(name for name in before if name.isidentifier())}
    return sorted(name for name in names if (name == "__version__" or name[0] != "_") and has(found, name))


def has(module: ModuleType, name: str) -> bool:
    """Return whether a module has a name, which may have to be imported first."""
    try:
        return hasattr(module, name)
    except ImportError:
        return False


def shown(value: Any) -> str:
    """Return a value as text that is the same in every process."""
    text = repr(value.as_posix() if isinstance(value, PurePath) else value)
    return f"some {type(value).__name__}" if " at 0x" in text or "/" in text else text


def parameters(name: str, function: Callable[..., Any]) -> Entries:
    """Yield a function's parameters, each by itself, so that one more is an addition."""
    place = 0
    for parameter in inspect.signature(function).parameters.values():
        kind = parameter.kind.description
        if kind.startswith("positional"):
            kind, place = f"{kind}, number {place}", place + 1
        default = REQUIRED
        if parameter.default is not parameter.empty:
            default = f"default {shown(parameter.default)}"
        elif kind.startswith("variadic"):
            default = "any number"
        yield f"{name}({parameter.name})", f"{kind}, {default}"


def members(name: str, kind: type) -> Entries:
    """Yield a class's fields, properties, methods and constants, of its own and of bases in cpms."""
    yield name, "class"
    if issubclass(kind, enum.Enum):
        yield from ((f"{name}.{member.name}", "member of the enumeration") for member in kind)
    elif not issubclass(kind, BaseException) and not inspect.isabstract(kind):
        yield from parameters(name, kind)
    fields = {field.name for field in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else set()
    fields |= set(getattr(kind, "_fields", ()))
    yield from ((f"{name}.{field}", "attribute") for field in fields)
    ours = (base for base in reversed(kind.__mro__) if base.__module__.split(".")[0] == "cpms")
    found = {member: value for base in ours for member, value in vars(base).items()}
    for member, value in found.items():
        if member[0] == "_" or member in fields or (isinstance(value, kind) and isinstance(value, enum.Enum)):
            continue
        if inspect.isfunction(value) or isinstance(value, classmethod | staticmethod):
            yield f"{name}.{member}", "method"
            yield from parameters(f"{name}.{member}", getattr(value, "__func__", value))
        elif isinstance(value, property) or hasattr(value, "__get__"):
            yield f"{name}.{member}", "attribute"
        else:
            yield f"{name}.{member}", shown(value)


def of_module(module: str, known: dict[str, str]) -> Entries:
    """Yield a module's public names and what they consist of."""
    for name in public_names(module, known):
        value, full = getattr(import_module(module), name), f"{module}.{name}"
        if inspect.isclass(value):
            yield from members(full, value)
        elif callable(value) and hasattr(value, "__name__"):
            yield full, "function"
            yield from parameters(full, value)
        else:
            yield full, "text" if name == "__version__" else shown(value)


def of_command_line() -> Entries:
    """Yield commands, their arguments and options with choices and defaults, each of which its help shows."""
    (commands,) = (a for a in cli.parser()._actions if isinstance(a, argparse._SubParsersAction))
    for command, parser in [("cpms", cli.parser()), *((f"cpms {name}", p) for name, p in commands.choices.items())]:
        text = parser.format_help()
        yield command, "command"
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                continue
            names = action.option_strings or [action.metavar or action.dest]
            assert action.help is argparse.SUPPRESS or all(name in text for name in names), (command, names)
            needs = REQUIRED if action.required else f"default {shown(action.default)}"
            takes = "no value" if action.nargs == 0 else f"values: {action.nargs or 1}, {needs}"
            for name in names:
                yield f"{command} {name}", takes
                yield from ((f"{command} {name}={choice}", "choice") for choice in action.choices or ())


def called(*arguments: str) -> tuple[int, str]:
    """Return exit code and output of the command line."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
        try:
            code = cli.main(arguments)
        except SystemExit as stop:
            code = int(stop.code or 0)
    return code, out.getvalue()


def of_calls(folder: Path) -> Entries:
    """Yield exit codes and the keys of ``rank --json``."""
    graph = folder / "triangle.txt"
    graph.write_text("0 1\n1 2\n2 0\n0 2\n")
    code, out = called("rank", str(graph), "--json", "--top", "2")
    yield "exit code: converged", str(code)
    for key, value in json.loads(out).items():
        yield f"cpms rank --json: {key}", "number" if type(value) in (int, float) else type(value).__name__
    for what, arguments in {
        "done": ("formats",),
        "not converged": ("rank", str(graph), "--max-iterations", "1"),
        "unknown option": ("rank", str(graph), "--nothing-of-the-kind"),
        "no such file": ("rank", str(folder / "missing.txt")),
        "no command": (),
    }.items():
        yield f"exit code: {what}", str(called(*arguments)[0])
    yield "exit code: interrupted", str(cli.INTERRUPTED)
    yield "exit code: nobody reads the output", str(cli.OUTPUT_CLOSED)


def surface(known: dict[str, str], folder: Path) -> dict[str, str]:
    """Return all promises by name."""
    found = dict(entry for module in MODULES for entry in of_module(module, known))
    return dict(sorted((found | dict(of_command_line()) | dict(of_calls(folder))).items()))


def broken(known: dict[str, str], found: dict[str, str]) -> list[str]:
    """Return what users would trip over: promises that are gone or say something else, and new duties."""
    gone = [f"{name} is gone (was: {text})" for name, text in known.items() if name not in found]
    changed = [f"{name} was: {t}; is: {found[name]}" for name, t in known.items() if found.get(name, t) != t]
    duties = [
        f"{name} is required, but callers do not give it yet"
        for name, text in found.items()
        if name not in known and text.endswith(REQUIRED) and name.split("(")[0].rsplit(" ", 1)[0] in known
    ]
    return gone + changed + duties


def golden() -> dict[str, str]:
    known: dict[str, str] = json.loads(GOLDEN.read_text(encoding="utf-8"))
    return known


@pytest.mark.filterwarnings("ignore:.* has moved to:DeprecationWarning")
@pytest.mark.quick
def test_what_users_build_on_is_only_added_to(tmp_path):
    known = golden()
    found = surface(known, tmp_path)
    faults = broken(known, found)
    assert not faults, "Public names, options and keys are only added to; bring back:\n" + "\n".join(faults)
    added = [name for name in found if name not in known]
    assert not added, f"New promises; run `{REWRITE}` and commit the golden file, if they are meant:\n" + "\n".join(
        added
    )


@pytest.mark.quick
def test_what_is_gone_changed_or_newly_required_breaks_a_promise():
    known = {"cpms.f": "function", "cpms.f(x)": "positional or keyword, number 0, required", "cpms g": "command"}
    assert broken(known, known | {"cpms.f(y)": "keyword-only, default 1", "cpms.h": "class"}) == []
    assert broken(known, {"cpms.f": "function", "cpms g": "command"}) == [
        "cpms.f(x) is gone (was: positional or keyword, number 0, required)"
    ]
    assert len(broken(known, known | {"cpms.f": "class"})) == 1
    assert len(broken(known, known | {"cpms.f(y)": "keyword-only, required"})) == 1
    assert len(broken(known, known | {"cpms g --much": "values: 1, required"})) == 1
    assert broken(known, known | {"cpms.h": "function", "cpms.h(y)": "keyword-only, required"}) == []


@pytest.mark.quick
@pytest.mark.parametrize("name", FUNCTIONS_TO_COME)
def test_no_module_takes_the_name_of_a_function_to_come(name):
    assert importlib.util.find_spec(f"cpms.{name}") is None


def main() -> int:
    """Add what is new to the golden file; refuse where a promise is broken."""
    known = golden() if GOLDEN.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        found = surface(known, Path(folder))
    if faults := broken(known, found):
        print("\n".join(faults), file=sys.stderr)  # noqa: T201
        return 1
    GOLDEN.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
