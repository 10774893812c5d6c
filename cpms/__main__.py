"""``python -m cpms`` is ``cpms``."""

from cpms.cli.main import program

program()
