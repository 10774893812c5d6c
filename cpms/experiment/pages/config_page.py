"""The page of configurations: the keys of every kind of experiment, with type and default, from their models.

``docs/configs.md`` is generated from it, and a test compares them.
"""

from __future__ import annotations

import inspect
import json
from typing import Any

from pydantic_core import PydanticUndefined

from cpms.experiment.config import Experiment, Repeated, kind_names, kind_of
from cpms.experiment.pages.key_meanings import meaning

_COMMON = {
    "name": "name of the experiment and of the file of its rows",
    "kind": "one of those below",
    "threads": "threads in use; by default the processors that the process may use",
    "affinity": "processors to which the process is pinned, numbered as by `taskset`; on Linux alone",
    "shuffle": "seed of the order in which cells run; without it they run as the configuration lists them",
    "outliers": "whether medians include outlying samples",
    "show": "program that draws the rows in place of the figures for any experiment: `file.py`, or a plug-in",
    "repetitions": "number of times that each cell is measured, each in a row of its own; kind `graphs` lacks this key",
}

_TABLE_HEAD = ["| key | type | default | meaning |", "|---|---|---|---|"]
_PLURALS = {"text": "texts", "integer": "integers", "number": "numbers", "text or table": "texts or tables"}


def page() -> str:
    """Return the page ``docs/configs.md``."""
    common = [(name, Repeated.model_fields[name].is_required(), meaning) for name, meaning in _COMMON.items()]
    properties = Repeated.model_json_schema()["properties"]
    lines = [
        f"| `{name}` | {_type(properties[name], {})} | {'' if required else _default(Repeated, name)} | {meaning} |"
        for name, required, meaning in common
    ]
    return _HEAD + "\n".join([*_TABLE_HEAD, *lines]) + "\n" + _CONDITIONS + "".join(map(_section, kind_names()))


def _section(kind: str) -> str:
    module = kind_of(kind)
    model = module.Config
    given = (inspect.getdoc(model) or "").removeprefix("The fields of such an experiment.").strip()
    described = "\n\n".join(filter(None, [(inspect.getdoc(module) or "").split("\n\n")[0], given]))
    schema = model.model_json_schema()
    own = [name for name in model.model_fields if name not in _COMMON]
    parts = schema.get("$defs", {})
    lines = list[str]()
    for name in own:
        given = schema["properties"][name]
        inner = _keys(given, parts)
        kept = "list of tables" if inner else _type(given, parts)
        lines.append(f"| `{name}` | {kept} | {_default(model, name)} | {meaning(kind, name)} |")
        for key, (held, required) in inner.items():
            default = "required" if required else _written(held.get("default"))
            lines.append(f"| `{name}.{key}` | {_type(held, parts)} | {default} | {meaning(kind, key, name)} |")
    table = "\n".join([*_TABLE_HEAD, *lines])
    return f"\n### {kind}\n\n{described.replace('``', '`')}\n\n{table}\n"


def _keys(schema: dict[str, Any], parts: dict[str, Any]) -> dict[str, tuple[dict[str, Any], bool]]:
    """Return the keys of the tables that a list holds, each with its schema and whether it is required."""
    reference = schema.get("items", {}).get("$ref", "").rpartition("/")[2]
    table = parts.get(reference, {})
    required = table.get("required", [])
    return {key: (held, key in required) for key, held in table.get("properties", {}).items()}


def _type(schema: dict[str, Any], parts: dict[str, Any]) -> str:
    """Return the type in a JSON schema in words; a part of a configuration is a table of its keys.

    Examples
    --------
    >>> _type({"type": "array", "items": {"type": "number"}}, {}), _type({"enum": ["l1", "l2"]}, {})
    ('list of numbers', '"l1" or "l2"')
    """
    if "$ref" in schema:
        keys = parts[schema["$ref"].rpartition("/")[2]].get("properties", {})
        return f"table of {', '.join(f'`{key}`' for key in keys)}" if keys else "text"
    if "anyOf" in schema:
        either = dict.fromkeys(_type(each, parts) for each in schema["anyOf"] if each.get("type") != "null")
        return " or ".join(either)
    if "enum" in schema or "const" in schema:
        return " or ".join(json.dumps(each) for each in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        inner = _type(schema.get("items", {}), parts)
        plural = _PLURALS.get(inner, inner)
        return "list of " + plural.replace("table of", "tables of")
    named = str(schema.get("type", "text or table"))
    return {"string": "text", "object": "table"}.get(named, named)


def _default(model: type[Experiment], name: str) -> str:
    field = model.model_fields[name]
    if field.is_required() or field.default is PydanticUndefined:
        return "required"
    value = field.get_default(call_default_factory=True)
    plain = [each.model_dump(exclude_defaults=True) if hasattr(each, "model_dump") else each for each in _listed(value)]
    return _written(plain if isinstance(value, list) else plain[0])


def _written(value: Any) -> str:
    return "none" if value is None else f"`{json.dumps(value)}`"


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


_HEAD = """# Configurations

This page is generated by `cpms.experiment.pages.config_page.page`. A configuration is a TOML file:

```toml
name = "mine"
kind = "contest"
graphs = ["rmat:scale=14,edge_factor=16,seed=1", "my_edges.txt"]
rounds = 9
affinity = [0, 1]
shuffle = 1
outliers = "set aside"
contestants = [{ engine = "scipy" }, { engine = "cpu", layout = "pattern", method = "refine", storage = "fp16" }]
```

    cpms run mine.toml --dry-run            # lists the cells by name, and what no engine has
    cpms run mine.toml                      # measures those that the rows lack
    cpms run mine.toml --only fp16          # measures those with a parameter of this text
    cpms run mine.toml --only 3fb2a1        # measures the cell whose name begins so again; the last row counts

A key with a dot, such as `contestants.engine`, is a key of each table in that list. With a default of none, cpms
chooses, or the feature is off. An unknown key is an error, which names the nearest key of the kind. The
name of a cell is a hash of its parameters, so rows remain valid while a configuration grows. Where `contestants` or
`ways` take turns, they share a cell: a new one measures all of them again.

Paths in a configuration, of graphs, matrices and plug-ins, are relative to the folder in which `cpms run` is called,
not to the folder of the configuration. If no graph or matrix is found, nothing runs and no row is written. If some are
found, the others get rows with the status `bad input`. The error at the end names those that were not found, and the
next run tries them again. `cpms rows NAME --prune` removes rows with this status, and rows of cells that the
configuration no longer has. `cpms show` needs no file of a graph or matrix.

## Keys of every kind

"""
_CONDITIONS = """
Warm-up: kinds `contest`, `pagerank`, `ppr`, `road` and `scaling_gpu` have `warmup`, the number of unmeasured runs.

Outliers: a sample whose logarithm is more than six scaled median absolute deviations from the median (Hampel) moves to
the column `solve_set_aside_s`, and medians are of the other samples. No sample is dropped, and the column `outliers` of
each row names the rule. The rule applies to kinds that record their samples in seconds. Other kinds record median,
least and most.

A row records `threads`, `affinity`, `outliers` and `shuffle`. A cell is measured again if one of the first three
differs from the configuration.

## Kinds
"""
