"""Kernel folders include only what lies below them, and stay small."""

import re

import kernel_catalogue
import pytest

from cpms.backends.cuda.kernels import source

ORDER = (
    "host",
    "base",
    "certificate",
    "convert",
    "spmv",
    "persistent",
    "pagerank",
    "preprocess",
    "batch",
    "multi_gpu",
    "topk",
    "product",
    "krylov",
)
BESIDE = {("multi_gpu", "batch"), ("multi_gpu", "preprocess"), ("topk", "batch"), ("topk", "multi_gpu")}
MOST_FILES, MOST_LINES = 15, 350


def files():
    return sorted(path for path in source.folder().rglob("*") if path.is_file())


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(source.folder())))
def test_a_file_includes_only_what_is_below(path):
    text, folder = path.read_text(), path.parent.name
    assert text.startswith("// ")
    assert text.count("\n") <= MOST_LINES
    for included in re.findall(r'^#include "([^"]+)"$', text, re.MULTILINE):
        other = included.split("/")[0]
        assert (source.folder() / included).is_file()
        assert ORDER.index(other) <= ORDER.index(folder)
        assert (folder, other) not in BESIDE


def test_folders_are_known_and_small():
    folders = {path.parent.name for path in files()}
    assert folders == set(ORDER)
    for folder in folders:
        assert len(list((source.folder() / folder).iterdir())) <= MOST_FILES


def test_kernels_are_in_files():
    for group in kernel_catalogue.every().values():
        for variant in group:
            assert (source.folder() / variant.file).is_file()
