"""Commands of the command line, one a file; each module has ``add(parsers)`` and ``call(arguments)``."""

from pathlib import Path

ROWS_FOLDER = Path("out")
"""Where ``run`` puts rows and ``show`` looks for some, unless told otherwise."""
