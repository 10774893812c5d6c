"""Controllers and refinement policies as text: in a configuration, on the command line, or named as a plug-in.

A rule is a name with parameters, as a table of TOML or in one line, ``NAME:KEY=VALUE,…``; wrappers hold another rule.
Nothing is evaluated: values are numbers, names, and rules in parentheses.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeAlias

from cpms.base import plugins
from cpms.base.errors import InputError
from cpms.base.text import specification
from cpms.base.text.suggestions import unknown
from cpms.base.validation import described
from cpms.precision.controllers import AtMost, Controller, Fixed, Schedule, StartAt, Threshold, WriteAhead
from cpms.precision.refinement_policy import AdaptiveReduction, FixedReduction, RefinementPolicy

Precision: TypeAlias = Controller | RefinementPolicy
PrecisionGiven: TypeAlias = Precision | str | Mapping[str, Any]
"""A controller or policy as callers give it: itself, text, or a table."""
WRAPPERS = ("at_most", "start_at", "write_ahead")
"""Rules that alter the levels of another, ``inner``."""
POLICIES = ("adaptive_reduction", "fixed_reduction")
"""Rules of method ``refine``; the others are power iteration's."""
_RULES: dict[str, type[Any]] = {
    "fixed": Fixed,
    "threshold": Threshold,
    "schedule": Schedule,
    **dict(zip(WRAPPERS, (AtMost, StartAt, WriteAhead), strict=True)),
    **dict(zip(POLICIES, (AdaptiveReduction, FixedReduction), strict=True)),
}
_FORMS = ", a rule with parameters such as at_most:read=2,inner=(schedule:0=1,20=2), or file.py:attribute"
_NUMBERS = (
    (re.compile(r"[+-]?\d{1,18}", re.ASCII), int),
    (re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII), float),
    (re.compile(r"true|false"), "true".__eq__),
)


def controller_of(given: PrecisionGiven) -> Precision:
    """Return a controller or policy that is given by itself, as text or as a table.

    Parameters
    ----------
    given : Controller, RefinementPolicy, str or mapping
        Text is a rule, ``NAME`` or ``NAME:KEY=VALUE,…`` with lists and rules in parentheses; or a plug-in: the name of
        an entry point of the group ``cpms.controllers``, ``module:attribute`` or ``file.py:attribute``. A table has the
        rule's name under ``rule`` and its parameters under their names, or the name of a plug-in under ``plugin``. The
        ``inner`` rule of a wrapper is `Threshold` by default. A schedule's ``rises`` have text for keys, as in TOML.

    Raises
    ------
    InputError
        If there is no such rule or plug-in, or it does not take a parameter.

    Examples
    --------
    >>> controller_of("at_most:read=2,inner=(schedule:0=1,9=2)")
    AtMost(inner=Schedule(rises={0: 1, 9: 2}), read=2)
    >>> controller_of({"rule": "at_most", "read": 2, "inner": {"rule": "schedule", "rises": {"0": 1, "9": 2}}})
    AtMost(inner=Schedule(rises={0: 1, 9: 2}), read=2)
    >>> [each.name for each in controller_of("adaptive_reduction:formats=(e5m2,fp32)").formats]
    ['e5m2', 'fp32']
    """
    if isinstance(given, Controller | RefinementPolicy):
        return given
    if isinstance(given, str):
        name, _, text = given.partition(":")
        return _ruled(name, _parameters(given, name, text)) if name in _RULES else _plugin(given)
    if isinstance(given, Mapping) and isinstance(given.get("plugin"), str):
        for parameter in given.keys() - {"plugin"}:
            raise InputError(parameter_of_plugin(given["plugin"], parameter))
        return _plugin(given["plugin"])
    if not isinstance(given, Mapping) or not isinstance(given.get("rule"), str):
        raise InputError(f"controller is {described(given)}; give a name, or a table with the key rule or plugin")
    parameters = {key: value for key, value in given.items() if key != "rule"}
    return _ruled(given["rule"], parameters)


def parameter_of_plugin(plugin: str, parameter: str) -> str:
    """Return an error's text for a parameter beside the name of a plug-in, which says where parameters belong.

    Examples
    --------
    >>> parameter_of_plugin("a.py:A", "wait")
    "plug-in 'a.py:A' takes no wait here; make an instance in its file, such as mine = A(wait=…), and name a.py:mine"
    """
    file, _, name = plugin.rpartition(":")
    return (
        f"plug-in {plugin!r} takes no {parameter} here; make an instance in its file, such as "
        f"mine = {name}({parameter}=…), and name {f'{file}:mine' if file else 'that'}"
    )


def given_precision(given: Any) -> Any:
    """Return what was given for a controller or a policy, with text and tables resolved."""
    return controller_of(given) if isinstance(given, str | Mapping) else given


def _plugin(name: str) -> Precision:
    found: Precision | None = plugins.load("controllers", name, (Controller, RefinementPolicy))
    if found is None:
        raise InputError(unknown("controller", name, [*_RULES, *plugins.offered("controllers")], _FORMS))
    return found


def _ruled(rule: str, parameters: dict[str, Any]) -> Precision:
    """Return the controller or policy of a rule and its parameters."""
    if rule not in _RULES:
        raise InputError(unknown("rule", rule, _RULES))
    takes = [field.name for field in fields(_RULES[rule])]
    if rule in WRAPPERS:
        parameters = {**parameters, "inner": controller_of(parameters.get("inner", "threshold"))}
    if rule == "schedule" and isinstance(parameters.get("rises"), Mapping):
        parameters = {**parameters, "rises": {_sweep(key): read for key, read in parameters["rises"].items()}}
    if wrong := [key for key in parameters if key not in takes]:
        raise InputError(f"rule {rule} has no {', '.join(wrong)}; it takes {', '.join(takes)}")
    try:
        made: Precision = _RULES[rule](**parameters)
    except TypeError as error:
        raise InputError(f"rule {rule} takes {', '.join(takes)}: {error}") from None
    return made


def _sweep(key: object) -> object:
    return int(key) if isinstance(key, str) and key.isdecimal() else key


def _parameters(spec: str, rule: str, text: str) -> dict[str, Any]:
    """Return the parameters that the text of a rule gives; those of a schedule are its rises."""
    given: dict[str, Any] = {}
    for item in specification.items(spec, text):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals or key in given:
            raise InputError(f"{described(spec)}: {described(item)} is no KEY=VALUE, or is given twice")
        given[key] = _value(spec, key, value[1:-1] if value[:1] == "(" and value[-1:] == ")" else value)
    return {"rises": given} if rule == "schedule" and given else given


def _value(spec: str, key: str, text: str) -> Any:
    if key == "formats":
        return tuple(specification.items(spec, text))
    return next((read(text) for form, read in _NUMBERS if form.fullmatch(text)), text)
