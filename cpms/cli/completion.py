"""``cpms completion``: a script that lets a shell complete commands, options and names.

The script is made of the parsers of all commands, so that it has each option once it exists. Names of formats, engines,
layouts, experiments and data sets are those at the moment when it is made; a shell that starts with the command
``source <(cpms completion bash)`` has the present ones.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from typing import Any, NamedTuple

from cpms.base.text.terminal import say

SHELLS = ("bash", "zsh", "fish")


class Option(NamedTuple):
    """An option of a command."""

    names: list[str]
    help: str
    takes_value: bool
    values: list[str]


class Command(NamedTuple):
    """A command with its options, the words that its arguments can be besides files, and the ending of these files."""

    name: str
    help: str
    options: list[Option]
    words: list[str]
    ending: str = ""


def add(parsers: Any) -> None:
    """Describe the command."""
    parser = parsers.add_parser(
        "completion",
        help="print a script for the completion of a shell",
        description="Print a script by which a shell completes commands, options and names.",
        epilog="example: cpms completion zsh > ~/.zfunc/_cpms; cpms completion fish > "
        "~/.config/fish/completions/cpms.fish; for bash, add 'source <(cpms completion bash)' to ~/.bashrc",
    )
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))


def call(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from cpms.cli.main import parser

    (choices,) = (action for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
    helps = {action.dest: str(action.help) for action in choices._choices_actions}
    commands = [_command(name, helps[name], each) for name, each in choices.choices.items()]
    say(*_SCRIPTS[arguments.shell](commands).splitlines())
    return 0


def _command(name: str, text: str, parser: argparse.ArgumentParser) -> Command:
    options, words = [], []
    for action in parser._actions:
        values = [str(each) for each in action.choices or _names(action.dest)]
        if action.option_strings:
            takes_value = action.nargs != 0
            options.append(Option(list(action.option_strings), _plain(action.help or ""), takes_value, values))
        else:
            words += [*values, *_arguments(name)]
    return Command(name, _plain(text), options, words, ".jsonl" if name == "compare" else "")


def _names(option: str) -> list[str]:
    """Return the names that an option can have besides those that its parser knows."""
    from cpms import engines
    from cpms.base.package_data import experiments
    from cpms.experiment.config_types import layout_names
    from cpms.formats.formats import names

    if option == "experiment":
        return list(experiments())
    known = {"storage": names, "engine": engines.names, "layout": layout_names}
    return ["auto", *known[option]()] if option in known else []


def _arguments(command: str) -> list[str]:
    """Return the names that the argument of a command can be, besides a file or a folder; compare takes these alone."""
    from cpms.base.package_data import experiments, folder, show_programs
    from cpms.sources.datasets import DATASETS

    if command == "run":
        return list(experiments())
    if command == "show":
        return ["all", *show_programs()]
    if command in ("rows", "report", "artifact"):
        return [path.stem for path in sorted((folder("experiments") / "results").glob("*.jsonl"))]
    return list(DATASETS) if command in ("rank", "convert") else []


def _plain(text: str) -> str:
    return " ".join(text.replace("%%", "%").split())


def bash(commands: Sequence[Command]) -> str:
    """Return the script for bash: a function that looks at the command and at the word before the present one."""
    cases = []
    for each in commands:
        valued = [option for option in each.options if option.takes_value]
        values = [f"        {'|'.join(option.names)}) {_offer(option.values)} ;;\n" for option in valued]
        flags = [name for option in each.options for name in option.names]
        cases.append(
            f'    {each.name})\n      case "$before" in\n{"".join(values)}      esac\n'
            f'      case "$word" in\n        -*) {_offer(flags, files=False)} ;;\n      esac\n'
            f"      {_offer(each.words, ending=each.ending)} ;;\n"
        )
    names = [*(each.name for each in commands), "--help", "--version"]
    return (
        "# Completion of cpms for bash: source <(cpms completion bash)\n"
        "_cpms() {\n"
        '  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"\n'
        f'  if [ "$COMP_CWORD" -le 1 ]; then {_offer(names, files=False)}; fi\n'
        f'  case "${{COMP_WORDS[1]}}" in\n{"".join(cases)}  esac\n}}\n'
        "complete -o filenames -F _cpms cpms\n"
    )


def _offer(words: Sequence[str], *, files: bool = True, ending: str = "") -> str:
    """Return the statement of bash that offers words, and files too where words are not all that there is.

    With an ending, such files and folders are all that it offers.
    """
    if ending:
        pattern = shlex.quote(f"!*{ending}")
        return f'COMPREPLY=($(compgen -f -X {pattern} -- "$word"; compgen -d -- "$word")); return'
    also = " -f" if files else ""
    return f'COMPREPLY=($(compgen{also} -W {shlex.quote(" ".join(words))} -- "$word")); return'


def zsh(commands: Sequence[Command]) -> str:
    """Return the script for zsh, a file ``_cpms`` of its function path, with the help of each option."""
    described = " ".join(shlex.quote(f"{each.name}:{each.help}") for each in commands)
    cases = []
    for each in commands:
        lines = [shlex.quote(line) for option in each.options for line in _zsh_option(option)]
        words = f"({' '.join(each.words)})" if each.words else ""
        ending = f' -g "*{each.ending}"' if each.ending else ""
        rest = shlex.quote(f"*:argument:{_zsh_values(words)}{ending}")
        cases.append(f"    {each.name}) _arguments {' '.join([*lines, rest])} ;;\n")
    return (
        "#compdef cpms\n# Completion of cpms for zsh: cpms completion zsh > ~/.zfunc/_cpms\n"
        f"_cpms() {{\n  local -a commands=({described})\n"
        "  if (( CURRENT == 2 )); then _describe command commands; return; fi\n"
        "  local command=$words[2]\n  shift words; (( CURRENT-- ))\n"
        f"  case $command in\n{''.join(cases)}  esac\n}}\n"
        'if [ "$funcstack[1]" = "_cpms" ]; then _cpms "$@"; else compdef _cpms cpms; fi\n'
    )


def _zsh_option(option: Option) -> list[str]:
    text = "".join(f"\\{each}" if each in "[]:" else each for each in option.help)
    value = f":value:{_zsh_values(f'({chr(32).join(option.values)})' if option.values else '')}"
    return [f"{name}[{text}]{value if option.takes_value else ''}" for name in option.names]


def _zsh_values(words: str) -> str:
    """Return what zsh offers: files, and words in brackets if there are any, with their colons escaped."""
    return f"_alternative 'w:name:{words.replace(':', chr(92) + ':')}' 'f:file:_files'" if words else "_files"


def fish(commands: Sequence[Command]) -> str:
    """Return the script for fish, with the help of each option."""
    lines = [
        "# Completion of cpms for fish: cpms completion fish > ~/.config/fish/completions/cpms.fish",
        f"complete -c cpms -n __fish_use_subcommand -f -l version -d {shlex.quote('print the version')}",
    ]
    for each in commands:
        lines.append(f"complete -c cpms -n __fish_use_subcommand -f -a {each.name} -d {shlex.quote(each.help)}")
        inside = f"complete -c cpms -n {shlex.quote(f'__fish_seen_subcommand_from {each.name}')}"
        if each.words:
            lines.append(f"{inside} -a {shlex.quote(' '.join(each.words))}")
        if each.ending:
            lines.append(f"{inside} -f -a '(__fish_complete_suffix {each.ending})'")
        for option in each.options:
            names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
            values = f" -r -a {shlex.quote(' '.join(option.values))}" if option.takes_value else ""
            lines.append(f"{inside} {names}{values} -d {shlex.quote(option.help)}")
    return "\n".join(lines) + "\n"


_SCRIPTS = {"bash": bash, "zsh": zsh, "fish": fish}
