"""Commands as processes: exit codes and streams that are full, closed or without a reader."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


def test_as_a_process(triangle):
    done = subprocess.run(
        [sys.executable, "-m", "cpms", "rank", str(triangle), "--json"], capture_output=True, text=True
    )
    assert done.returncode == 0
    assert done.stderr == ""
    assert json.loads(done.stdout)["converged"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("command", [["formats"], ["rank", "TRIANGLE", "--json"]])
def test_a_full_standard_output_is_one_line(triangle, command):
    arguments = [str(triangle) if argument == "TRIANGLE" else argument for argument in command]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "cpms", *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr.startswith("cpms: error: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(os.name != "posix", reason="file descriptors are inherited otherwise")
@pytest.mark.parametrize("command", [["formats"], ["inspect", "0.1"], ["rank", "TRIANGLE", "--json"]])
def test_without_standard_output_a_command_ends_as_it_would(triangle, command):
    arguments = [str(triangle) if argument == "TRIANGLE" else argument for argument in command]
    closed = "import os, sys; os.close(1); os.execv(sys.executable, [sys.executable, '-m', 'cpms', *sys.argv[1:]])"
    done = subprocess.run([sys.executable, "-c", closed, *arguments], stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(os.name != "posix", reason="pipes close otherwise")
def test_a_closed_pipe_differs_from_no_convergence(triangle):
    command = [sys.executable, "-m", "cpms", "rank", str(triangle)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        running.stdout.close()
        assert (running.wait(), running.stderr.read()) == (141, "")


def test_names_that_the_terminal_lacks_are_escaped(tmp_path):
    path = tmp_path / "names.txt"
    path.write_text("ä ö\nö ä\n", encoding="utf-8")
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-m", "cpms", "rank", path], env=ascii_only, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\xe4" in done.stdout
