"""The command line called from tests: its exit code and what it writes."""

from cpms.cli import main

TRIANGLE = "%%MatrixMarket matrix coordinate pattern general\n3 3 4\n1 2\n2 3\n3 1\n1 3\n"


def run(capsys, *arguments):
    code = main.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def refused(capsys, *arguments, code=2):
    given, out, err = run(capsys, *arguments)
    assert given == code
    assert out == ""
    assert err.startswith("cpms: error: ")
    assert err.count("\n") == 1
    return err
