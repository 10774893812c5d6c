"""No identifier and no file name is a private word for an idea that the field names; see docs/glossary.md."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from house_rules import identifiers

TREE = Path(os.environ.get("CPMS_TREE") or Path(__file__).parents[1])
# Each word stands for an idea that numerical linear algebra, graph processing or CUDA names otherwise. An underscore
# joins words that are private together alone.
PRIVATE = {
    "aim": "set_teleport",
    "aimed": "set_teleport",
    "came": "arrived",
    "cached_walk": "segmented_sum_in_cache",
    "come": "arrive",
    "deal": "propagation_blocking",
    "deals": "propagation_blocking",
    "dealt": "propagation_blocking",
    "fades": "converges",
    "fades_fast": "converges_fast",
    "glimpse": "load_relaxed",
    "glimpsed": "load_relaxed",
    "goes_on": "resume",
    "gone_on": "resume",
    "hear": "peer_signals",
    "heard": "received_totals",
    "lend": "vector_pool",
    "lent": "vector_pool",
    "low_limit": "inner_max_iterations",
    "low_until": "inner_tolerance",
    "one_by_one": "sequential",
    "peel": "trimming",
    "peeled": "trimmed",
    "peeling": "trimming",
    "put_down": "transpose",
    "referee": "certifier",
    "refines_in": "default_residual_format",
    "room_for_report": "report_buffer",
    "sends_back": "dangling_follows_teleport",
    "settle": "deferred_update",
    "settled": "deferred_update",
    "settles": "deferred_update",
    "stay": "persistent",
    "stays": "persistent, or rounding_error",
    "strand": "chunk",
    "strands": "chunks",
    "taken_up": "transpose",
    "talk": "peer_signals",
    "told": "rank_totals",
    "unsettled": "deferred_update",
    "verdict": "certified status",
    "what_pays": "AUTO",
}
# A cell's name is a hash of its keys, which stay; this file alone translates them to the names of the code.
KEYS_OF_ROWS = {"cpms/experiment/kinds/sweeps.py": {"deal"}}
ENDINGS = {".py", ".cu", ".cuh", ".hpp", ".h", ".cl"}
NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', re.DOTALL)


def words_of(name: str) -> str:
    """Return a name's words in lower case between underscores: ``_in_two_words_`` of ``inTwoWords``."""
    return "_".join(["", *re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name), ""]).lower()


@cache
def private_words(name: str) -> frozenset[str]:
    words = words_of(name)
    return frozenset(private for private in PRIVATE if f"_{private}_" in words)


def names_in(path: Path) -> Iterator[tuple[int, str]]:
    """Yield identifiers of a file of Python, CUDA or OpenCL with their lines; none of comments and texts."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            yield from ((getattr(node, "lineno", 1), name) for name in identifiers(node))
        return
    code = NO_CODE.sub(lambda found: "\n" * found[0].count("\n"), text)
    for number, line in enumerate(code.splitlines(), start=1):
        yield from ((number, name) for name in re.findall(r"[A-Za-z_]\w*", line))


def faults(root: Path) -> list[str]:
    """Return where private words are names, each with the name that the field has."""
    found = {}
    for path in (*root.glob("cpms/**/*"), *root.glob("kernels/**/*")):
        if path.suffix not in ENDINGS or {"_shipped", "__pycache__"} & set(path.parts):
            continue
        file = path.relative_to(root).as_posix()
        for line, name in [(0, file), *names_in(path)]:
            for private in private_words(name) - KEYS_OF_ROWS.get(file, set()):
                where = f"{file}:{line}: {name}" if line else f"{file}: its path"
                found[where] = f"{where} ({private}: {PRIVATE[private]})"
    return sorted(found.values())


@pytest.mark.quick
def test_no_private_word_is_a_name() -> None:
    found = faults(TREE)
    assert not found, f"{len(found)} names:\n" + "\n".join(found)


@pytest.mark.quick
@pytest.mark.parametrize("word", PRIVATE)
def test_each_word_is_found(tmp_path: Path, word: str) -> None:
    camel = "".join(map(str.capitalize, word.split("_")))
    texts = {
        "cpms/base/parameter.py": f"def f(to_{word}): ...\n",
        "cpms/base/attribute.py": f"x = f'{{y.{word}_7}}'\n",
        "cpms/base/imported.py": f"from cpms.base import {word} as z\n",
        "cpms/base/klass.py": f"class Not{camel}: ...\n",
        f"cpms/base/{word}.py": "",
        "kernels/cuda/base/name.cuh": f"// A line.\nconst int {word.upper()}_SIZE = 1;\n",
        f"kernels/cuda/base/with_{word}.cuh": "",
        "kernels/opencl/name.cl": f"int {word};\n",
    }
    for file, text in texts.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    assert {line.split(":")[0] for line in faults(tmp_path)} == set(texts)


@pytest.mark.quick
def test_other_words_keys_comments_and_texts_are_no_faults(tmp_path: Path) -> None:
    texts = {
        "cpms/experiment/kinds/sweeps.py": "deal: bool = True\n",
        "cpms/base/words.py": '"""Told."""\nsettings = stable = strandless = "deal"  # They stay.\n',
        "kernels/cuda/base/words.cuh": '/* told\n heard */ const char* ideal = "lent"; // stay\n',
    }
    for file, text in texts.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    assert faults(tmp_path) == []
