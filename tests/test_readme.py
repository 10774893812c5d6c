"""The Python in README and docs runs as it stands, and README stays short."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
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
