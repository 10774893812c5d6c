"""Graphs in all files that ranks read shares of."""

from __future__ import annotations

import zipfile
from dataclasses import replace

import mpi_runs
import numpy as np
import pytest

import cpms
from cpms import Graph
from cpms.sources.readers.npz import save_npz


def rewritten_with_npy_headers_of_version_2(path, target):
    with np.load(path) as arrays, zipfile.ZipFile(target, "w") as archive:
        for name in arrays.files:
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, arrays[name], version=(2, 0))


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """Graphs in all files that ranks read shares of, with what such files may hold besides edges."""
    folder = tmp_path_factory.mktemp("graphs")
    graph = cpms.load("rmat:scale=12,edge_factor=5,seed=4")
    save_npz(graph, folder / "plain.npz")
    save_npz(mpi_runs.weighted(graph), folder / "weighted.npz")
    save_npz(Graph.from_edges([], [], nodes=3), folder / "empty.npz")
    save_npz(replace(graph, stand_in_for="europe_osm"), folder / "standin.npz")
    rewritten_with_npy_headers_of_version_2(folder / "plain.npz", folder / "version2.npz")
    lines = [f"{s} {t}" for s, t in zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)]
    middle = [*lines[:50], "", "# a comment in between", *lines[50:]]
    (folder / "long.txt").write_text("# a comment\nsource target\n" + "\n".join(middle))
    (folder / "marked.csv").write_bytes(b"\xef\xbb\xbf0,1,0.5\r\n1,2,2\r\n5,5,1e-3\r\n0,1,4\r\n")
    (folder / "one.el").write_text("7 3\n")
    plain = sorted(map(str, folder.iterdir()))
    joined = "id;from;to;kg\n" + "1;4;5;0.5\n2;5;4;0\n" * 40 + "id;from;to;kg\n# x\n" + '3;6;"7.0";2\n' * 40
    (folder / "joined.csv").write_text(joined)
    return [*plain, f"{folder / 'joined.csv'}|columns=from,to,kg|zero_weights=drop"]
