"""Text leaves the project through the modules that escape it, and through no other."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WRITERS = {
    "print": {"cpms/base/text/terminal.py"},
    "complain": {"cpms/base/program.py"},
    "tqdm": {"cpms/base/text/progress.py"},
    "to_csv": {"cpms/base/text/tables.py"},
    "savefig": {"cpms/experiment/report/figures.py"},
    "write_text": {
        "cpms/experiment/report/output.py",
        "cpms/experiment/artifact/pack.py",
        "cpms/experiment/artifact/software.py",
        "cpms/experiment/pages/measured_page.py",
        "cpms/experiment/rows/flat.py",
        "cpms/cli/results/report.py",
        "cpms/cli/results/pruning.py",
        "cpms/backends/cuda/runtime/host_emulation.py",
    },
    "escape": {"cpms/base/text/escape.py"},
    **{name: set() for name in ("to_latex", "to_markdown", "to_html", "to_string", "to_excel", "pprint", "writerow")},
}
"""Calls that write text, and the files that may have them; ``escape`` is of Python's module ``html``."""
STREAMS = ("stdout", "stderr")
MARKUP = (r"\begin{", r"\caption", r"\toprule", "<table", "<td", "|---")
"""What only a writer of LaTeX, HTML or Markdown has in its texts."""
MARKUP_WRITERS = {
    *(f"cpms/base/text/{name}.py" for name in ("html_table", "latex_table", "tables")),
    "cpms/experiment/report/html/html_report.py",
    *(f"cpms/experiment/pages/{name}_page.py" for name in ("config", "measured")),
    "cpms/experiment/rows/schema.py",
}
SOURCES = sorted([*(ROOT / "cpms").rglob("*.py"), *(ROOT / "experiments").rglob("*.py")])


def bypasses(source, name):
    """Yield the calls and texts of a program that write past the modules that escape."""
    tree = ast.parse(source)
    documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = getattr(node.func, "attr", getattr(node.func, "id", None))
            owner = getattr(getattr(node.func, "value", None), "attr", None)
            if called in WRITERS and name not in WRITERS[called] and not _of_re(node):
                yield f"{name}, line {node.lineno}: {called}"
            if called in ("write", "writelines") and owner in STREAMS:
                yield f"{name}, line {node.lineno}: {owner}.{called}"
        if isinstance(node, ast.Constant) and id(node) not in documented and name not in MARKUP_WRITERS:
            for mark in filter(str(node.value).__contains__, MARKUP):
                yield f"{name}, line {node.lineno}: {mark} in a text"


def _of_re(call):
    return isinstance(call.func, ast.Attribute) and getattr(call.func.value, "id", None) == "re"


def test_nothing_writes_past_the_modules_that_escape():
    found = [each for path in SOURCES for each in bypasses(path.read_text(), path.relative_to(ROOT).as_posix())]
    assert found == []


@pytest.mark.parametrize(
    "program",
    [
        "print(name)",
        "sys.stderr.write(name)",
        "table.to_latex()",
        "table.to_csv(path)",
        "figure.savefig(path)",
        "html.escape(name)",
        "from tqdm import tqdm\ntqdm(cells, desc=name)",
        r"text = f'\\caption{{{name}}}'",
    ],
)
def test_what_writes_past_them_is_found(program):
    assert list(bypasses(program, "cpms/commands/mine.py"))
