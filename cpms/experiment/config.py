"""Experiment configurations: TOML files, validated as a whole by pydantic before the first cell runs.

A kind of experiment is a module of `cpms.experiment.kinds`; its ``Config`` lists the parameters of every cell.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType, SimpleNamespace
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cpms.base import plugins
from cpms.base.errors import InputError
from cpms.experiment import kinds
from cpms.experiment.graph_files import GraphFile, named
from cpms.precision.controller_specs import parameter_of_plugin

Cell = dict[str, Any]
_GROUP = "experiment_kinds"


class Strict(BaseModel):
    """A part of a configuration: unknown keys, other types, infinities and NaN are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Experiment(Strict):
    """The fields of every kind of experiment; a kind adds its own fields and lists their cells.

    ``affinity`` lists the processors that may be used, ``shuffle`` is the seed of the order in which cells run, and
    ``outliers`` says whether outlying samples count in medians or have a column of their own.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9_-]+$")
    kind: str
    threads: int | None = Field(default=None, ge=1)
    affinity: list[Annotated[int, Field(ge=0)]] | None = Field(default=None, min_length=1)
    shuffle: int | None = Field(default=None, ge=0)
    outliers: Literal["keep", "set aside"] = "keep"
    show: str | None = None
    """A program that draws the rows in place of the figures for any experiment: ``file.py``, or a plug-in."""
    graphs_are_loaded: ClassVar[bool] = True
    """Whether ``graph`` of a cell names a file, data set or generator; else it only says what the kind makes."""
    later: ClassVar[set[str]] = set()
    """Keys that a cell omits at their defaults, so that cells recorded before these keys existed keep their names."""

    def given_later(self) -> Cell:
        """Return the keys of `later` that are not at their defaults."""
        return self.model_dump(include=self.later, exclude_defaults=True)

    def cells(self) -> list[Cell]:
        """Return the parameters of each cell, in the order in which they run."""
        raise NotImplementedError

    def resolved(self, cell: Cell) -> Cell:
        """Return all parameters of a cell, with those that its name omits at their defaults.

        Kinds that omit others than `later` add them here.
        """
        return {**{name: type(self).model_fields[name].default for name in sorted(self.later)}, **cell}


class Repeated(Experiment):
    """An experiment whose cells are measured ``repetitions`` times."""

    repetitions: int = Field(default=1, ge=1)

    def cells_by_graph(self, graphs: list[GraphFile], **fixed: Any) -> list[Cell]:
        """Return one cell a graph and repetition, for kinds whose contestants take turns within a cell."""
        return self.repeated(map(named, graphs), **fixed)

    def repeated(self, cells: Iterable[Cell], **fixed: Any) -> list[Cell]:
        """Return each cell as often as it is measured, with keys that all of them share."""
        return self.in_rounds(cells, [{}], **fixed)

    def in_rounds(self, outer: Iterable[Cell], inner: Sequence[Cell], **fixed: Any) -> list[Cell]:
        """Return cells of all pairs of an outer and an inner part, as often as they are measured.

        All inner parts follow one another for each outer part and repetition.
        """
        rounds = [(cell, {"repetition": turn}) for cell in outer for turn in range(self.repetitions)]
        return [{**cell, **part, **turn, **fixed} for cell, turn in rounds for part in inner]


class WarmedUp(Repeated):
    """An experiment whose measurements follow ``warmup`` unmeasured runs of the same work."""

    warmup: int = Field(default=0, ge=0)


def kind_names() -> list[str]:
    """Return the kinds of experiments: the modules in ``cpms/experiment/kinds``, and plug-ins.

    Examples
    --------
    >>> "pagerank" in kind_names()
    True
    """
    own = [module.name for module in iter_modules(kinds.__path__)]
    return sorted({*own, *plugins.offered(_GROUP)})


class Stateless:
    """The context of kinds that keep nothing between cells."""

    def __init__(self, config: object) -> None:
        del config


def kind_of(name: str) -> Any:
    """Return the definition of a kind: a module of the package, or a plug-in with ``Config`` and ``Context``.

    A plug-in is given by its name or as ``file.py:attribute``, like all plug-ins, or as ``file.py``, which is then the
    definition as a whole.
    """
    if name.endswith(".py"):
        return _checked(plugins.load_file(_GROUP, name))
    own = plugins.load(_GROUP, name, (ModuleType, SimpleNamespace))
    return import_module(f"cpms.experiment.kinds.{name}") if own is None else _checked(own)


def _checked(kind: Any) -> Any:
    """Return a plug-in that has what a kind needs."""
    model, context = getattr(kind, "Config", None), getattr(kind, "Context", None)
    is_model = isinstance(model, type) and issubclass(model, Experiment)
    if not is_model or not callable(getattr(context, "measure", None)):
        raise InputError(
            f"{plugins.described_plugin(kind)} has no class Config, derived from cpms.experiment.config.Experiment, "
            "or no class Context with a method measure(cell); it needs both"
        )
    return kind


def loads_graphs(kind: object) -> bool:
    """Return whether rows of a kind name graphs that can be loaded; True for a kind that is not the package's.

    Examples
    --------
    >>> loads_graphs("pagerank"), loads_graphs("honesty"), loads_graphs("a plug-in of somebody else")
    (True, False, True)
    """
    own = isinstance(kind, str) and kind in {module.name for module in iter_modules(kinds.__path__)}
    return not own or bool(kind_of(str(kind)).Config.graphs_are_loaded)


def read(path: Path) -> Experiment:
    """Read and check a configuration.

    Raises
    ------
    InputError
        Naming the file and every key that is wrong.
    """
    return read_once(path)[0]


def read_once(path: Path) -> tuple[Experiment, bytes]:
    """Return the configuration and the bytes of its file, since the file may change later."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); give the path of a .toml file") from None
    return parsed(content, path), content


def parsed(content: bytes, path: Path) -> Experiment:
    """Return the configuration in the content of a file.

    Raises
    ------
    InputError
        Naming the file and every key that is wrong.
    """
    try:
        given = tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is not TOML: {error}") from None
    kind = given.get("kind")
    if not isinstance(kind, str) or not (
        kind in kind_names() or plugins.is_named(_GROUP, kind) or kind.endswith(".py")
    ):
        raise InputError(f"{path}: kind is {kind!r}; it can be one of {', '.join(kind_names())}")
    model: type[Experiment] = kind_of(kind).Config
    try:
        return model.model_validate(given)
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, fault['loc']))}: {_fault_text(fault, model, given)}" for fault in error.errors()]
        raise InputError(f"{path}: {'; '.join(faults)}") from None


def _fault_text(fault: Any, model: type[Experiment], given: dict[str, Any]) -> str:
    """Return the fault of a key; for an unknown key, the keys of the kind or of its table."""
    if fault["type"] != "extra_forbidden":
        message: str = fault["msg"]
        return message.removeprefix("Value error, ")
    *path, key = fault["loc"]
    if not path:
        return f"is no key of this kind; {_meant(key, model.model_fields)}"
    table: Any = given
    for step in path:
        is_in = isinstance(table, list) if isinstance(step, int) else isinstance(table, dict) and step in table
        table = table[step] if is_in else None
    if isinstance(table, dict) and "plugin" in table:
        return parameter_of_plugin(str(table["plugin"]), key)
    models = _models(model.model_fields[path[0]].annotation)
    return f"is no key of this table{f'; {_meant(key, models[0].model_fields)}' if len(models) == 1 else ''}"


def _meant(key: str, fields: Iterable[str]) -> str:
    """Return the keys that there are, the nearest first: one that is spelled alike, or that begins so."""
    near = difflib.get_close_matches(key, fields, n=1) or [field for field in fields if field.startswith(key)]
    return f"{f'did you mean {near[0]}? It' if near else 'it'} has {', '.join(fields)}"


def _models(annotation: Any) -> list[type[BaseModel]]:
    """Return the tables of an annotation, such as that of ``list[Way]``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for argument in get_args(annotation) for found in _models(argument)]
