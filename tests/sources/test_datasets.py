"""Data sets by name: the user's folder first, then the cache, then a download that is whole or not at all."""

from __future__ import annotations

import gc
import hashlib
import io
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

import cpms
from cpms import InputError
from cpms.sources import datasets
from cpms.sources.dataset_records import Dataset

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")

MATRIX = b"%%MatrixMarket matrix coordinate pattern general\n4 4 5\n1 2\n2 3\n3 1\n1 3\n3 3\n"


def packed(name: str, matrix: bytes = MATRIX) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        info = tarfile.TarInfo(f"{name}/{name}.mtx")
        info.size = len(matrix)
        tar.addfile(info, io.BytesIO(matrix))
    return buffer.getvalue()


ARCHIVE = packed("tiny")
TINY = Dataset(
    name="tiny",
    kind="test",
    nodes=4,
    edges=5,
    empty_rows=1,
    iterations=9,
    origin="this test",
    collection="Group/tiny",
    sha256=hashlib.sha256(ARCHIVE).hexdigest(),
)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Let the data folder be unset, the cache empty, and the catalogue know a graph named tiny."""
    folder = tmp_path / "cache"
    monkeypatch.delenv("CPMS_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(datasets, "cache_folder", lambda: folder)
    monkeypatch.setitem(datasets.DATASETS, "tiny", TINY)
    yield folder
    gc.collect()  # pooch leaves the sockets of failed downloads to the collector


@pytest.fixture(scope="module")
def server():
    """Serve /good, /other, /short (fewer bytes than announced), /html and /MM; elsewhere nothing is found."""
    requested: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            requested.append(self.path)
            body = {
                "/good/tiny.tar.gz": ARCHIVE,
                "/other/tiny.tar.gz": packed("tiny", MATRIX.replace(b"1 3\n", b"2 1\n")),
                "/short/tiny.tar.gz": ARCHIVE[:-20],
                "/html/tiny.tar.gz": b"<html>please log in</html>",
                "/MM/Group/tiny.tar.gz": ARCHIVE,
                "/MM/Else/tiny.tar.gz": packed("tiny", MATRIX.replace(b"1 3\n", b"4 1\n")),
            }.get(self.path)
            if body is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(ARCHIVE) if "/short/" in self.path else len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{running.server_address[1]}", requested
    running.shutdown()
    running.server_close()
    thread.join()


def files(folder) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file()) if folder.exists() else []


def test_download_is_checked_kept_and_not_repeated(cache, server, capfd):
    url, requested = server
    requested.clear()
    for _ in range(2):
        datasets.fetch("tiny", base_url=f"{url}/good/", progress=False)
        graph = cpms.load("tiny")
        assert (graph.name, graph.nodes, graph.edges, graph.first_id) == ("tiny", 4, 5, 1)
    assert requested == ["/good/tiny.tar.gz"]
    assert files(cache) == ["tiny.tar.gz"]
    assert datasets.locate("tiny") == cache / "tiny.tar.gz"
    assert capfd.readouterr() == ("", "")


def test_download_shows_a_progress_bar_on_standard_error(cache, server, capfd):
    datasets.fetch("tiny", base_url=f"{server[0]}/good", progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "100%" in err
    assert files(cache) == ["tiny.tar.gz"]


@pytest.mark.parametrize(
    ("folder", "reason"),
    [("other", "hash"), ("html", "hash"), ("short", "IncompleteRead"), ("missing", "404")],
)
def test_failed_downloads_leave_nothing_and_say_what_to_do(cache, server, folder, reason):
    with pytest.raises(
        InputError, match=rf"tiny: the download from http.*{reason}.*put tiny\.tar\.gz by hand"
    ) as caught:
        datasets.fetch("tiny", base_url=f"{server[0]}/{folder}", progress=False)
    assert "CPMS_DATA" in str(caught.value)
    assert str(cache) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert files(cache) == []


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "ftp2://nowhere", "http://[broken"])
def test_no_network_is_a_sentence(cache, url):
    with pytest.raises(InputError, match=r"tiny: the download from .* failed .*by hand"):
        datasets.fetch("tiny", base_url=url, progress=False)
    assert files(cache) == []


def test_the_collection_is_asked_by_default_and_proved_by_counts(cache, server, monkeypatch):
    url, requested = server
    requested.clear()
    monkeypatch.setattr(datasets, "COLLECTION_URL", f"{url}/MM")
    assert cpms.load("tiny").edges == 5
    assert requested == ["/MM/Group/tiny.tar.gz"]
    (cache / "tiny.tar.gz").unlink()
    monkeypatch.setitem(datasets.DATASETS, "tiny", Dataset(**{**vars(TINY), "collection": "Else/tiny"}))
    with pytest.raises(InputError, match=r"it is not that graph, tiny\.tar\.gz: .* \(4, 5, 0\), but .*by hand"):
        cpms.load("tiny")
    assert list(cache.iterdir()) == []


def test_a_download_without_a_checksum_is_kept_only_if_it_is_a_graph(cache, server, monkeypatch):
    monkeypatch.setattr(datasets, "COLLECTION_URL", f"{server[0]}/html")
    monkeypatch.setitem(datasets.DATASETS, "tiny", Dataset(**{**vars(TINY), "collection": "tiny"}))
    with pytest.raises(InputError, match=r"failed \(it is not that graph, tiny\.tar\.gz: unreadable near byte"):
        cpms.load("tiny")
    assert list(cache.iterdir()) == []


def test_a_graph_without_public_source_says_where_to_put_it(cache):
    with pytest.raises(InputError, match=r"hollins: there is no public download known; put hollins\.tar\.gz by hand"):
        cpms.load("hollins")
    with pytest.raises(InputError, match="'nothing' is not in the catalogue; it holds web-Google-scc, "):
        datasets.fetch("nothing")


def test_the_users_folder_comes_first_with_any_kind_of_file(cache, tmp_path, monkeypatch):
    mine = tmp_path / "mine"
    mine.mkdir()
    cache.mkdir()
    (cache / "tiny.tar.gz").write_bytes(ARCHIVE)
    monkeypatch.setenv("CPMS_DATA", str(mine))
    assert datasets.locate("tiny") == cache / "tiny.tar.gz"
    (mine / "tiny.mtx").write_bytes(MATRIX)
    (mine / "unlisted.txt").write_text("0 1\n")
    assert datasets.locate("tiny") == mine / "tiny.mtx"
    assert cpms.load("tiny").edges == 5
    assert cpms.load("unlisted").edges == 1
    assert datasets.locate("absent") is None
    for outside in ("", ".", "..", "../mine/tiny", "mine/tiny", "x" * 5000, "tiny\0"):
        assert datasets.locate(outside) is None


def test_counts_are_compared_only_if_every_entry_was_kept(cache, monkeypatch):
    cache.mkdir()
    (cache / "tiny.tar.gz").write_bytes(ARCHIVE)
    assert cpms.load("tiny", self_loops="drop").edges == 4
    assert cpms.load("tiny", ids="compact").nodes == 3
    monkeypatch.setitem(datasets.DATASETS, "tiny", Dataset(**{**vars(TINY), "edges": 6}))
    with pytest.raises(InputError, match=r"tiny\.tar\.gz: nodes, edges and empty rows are \(4, 5, 1\)"):
        cpms.load("tiny")


def test_a_data_folder_that_does_not_exist_is_refused(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("CPMS_DATA", str(tmp_path / "none"))
    with pytest.raises(InputError, match=r"CPMS_DATA names .*none, which is no folder"):
        datasets.locate("tiny")


def test_the_papers_ten_graphs_are_known():
    paper = {known.name: known for known in datasets.catalogue() if known.paper}
    assert len(paper) == 10
    assert all(known.collection and known.collection.endswith("/" + name) for name, known in paper.items())
    assert paper["wb-edu"].collection == "Gleich/wb-edu"
    assert sum(known.edges for known in paper.values()) == 345_638_208
    assert len({known.name for known in datasets.catalogue()}) == len(datasets.catalogue()) == 25


MEASURED = [known for known in datasets.catalogue() if not known.paper]


@pytest.mark.parametrize("known", MEASURED, ids=lambda known: known.name)
def test_real_graphs_have_their_published_counts(cpms_data, known):
    graph = cpms.load(known.name)
    assert (graph.nodes, graph.edges) == (known.nodes, known.edges)
    assert len(graph.dangling_nodes) == known.empty_rows
    assert np.count_nonzero(graph.sources == graph.targets) == known.self_loops
    assert graph.weights is None
    assert graph.first_id == 1
    rows = graph.targets.astype(np.int64) * graph.nodes + graph.sources
    assert (np.diff(rows) > 0).all()  # ascending and without repeated edges


@pytest.mark.parametrize("known", MEASURED, ids=lambda known: known.name)
def test_real_files_have_their_checksums(cpms_data, known):
    path = cpms_data / f"{known.name}.tar.gz"
    if not path.exists():
        pytest.skip(f"{path.name} is not in CPMS_DATA")
    with path.open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == known.sha256
