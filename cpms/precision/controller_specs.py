"""Controllers as text: written in a configuration, or named as a plug-in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cpms.base import plugins
from cpms.base.errors import InputError
from cpms.base.text.suggestions import unknown
from cpms.base.validation import described
from cpms.precision.controllers import AtMost, Controller, Fixed, Schedule, StartAt, Threshold, WriteAhead

_PLAIN = {"fixed": Fixed, "threshold": Threshold, "schedule": Schedule}
_WRAPPERS = {"at_most": AtMost, "start_at": StartAt, "write_ahead": WriteAhead}


def controller_of(given: str | Mapping[str, Any]) -> Controller:
    """Return the controller that a configuration gives.

    A name, ``module:attribute`` or ``file.py:attribute``, or a table: ``rule`` is a name, and the other keys are its
    parameters; of wrappers, ``inner`` is another controller. Keys of a schedule's ``rises`` may be text, as TOML's are.

    Raises
    ------
    InputError
        If there is no such controller, or it does not take a parameter.

    Examples
    --------
    >>> controller_of({"rule": "at_most", "read": 2, "inner": {"rule": "schedule", "rises": {"0": 1, "9": 2}}})
    AtMost(inner=Schedule(rises={0: 1, 9: 2}), read=2)
    """
    if isinstance(given, str):
        if given in _PLAIN:
            plain: Controller = _PLAIN[given]()
            return plain
        found: Controller | None = plugins.load("controllers", given, Controller)
        if found is None:
            known = [*_PLAIN, *plugins.declared("controllers")]
            raise InputError(unknown("controller", given, known, ", a table, or file.py:attribute"))
        return found
    if not isinstance(given, Mapping) or not isinstance(given.get("rule"), str):
        raise InputError(f"controller is {described(given)}; give a name, or a table with the key rule")
    rule, parameters = given["rule"], {key: value for key, value in given.items() if key != "rule"}
    kinds: dict[str, Any] = {**_PLAIN, **_WRAPPERS}
    if rule not in kinds:
        raise InputError(unknown("rule", rule, kinds))
    if rule in _WRAPPERS:
        parameters["inner"] = controller_of(parameters.get("inner", "threshold"))
    if rule == "schedule" and isinstance(parameters.get("rises"), Mapping):
        parameters["rises"] = {_sweep(key): value for key, value in parameters["rises"].items()}
    try:
        made: Controller = kinds[rule](**parameters)
    except TypeError as error:
        raise InputError(f"controller {rule}: {error}") from None
    return made


def _sweep(key: object) -> object:
    return int(key) if isinstance(key, str) and key.isdecimal() else key
