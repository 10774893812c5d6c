"""Scripts of completion: every shell takes its own, and completes commands, options, formats and experiments."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from cpms.cli.main import COMMANDS, main

LINES = {
    "cpms sh": {"show"},
    "cpms run quick": {"quickstart"},
    "cpms rank --storage cpms4": {"cpms4", "cpms4-planes"},
    "cpms solve --precond": {"--preconditioner", "--preconditioner-storage"},
}


def written(shell, folder, capsys):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    assert main(["completion", shell]) == 0
    path = folder / f"cpms.{shell}"
    path.write_text(capsys.readouterr().out)
    return path


def printed(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_bash_completes_with_it(tmp_path, capsys):
    path = written("bash", tmp_path, capsys)
    for line, expected in LINES.items():
        words = line.split()
        asked = f"COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _cpms; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        assert set(printed("bash", "-c", f"cd /; source {path}; {asked}").split()) == expected


def test_fish_completes_with_it(tmp_path, capsys):
    path = written("fish", tmp_path, capsys)
    for line, expected in LINES.items():
        found = printed("fish", "--no-config", "-c", f"cd /; source {path}; complete -C '{line}'")
        assert {each.split("\t")[0] for each in found.splitlines()} >= expected


@pytest.mark.parametrize("argument", [2, 3])
def test_bash_offers_files_of_rows_and_folders_to_compare(argument, tmp_path, capsys):
    path = written("bash", tmp_path, capsys)
    (tmp_path / "runs").mkdir()
    for name in ("rows.jsonl", "rows.config.toml", "regret"):
        (tmp_path / name).touch()
    words = ["cpms", "compare", *["rows.jsonl"] * (argument - 2), "r"]
    asked = f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={argument}; _cpms; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    assert sorted(printed("bash", "-c", f"cd {tmp_path}; source {path}; {asked}").split()) == ["rows.jsonl", "runs"]


def test_fish_offers_files_of_rows_and_folders_to_compare(tmp_path, capsys):
    path = written("fish", tmp_path, capsys)
    (tmp_path / "runs").mkdir()
    for name in ("rows.jsonl", "regret"):
        (tmp_path / name).touch()
    asked = f"cd {tmp_path}; source {path}; complete -C 'cpms compare r'"
    found = {each.split("\t")[0] for each in printed("fish", "--no-config", "-c", asked).splitlines()}
    assert found >= {"rows.jsonl", "runs/"}
    assert not {each for each in found if each.startswith("regret_")}


def test_zsh_offers_files_of_rows_to_compare(capsys):
    assert main(["completion", "zsh"]) == 0
    (line,) = (each for each in capsys.readouterr().out.splitlines() if each.startswith("    compare) "))
    assert line.endswith("""'*:argument:_files -g "*.jsonl"' ;;""")


def test_zsh_takes_it(tmp_path, capsys):
    path = written("zsh", tmp_path, capsys)
    asked = f"autoload -U compinit; compinit -D -u; source {path}; echo $_comps[cpms]"
    assert printed("zsh", "-f", "-c", asked) == "_cpms\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_is_in_each_script(shell, capsys):
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert all(f" {name}" in text or f"'{name}:" in text for name in COMMANDS)


def test_an_unknown_shell_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["completion", "tcsh"])
    assert "bash" in capsys.readouterr().err
