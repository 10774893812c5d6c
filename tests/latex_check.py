"""Whether LaTeX compiles: by pdflatex, and where that is missing by a checker of braces, environments and specials.

And whether rows of a table that is split by columns can be told apart in each part.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

PACKAGES = "array,booktabs,longtable,pdflscape"
_SETTING = (
    r"caption|label|toprule|midrule|bottomrule|endhead|endfirsthead|endfoot|centering|begingroup|endgroup|setlength|"
    r"tabcolsep|LTcapwidth|linewidth|raggedright|arraybackslash|normalsize|footnotesize|scriptsize|"
    r"rlap|phantom|textbf"
)
_CHARACTERS = (
    r"times|cdot|ldots|char|textbackslash|textasciicircum|textasciitilde|textless|textgreater|textbar|"
    r"ss|ae|AE|oe|OE|o|O|l|L"
)
_COMMANDS = f"{_SETTING}|{_CHARACTERS}".split("|")


def faults(text: str) -> list[str]:
    """Return what is wrong with LaTeX that may use those commands alone."""
    text = text.removeprefix(f"% packages: {PACKAGES.replace(',', ', ')}\n")
    text = re.sub(r"\\(label|ref)\{[A-Za-z0-9:._-]*\}", "", text)
    found, depth, inside, dollars = [], 0, [], 0
    for token in re.finditer(r"\\(?:begin|end)\{\w+\}|\\[A-Za-z]+|\\.|[\s\S]", text):
        piece = token[0]
        if piece.startswith(r"\begin{"):
            inside.append(piece[7:-1])
        elif piece.startswith(r"\end{"):
            if not inside or inside.pop() != piece[5:-1]:
                found.append(f"{piece} ends another environment")
        elif re.fullmatch(r"\\[A-Za-z]{2,}|\\[lLoO]", piece):
            found += [] if piece[1:] in _COMMANDS else [f"unknown {piece}"]
        elif piece in "{}":
            depth += 1 if piece == "{" else -1
            found += ["} without {"] if depth < 0 else []
        elif piece in "#%^_~" or not piece.isascii() or (not piece.isprintable() and piece != "\n"):
            found.append(f"{piece!r} is not escaped")
        dollars += piece == "$"
        found += ["& in no table"] if piece == "&" and not inside else []
    found += [f"{depth} braces and {inside} are open"] if depth or inside else []
    return found + (["a dollar is alone"] if dollars % 2 else [])


def alike(text: str) -> list[str]:
    """Return the lines of the parts of a table that the columns of all parts do not tell from another line."""
    parts = [part.partition("\n\\bottomrule\n\\end{tabular}")[0] for part in text.split("\\toprule\n")[1:]]
    parts = [part for part in parts if "\\endfirsthead" not in part]
    heads = [part.partition(" \\\\\n\\midrule\n")[0].split(" & ") for part in parts]
    if len(parts) < 2:
        return []
    common, found = [head for head in heads[0] if all(head in others for others in heads[1:])], []
    for head, part in zip(heads, parts, strict=True):
        body = part.partition(" \\\\\n\\midrule\n")[2].partition("\\endfoot\n")
        lines = (body[2] or body[0]).partition("\n\\end{longtable}")[0].split(" \\\\\n")
        keys = [tuple(line.split(" & ")[head.index(each)] for each in common) for line in lines]
        found += [line for line, key in zip(lines, keys, strict=True) if keys.count(key) > 1]
    return found


def check_latex(files: list[Path], folder: Path) -> None:
    """Check that tables compile, fit their page and have lines that differ; without pdflatex, by the checker alone."""
    found = {file.name: [*faults(text), *alike(text)] for file in files for text in [file.read_text()]}
    assert {name: each for name, each in found.items() if each} == {}
    if files and shutil.which("pdflatex"):
        log = compile_all(files, folder)
        assert log.count("\nFILE ") == len(files)
        assert "Overfull" not in log
        assert "too large" not in log


def compile_all(files: list[Path], folder: Path) -> str:
    """Compile tables with pdflatex in one document and return its log; the test is skipped without pdflatex."""
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed; the checker alone has looked")
    inputs = "\n".join(f"\\typeout{{FILE {path.name}}}\\input{{{path}}}\\clearpage" for path in files)
    document = f"\\documentclass{{article}}\\usepackage{{{PACKAGES}}}\\begin{{document}}\n{inputs}\n\\end{{document}}\n"
    (folder / "all.tex").write_text(document)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "all.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    log = done.stdout.decode(errors="replace")
    assert done.returncode == 0, log[-2000:]
    return log
