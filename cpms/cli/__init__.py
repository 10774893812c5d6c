"""Commands of the command line, one a file; each module has ``add(parsers)`` and ``call(arguments)``."""

from pathlib import Path

ROWS_FOLDER = Path("out")
"""The default folder of rows, which ``run`` writes and ``show`` reads."""
