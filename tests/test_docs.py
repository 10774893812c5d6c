"""The pages of docs become a site without a warning, its links lead somewhere, and the tutorial makes a figure."""

from __future__ import annotations

import ast
import builtins
import doctest
import importlib.util
import inspect
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import cpms
from cpms.base import errors
from cpms.cli.main import main

DOCS = Path(__file__).parents[1] / "docs"
LACKING = [name for name in ("sphinx", "myst_parser", "furo") if importlib.util.find_spec(name) is None]


class Page(HTMLParser):
    """The links, the anchors, and what is loaded of an HTML page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links, self.anchors, self.loaded = [], set(), []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.anchors.add(given.get("id"))
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in ("script", "img", "link", "iframe") and (source := given.get("src") or given.get("href")):
            self.loaded.append(source)


def broken(site: Path) -> list[str]:
    """Return the links of a site that lead nowhere, and what it loads from a network."""
    pages = {path.resolve(): Page(path) for path in site.rglob("*.html")}
    faults = []
    for path, page in pages.items():
        where = path.relative_to(site.resolve())
        for link in page.links + page.loaded:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                faults += [f"{where} loads {link}"] if link in page.loaded and parts.scheme != "data" else []
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                faults.append(f"{where}: {link}")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                faults.append(f"{where}: {link}, no such anchor")
    return faults


@pytest.mark.slow
@pytest.mark.skipif(bool(LACKING), reason=f"not installed: {', '.join(LACKING)}; pip install 'cpms[docs]'")
def test_the_site_is_built_without_a_warning_and_its_links_lead_somewhere(tmp_path):
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", str(tmp_path / "trees")]
    run = subprocess.run([*command, str(DOCS), str(tmp_path / "site")], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert broken(tmp_path / "site") == []


def test_broken_links_and_loads_are_found(tmp_path):
    (tmp_path / "other.html").write_text('<p id="here"></p>')
    links = ("other.html#here", "other.html#gone", "gone.html", "#gone", "https://example.org")
    text = "".join(f'<a href="{link}"></a>' for link in links) + '<script src="https://example.org/x.js"></script>'
    (tmp_path / "page.html").write_text(text)
    assert broken(tmp_path) == [
        "page.html: other.html#gone, no such anchor",
        "page.html: gone.html",
        "page.html: #gone, no such anchor",
        "page.html loads https://example.org/x.js",
    ]


@pytest.mark.quick
def test_the_api_page_has_every_public_name():
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    described = set(re.findall(r"^\.\. auto(?:class|function):: (\w+)$", text, re.MULTILINE))
    assert described | set(re.findall(r"^\| `cpms\.(\w+)` \|", text, re.MULTILINE)) == {*cpms.__all__} - {"__version__"}


@pytest.mark.quick
def examples_of(name: str) -> list[tuple[str, str]]:
    """Return the examples of a public name and of its methods, each as one program."""
    given = getattr(cpms, name) if hasattr(cpms, name) else getattr(cpms.check, name)
    parts = {name: given}
    if inspect.isclass(given):
        parts |= {f"{name}.{part}": value for part, value in vars(given).items() if not part.startswith("_")}
    texts = {part: inspect.getdoc(value) or "" for part, value in parts.items()}
    programs = {
        part: "".join(each.source for each in doctest.DocTestParser().get_examples(texts[part])) for part in texts
    }
    return [(part, program) for part, program in programs.items() if program]


def unbound(program: str) -> set[str]:
    """Return the names that a program reads and never binds."""
    nodes = list(ast.walk(ast.parse(program)))
    names = [node for node in nodes if isinstance(node, ast.Name)]
    bound = {node.id for node in names if isinstance(node.ctx, ast.Store)} | {
        n.arg for n in nodes if isinstance(n, ast.arg)
    }
    bound |= {
        node.name
        for node in nodes
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.ExceptHandler) and node.name
    }
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            bound |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    return {node.id for node in names if node.id not in bound and not hasattr(builtins, node.id)}


def test_what_an_example_lacks_is_found():
    assert unbound("import cpms\nx = cpms.encode([a for a in (1, 2)], CPMS4)") == {"CPMS4"}
    assert unbound("from cpms import CPMS4 as c\nclass A:\n    def f(self, k):\n        return k, c") == set()


@pytest.mark.parametrize("name", [*sorted(set(cpms.__all__) - {"__version__"}), *sorted(cpms.check.__all__)])
def test_an_example_of_the_api_page_runs_where_it_is_pasted(name):
    assert {part: unbound(program) for part, program in examples_of(name) if unbound(program)} == {}


def test_the_picture_of_formats_is_drawn_from_them():
    file = DOCS / "concepts" / "draw_formats.py"
    spec = importlib.util.spec_from_file_location("draw_formats", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.drawing() == file.with_name("formats.svg").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_tutorial_leads_from_an_edge_list_to_a_figure(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "tutorials" / "own_graph.md").read_text(encoding="utf-8")
    (config,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    edges, ranking, figure = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(edges, {})  # noqa: S102  # the project's own
    exec(ranking, {})  # noqa: S102
    Path("links.toml").write_text(config)
    Path("residuals.py").write_text(figure)
    commands = re.findall(r"^    cpms (.*)$", text, re.MULTILINE)
    assert [main(command.split()) for command in commands] == [0] * len(commands)
    made = {path.name for path in Path("out").iterdir()}
    assert Path("history.pdf").is_file()
    assert {
        "links.jsonl",
        "links_speedup.pdf",
        "residuals.pdf",
        "residuals.svg",
        "residuals.png",
        "residuals.tex",
    } <= made
    assert Path("ranks.csv").read_text().count("\n") == 5
    assert sum(name.startswith("links_") and name.endswith(".pdf") for name in made) == 6


@pytest.mark.slow
def test_the_tutorial_leads_from_rows_to_an_artifact_and_a_paper(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    text = (DOCS / "tutorials" / "paper_artifact.md").read_text(encoding="utf-8")
    for language, file in (("toml", "ranking.toml"), ("latex", "paper.tex")):
        (block,) = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
        Path(file).write_text(block)
    *commands, paper = [line.split() for line in re.findall(r"^    (\S.*)$", text, re.MULTILINE)]
    for program, *given in commands:
        if program == "cpms":
            assert main(given) == 0
        else:
            subprocess.run([sys.executable if program == "python" else program, *given], check=True)
    held, again = (
        {path.name: path.read_bytes() for path in Path("stranger/artifact", each).glob("*.pdf")}
        for each in ("figures", "rebuilt")
    )
    assert len(held) == 5
    assert held == again
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed; all but the paper is made")
    assert main(paper[1:]) == 0
    assert Path("artifact/paper.pdf").read_bytes().startswith(b"%PDF")


def slug(heading):
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


@pytest.mark.parametrize("module", errors.PAGES)
def test_the_page_of_an_error_has_its_heading(module):
    import_module(module)
    page, _, anchor = errors.PAGES[module].partition("#")
    headings = re.findall(r"^#+ (.*)", (DOCS.parent / page).read_text(encoding="utf-8"), re.MULTILINE)
    assert not anchor or anchor in map(slug, headings)


def test_an_error_names_its_page(capsys):
    with pytest.raises(cpms.InputError) as caught:
        cpms.load("nothing.txt")
    assert caught.value.page == "docs/graphs.md"
    assert caught.value.__notes__ == ["see docs/graphs.md"]
    assert main(["rank", "nothing.txt"]) == 2
    assert capsys.readouterr().err.endswith(" (see docs/graphs.md)\n")
