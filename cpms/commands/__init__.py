"""Commands of the command line, one a file; each module has ``add(parsers)`` and ``call(arguments)``."""
