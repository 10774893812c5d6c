"""One generic figure of rows, drawn without the others, which would take most of a test's time."""

from __future__ import annotations

from unittest import mock

from cpms.experiment.report import templates

TEMPLATE = {"residual_by_bits": "error", "iterations_by_bits": "error"}
"""The templates of figures with other names."""


def drawn_alone(rows, name, **options):
    """Return the figure of a name that `templates.drawings` makes of rows, or None if it makes none."""
    template = TEMPLATE.get(name, name)
    with mock.patch.object(templates, "TEMPLATES", {template: templates.TEMPLATES[template]}):
        found = [each for each in templates.drawings(rows, **options) if each.name == name]
    assert len(found) <= 1
    return found[0] if found else None
