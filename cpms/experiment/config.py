"""Experiment configurations: TOML, checked as a whole before anything runs."""

from __future__ import annotations

import difflib
import tomllib
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cpms.base.errors import InputError
from cpms.experiment import kinds
from cpms.experiment.graph_files import GraphFile, named

Cell = dict[str, Any]


class Strict(BaseModel):
    """A part of a configuration: no other keys, no other types, no numbers that rows cannot hold."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Experiment(Strict):
    """What every kind of experiment has; a kind adds its own fields and says which cells they make."""

    name: str = Field(pattern=r"^[A-Za-z0-9_-]+$")
    kind: str
    threads: int | None = Field(default=None, ge=1)

    def cells(self) -> list[Cell]:
        """Return the parameters of each cell, in the order in which they run."""
        raise NotImplementedError

    def resolved(self, cell: Cell) -> Cell:
        """Return all that decides how a cell is measured: also what goes without saying in it and is not in its name.

        Kinds that leave something out of their cells add it here.
        """
        return cell


class Repeated(Experiment):
    """An experiment whose cells are measured ``repetitions`` times."""

    repetitions: int = Field(default=1, ge=1)

    def cells_by_graph(self, graphs: list[GraphFile], **fixed: Any) -> list[Cell]:
        """Return one cell a graph and repetition, for kinds whose contestants take turns within a cell."""
        return [
            {**named(graph), "repetition": repetition, **fixed}
            for graph in graphs
            for repetition in range(self.repetitions)
        ]


class WarmedUp(Repeated):
    """One that measures only after ``warmup`` times of the same work."""

    warmup: int = Field(default=0, ge=0)


def kind_names() -> list[str]:
    """Return the kinds of experiments: the modules in ``cpms/experiment/kinds``.

    Examples
    --------
    >>> "pagerank" in kind_names()
    True
    """
    return sorted(module.name for module in iter_modules(kinds.__path__))


def read(path: Path) -> Experiment:
    """Read and check a configuration.

    Raises
    ------
    InputError
        Naming the file and every key that is wrong.
    """
    return read_once(path)[0]


def read_once(path: Path) -> tuple[Experiment, bytes]:
    """Do as `read`, and return the bytes that were read: the file may be gone or another one later."""
    try:
        content = path.read_bytes()
        given = tomllib.loads(content.decode())
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); give the path of a .toml file") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is not TOML: {error}") from None
    kind = given.get("kind")
    if kind not in kind_names():
        raise InputError(f"{path}: kind is {kind!r}; it can be one of {', '.join(kind_names())}")
    model: type[Experiment] = import_module(f"cpms.experiment.kinds.{kind}").Config
    try:
        return model.model_validate(given), content
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, fault['loc']))}: {_said(fault, model)}" for fault in error.errors()]
        raise InputError(f"{path}: {'; '.join(faults)}") from None


def _said(fault: Any, model: type[Experiment]) -> str:
    """Return what is wrong with a key; of one that the kind does not have, what it has."""
    if fault["type"] == "extra_forbidden" and len(fault["loc"]) == 1:
        near = difflib.get_close_matches(fault["loc"][0], model.model_fields, n=1)
        meant = f"did you mean {near[0]}? It" if near else "it"
        return f"is no key of this kind; {meant} has {', '.join(model.model_fields)}"
    message: str = fault["msg"]
    return message.removeprefix("Value error, ")
