"""The Python in README and docs runs, what they name exists, README is short, and the glossary has each term once."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MOST_WORDS = 900


def blocks(page):
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.stem)
def test_its_python_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    if page.stem == "refine":  # It goes on from README.
        exec(compile(blocks(PAGES[0])[0], str(PAGES[0]), "exec"), names)  # noqa: S102  # the project's own
    for block in blocks(page):
        if file := re.match(r"# (\w+\.py)\n", block):
            Path(file[1]).write_text(block)
        exec(compile(block, str(page), "exec"), names)  # noqa: S102  # the project's own
    for name in list(names):
        if name.startswith("test_"):
            names[name]()


@pytest.mark.quick
def test_readme_is_short_and_its_links_lead_somewhere():
    text = PAGES[0].read_text(encoding="utf-8")
    assert len(text.split()) <= MOST_WORDS
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert "://" in link or (page.parent / link).exists(), f"{page.name}: {link}"


@pytest.mark.quick
@pytest.mark.parametrize("page", [*PAGES, ROOT / ".github" / "CONTRIBUTING.md"], ids=lambda page: page.stem)
def test_paths_that_it_names_exist(page):
    named = re.findall(r"`([\w.-]+(?:/[\w.-]+)+)`", page.read_text(encoding="utf-8"))
    below = [ROOT, ROOT / "cpms", ROOT / "kernels" / "cuda"] if page.stem == "glossary" else [ROOT]
    named = [path for path in named if not re.search("NAME|EXPERIMENT", path)]
    assert not [path for path in named if not any((root / path).exists() for root in below)]


@pytest.mark.quick
def test_the_page_of_rooms_has_the_stops_of_readme_and_the_names_in_them():
    path = r"`([\w.-]+(?:/[\w.-]+)+)`"
    rooms = (ROOT / "docs" / "which_room.md").read_text(encoding="utf-8")
    table = PAGES[0].read_text(encoding="utf-8").partition("## Which room")[2].partition("## More")[0]
    assert [stop for stop in re.findall(path, table) if stop not in rooms] == []
    for text in (table, rooms):
        named = re.findall(rf"`(\w+)` of {path}", text)
        assert len(named) > 1
        for name, file in named:
            assert re.search(rf"\b{name}\b", (ROOT / file).read_text(encoding="utf-8")), f"{file} has no {name}"


@pytest.mark.quick
def test_experiments_that_pages_show_exist():
    known = {path.stem for path in (ROOT / "experiments" / "figures").rglob("*.py")} | {"all", "NAME"}
    for page in PAGES:
        assert set(re.findall(r"cpms show (\w+)(?!\w*\.(?:py|toml))", page.read_text(encoding="utf-8"))) <= known


@pytest.mark.quick
def test_the_glossary_has_each_term_once():
    lines = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines()
    rows = [line.split("|")[1:-1] for line in lines if line.startswith("| ") and not line.startswith("| term ")]
    assert len(rows) > 50
    assert {len(row) for row in rows} == {5}
    terms = [term.strip() for row in rows for term in row[0].split(",")]
    assert sorted(terms) == sorted(set(terms))
