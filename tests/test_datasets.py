"""Graphs by name: the data folder first, then the cache, then a checked download; tried on a server on localhost."""

import functools
import hashlib
import http.server
import io
import tarfile
import threading
from dataclasses import replace

import pytest

from cpms import datasets
from cpms.errors import InputError

EDGES = "%%MatrixMarket matrix coordinate pattern general\n3 3 3\n1 2\n2 3\n1 3\n"


def archive(name):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        info = tarfile.TarInfo(f"{name}/{name}.mtx")
        info.size = len(EDGES)
        tar.addfile(info, io.BytesIO(EDGES.encode()))
    return buffer.getvalue()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setattr(datasets, "cache_folder", lambda: folder)
    monkeypatch.delenv("CPMS_DATA", raising=False)
    return folder


@pytest.fixture
def server(tmp_path):
    """A server of one archive, ``tiny.tar.gz``; its address, and the archive's bytes."""
    folder = tmp_path / "served"
    folder.mkdir()
    content = archive("tiny")
    (folder / "tiny.tar.gz").write_bytes(content)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as serving:
        thread = threading.Thread(target=serving.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{serving.server_port}", content
        serving.shutdown()
        thread.join()


@pytest.fixture
def tiny(monkeypatch, server):
    record = replace(
        datasets.DATASETS["wiki-Vote"], name="tiny", nodes=3, edges=3, empty_rows=1,
        sha256=hashlib.sha256(server[1]).hexdigest(), collection=None,
    )  # fmt: skip
    monkeypatch.setitem(datasets.DATASETS, "tiny", record)
    return record


def test_download_is_checked_kept_and_found_again(cache, server, tiny):
    graph = datasets.load("tiny", base_url=server[0])
    assert (graph.name, graph.nodes, graph.edges, graph.first_id) == ("tiny", 3, 3, 1)
    assert datasets.locate("tiny") == cache / "tiny.tar.gz"
    assert [path.name for path in cache.iterdir()] == ["tiny.tar.gz"]
    assert datasets.load("tiny", base_url="http://127.0.0.1:1").edges == 3


def test_wrong_checksum_leaves_nothing(cache, server, tiny, monkeypatch):
    monkeypatch.setitem(datasets.DATASETS, "tiny", replace(tiny, sha256="0" * 64))
    with pytest.raises(InputError, match=r"tiny.*by hand"):
        datasets.load("tiny", base_url=server[0])
    assert not list(cache.glob("tiny*"))


def test_wrong_counts_are_refused(cache, server, tiny, monkeypatch):
    monkeypatch.setitem(datasets.DATASETS, "tiny", replace(tiny, edges=4))
    with pytest.raises(InputError, match="tiny"):
        datasets.load("tiny", base_url=server[0])


@pytest.mark.parametrize("address", ["http://127.0.0.1:1", None])
def test_no_server_says_where_to_put_the_file(cache, tiny, address):
    with pytest.raises(InputError, match="by hand"):
        datasets.fetch("tiny", base_url=address)


def test_missing_file_on_the_server(cache, server, monkeypatch, tiny):
    monkeypatch.setitem(datasets.DATASETS, "other", replace(tiny, name="other"))
    with pytest.raises(InputError, match="404"):
        datasets.fetch("other", base_url=server[0])


def test_the_data_folder_comes_first(cache, tmp_path, monkeypatch, server, tiny):
    datasets.load("tiny", base_url=server[0])
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "tiny.mtx").write_text(EDGES)
    monkeypatch.setenv("CPMS_DATA", str(folder))
    assert datasets.locate("tiny") == folder / "tiny.mtx"


def test_a_data_folder_that_is_none_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("CPMS_DATA", str(tmp_path / "absent"))
    with pytest.raises(InputError, match="CPMS_DATA"):
        datasets.locate("wiki-Vote")


@pytest.mark.parametrize("name", ["", "../x", "a/b", "atlantis"])
def test_names_are_not_paths(cache, name):
    assert datasets.locate(name) is None
    with pytest.raises(InputError):
        datasets.fetch(name)


KNOWN = [record.name for record in datasets.catalogue() if record.sha256]


@pytest.mark.parametrize("name", KNOWN)
def test_real_graphs_have_the_published_counts(cpms_data, name):
    graph, record = datasets.load(name), datasets.DATASETS[name]
    assert (graph.nodes, graph.edges, len(graph.dangling_nodes)) == (record.nodes, record.edges, record.empty_rows)
    assert int((graph.sources == graph.targets).sum()) == record.self_loops


def test_the_papers_ten_graphs_are_known():
    assert sum(record.paper for record in datasets.catalogue()) == 10
