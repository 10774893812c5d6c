"""Who decides how many bits are read: controllers, refinement policies, inner stopping, Anderson acceleration."""

from __future__ import annotations

from cpms.base.moved import moved

__getattr__, __dir__ = moved(
    "cpms.precision",
    dict.fromkeys(
        (
            *("AtMost", "Controller", "Fixed", "Level", "Schedule", "StartAt", "Threshold", "WriteAhead"),
            *("FLOAT64", "checked_level", "default_controller"),
        ),
        "cpms.precision.controllers",
    ),
)
