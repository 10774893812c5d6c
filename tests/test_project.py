"""Licence, citation and changes: they are there, agree with the package, and go into what is built."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import cpms

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_metadata_and_source_archive_hold_the_licence():
    assert PROJECT["project"]["license"] == "BSD-3-Clause"
    assert PROJECT["project"]["license-files"] == ["LICENSE"]
    assert not any(name.startswith("License ::") for name in PROJECT["project"]["classifiers"])
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert {"LICENSE", "CITATION.cff", "CHANGELOG.md"} <= set(included)
    assert all((ROOT / name).exists() for name in included)
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert text.startswith("BSD 3-Clause License\n\nCopyright (c) 2026, the cpms developers\n")


def test_citation_has_what_its_format_asks_for_and_the_five_reports():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(cited)
    assert cited["version"] == cpms.__version__ == PROJECT["project"]["version"]
    assert cited["license"] == PROJECT["project"]["license"]
    assert [reference["title"].split()[0] for reference in cited["references"]] == [
        *("High-Performance", "PageRank", "PageRank", "Personalized", "PageRank_Thrust")
    ]
    for reference in cited["references"]:
        assert reference["type"] in ("conference-paper", "report", "software-code")
        assert all(
            {"family-names", "given-names"} <= set(author) or "alias" in author for author in reference["authors"]
        )
        assert isinstance(reference.get("year", 0), int)


@pytest.mark.parametrize("version", ["Unreleased", cpms.__version__])
def test_changes_have_a_section_for_this_version(version):
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert version in headings


def test_constraints_hold_each_dependency_to_the_lowest_version_that_is_declared():
    groups = [PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"].values()]
    declared = {Requirement(text) for group in groups for text in group}
    lines = (ROOT / "tests" / "lowest.txt").read_text(encoding="utf-8").splitlines()
    constraints = {Requirement(line) for line in lines if not line.startswith("#")}
    on_processors = {each for each in declared if not each.name.startswith("cupy")}  # CuPy is installed on GPUs alone.
    assert {(each.name, str(each.specifier).replace(">=", "==")) for each in on_processors} == {
        (each.name, str(each.specifier)) for each in constraints if each.name != "pyparsing"
    }
