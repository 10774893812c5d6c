"""Rows that can be trusted: what they say of code, graph, cell and machine, and what is measured again."""

import dataclasses
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cpms
from cpms import Graph
from cpms.base import package_data
from cpms.base.errors import InputError
from cpms.base.package_data import code_digest, experiments, folder
from cpms.experiment import config
from cpms.experiment.kinds import pagerank
from cpms.experiment.report import output as output_module
from cpms.experiment.report import show
from cpms.experiment.rows import changed, commits, configured, digests, machine, provenance, rows, standing
from cpms.experiment.runner import run

TRIANGLE = "0 1\n1 2\n2 0\n"
CONFIG = 'name = "x"\nkind = "pagerank"\ngraphs = ["g.txt"]\nengines = ["reference"]\nwarmup = 0\n'


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The folder at hand, with a graph and a configuration."""
    monkeypatch.chdir(tmp_path)
    Path("g.txt").write_text(TRIANGLE)
    Path("x.toml").write_text(CONFIG)
    return tmp_path


def said_by_run(output="out"):
    said = []
    run(Path("x.toml"), output=Path(output), echo=said.append)
    return said[-1]


def recorded(output="out"):
    return rows.read(Path(output) / "x.jsonl")


def test_a_row_says_what_measured_what_where(here):
    said_by_run()
    [row] = recorded()
    assert row["graph_digest"] == digests.of_graph(cpms.load("g.txt"))
    assert row["graph_files_digest"] == digests.of_files([Path("g.txt")])
    assert row["code_digest"] == code_digest(Path(cpms.__file__).parent, folder("kernels"))
    assert row["parameters"]["dangling"] == "teleport"  # Which the cell's name does not hold.
    policy = {name: value for name, value in pagerank.Policy().model_dump().items() if value is not None}
    assert {name: value for name, value in row["parameters"]["policy"].items() if value is not None} == policy
    assert row["cpu"]
    assert row["os"]
    assert row["kernel"].split()[0]
    assert row["affinity"] == machine.machine()["affinity"]
    assert row["compile_s"] >= 0.0
    assert row["load_average_before"] >= 0.0


def test_what_digests_say_is_no_part_of_the_name_of_a_cell(here):
    said_by_run()
    [row] = recorded()
    [cell] = config.read(Path("x.toml")).cells()
    assert row["cell"] == rows.cell_key(cell)
    assert not {"parameters", "graph_digest", "graph_files_digest", "code_digest"} & cell.keys()


def test_rows_of_every_kind_hold_the_load_before_the_cell(here, monkeypatch):
    (here / "x.toml").write_text('name = "x"\nkind = "graphs"\ngraphs = ["g.txt", "missing.txt"]\n')
    loads = iter((3.5, 4.5))
    monkeypatch.setattr("os.getloadavg", lambda: (next(loads), 0.0, 0.0))
    with pytest.raises(InputError):
        said_by_run()
    assert [row["load_average_before"] for row in recorded()] == [3.5, 4.5]


@pytest.mark.slow
def test_recorded_rows_keep_their_names():
    found = 0
    for path in (folder("experiments") / "results").rglob("*.jsonl"):
        for row in rows.read(path):
            if "source" in row:  # Quoted: no configuration makes it.
                assert row["kind"] == "quoted"
                assert "git_commit" not in row
                continue
            cells = NAMES.setdefault(row["experiment"], configured.Cells(config.read(experiments()[row["experiment"]])))
            assert cells.hold(row), (path, row["cell"])
            found += 1
    assert found >= 956


NAMES: dict[str, configured.Cells] = {}


def test_hashing_is_outside_every_clock(here, monkeypatch):
    def hashed_for_an_age(*given):
        spent.append(given)
        return "a"

    spent: list[object] = []
    clock = [0.0]
    monkeypatch.setattr(digests, "of_graph", hashed_for_an_age)
    monkeypatch.setattr(digests, "of_files", hashed_for_an_age)
    monkeypatch.setattr(package_data, "code_digest", hashed_for_an_age)
    provenance._lasting.cache_clear()
    changed._of_files.cache_clear()
    monkeypatch.setattr("cpms.experiment.runner.time.perf_counter", lambda: clock[0] + 1000.0 * len(spent))
    said_by_run()
    provenance._lasting.cache_clear()
    changed._of_files.cache_clear()
    assert len(spent) == 3
    [row] = recorded()
    assert row["cell_s"] == 0.0
    assert row["solve_s"] < 1000.0


def test_a_graph_is_hashed_once_for_all_its_cells(here, monkeypatch):
    count, given = [0], digests.of_graph

    def counted(graph):
        count[0] += 1
        return given(graph)

    monkeypatch.setattr(digests, "of_graph", counted)
    Path("x.toml").write_text(CONFIG + "repetitions = 5\n")
    assert said_by_run().startswith("5 cells run")
    assert count == [1]


def test_a_changed_graph_is_measured_again_and_one_of_the_same_content_is_not(here, monkeypatch):
    assert said_by_run() == "1 cell run: 1 ok; 0 held already"
    with monkeypatch.context() as patched:
        patched.setattr(changed, "load", None)  # The bytes of an unchanged file are enough.
        assert said_by_run() == "0 cells run; 1 held already"
    Path("g.txt").write_text("# the same graph\n" + TRIANGLE)
    assert said_by_run() == "0 cells run; 1 held already"
    Path("g.txt").write_text(TRIANGLE + "0 2\n")
    assert said_by_run() == "1 cell run: 1 ok; 0 held already; 1 cell run anew, since graph changed"
    assert said_by_run() == "0 cells run; 1 held already"
    assert [row["edges"] for row in recorded()] == [3, 4]
    Path("g.txt").unlink()  # Which says nothing of the graph.
    assert said_by_run() == "0 cells run; 1 held already"


def test_cells_of_an_edited_plugin_alone_are_measured_again(here):
    plugin = Path("edited_controller.py")
    plugin.write_text("import cpms\n\nclass Mine(cpms.Fixed):\n    pass\n\nMINE = Mine(1)\n")
    Path("x.toml").write_text(CONFIG + f'policies = [{{}}, {{plugin = "{plugin}:MINE"}}]\n')
    assert said_by_run() == "2 cells run: 2 ok; 0 held already"
    assert "edited" not in standing.Recorded(here / "out").counts()
    plugin.write_text(plugin.read_text() + "# edited\n")
    assert [changed.changed_plugins(row) for row in recorded()] == [[], [str(plugin)]]
    assert f"1 row measured before {plugin} was edited" in standing.Recorded(here / "out").counts()
    assert said_by_run() == f"1 cell run: 1 ok; 1 held already; 1 cell run anew, since {plugin} changed"
    plugin.unlink()  # Which says nothing of the rows.
    assert changed.changed_plugins(recorded()[1]) == []


def test_a_changed_file_is_read_with_the_options_of_its_graph(here):
    config = Path("x.toml").read_text()
    Path("x.toml").write_text(config.replace('"g.txt"', '{path = "g.txt", symmetric = "expand"}'))
    said_by_run()
    Path("g.txt").write_text("# the same graph\n" + TRIANGLE)
    assert said_by_run() == "0 cells run; 1 held already"
    assert [row["edges"] for row in recorded()] == [6]


def test_the_graph_that_a_path_leads_to_from_another_folder_is_another_one(here, monkeypatch):
    said_by_run(here / "out")
    other = here / "other"
    other.mkdir()
    (other / "g.txt").write_text(TRIANGLE + "0 2\n")
    shutil.copy("x.toml", other)
    monkeypatch.chdir(other)
    assert "1 cell run anew" in said_by_run(here / "out")


def test_a_graph_that_changes_while_it_is_measured_is_measured_again(here, monkeypatch):
    given = pagerank.Context.measure

    def replaced_meanwhile(context, cell):
        found = given(context, cell)
        Path("g.txt").write_text(TRIANGLE + "0 2\n")
        return found

    with monkeypatch.context() as patched:
        patched.setattr(pagerank.Context, "measure", replaced_meanwhile)
        said_by_run()
    assert "1 cell run anew" in said_by_run()


def test_parameters_that_a_name_does_not_hold_are_compared(here, monkeypatch):
    said_by_run()
    later = {"policy": {"factor": 5.0, "since": "later"}}
    monkeypatch.setattr(pagerank.Config, "resolved", lambda _, cell: {**cell, **later})
    assert "1 cell run anew, since parameters changed" in said_by_run()
    assert said_by_run() == "0 cells run; 1 held already"


def test_changed_code_measures_nothing_again_nor_do_rows_without_digests(here, monkeypatch):
    said_by_run()
    monkeypatch.setattr(package_data, "code_digest", lambda *_: "other code")
    provenance._lasting.cache_clear()
    assert said_by_run() == "0 cells run; 1 held already"
    provenance._lasting.cache_clear()
    [row] = recorded()
    old = {key: value for key, value in row.items() if "digest" not in key and key != "parameters"}
    Path("out/x.jsonl").write_text(json.dumps(old) + "\n")
    Path("g.txt").write_text(TRIANGLE + "0 2\n")
    assert said_by_run() == "0 cells run; 1 held already"


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)


@given(values, st.dictionaries(st.text(max_size=2), values, max_size=2))
def test_parameters_differ_from_none_that_have_more(value, more):
    assert not changed.differs(value, value)
    if isinstance(value, dict):
        assert not changed.differs(value, {**more, **value})
        assert not changed.differs({**more, **value}, value)
        assert changed.differs({**value, "key": 1}, {**value, "key": 2})


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=12), st.booleans())
def test_the_digest_of_a_graph_is_that_of_its_edges_weights_and_ids(edges, weighted):
    sources, targets = np.array(edges).T
    weights = np.arange(1.0, len(edges) + 1) if weighted else None
    graph = Graph.from_edges(sources, targets, weights, nodes=10)
    digest = digests.of_graph(graph)
    assert digest == digests.of_graph(dataclasses.replace(graph, name="other", stand_in_for="what"))
    others = [
        dataclasses.replace(graph, first_id=1),
        dataclasses.replace(graph, names=np.arange(10).astype(str)),
        dataclasses.replace(graph, weights=np.full(len(edges), 7.5)),
        Graph.from_edges(sources, targets, weights, nodes=11),
        Graph.from_edges((sources + 1) % 10, targets, weights, nodes=10),
    ]
    assert len({digest, *map(digests.of_graph, others)}) == 6


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A history of code with a side branch, a removed file, and commits that change none of it."""
    root = tmp_path_factory.mktemp("repository")

    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "init.defaultBranch=trunk"]
        return subprocess.run(
            ["git", "-C", str(root), *identity, *arguments], check=True, capture_output=True, text=True
        ).stdout.strip()

    def commit(files):
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text) if text is not None else path.unlink()
        git("add", "-A")
        git("commit", "-qm", "a step")
        found.setdefault(code_digest(root / "cpms", root / "kernels"), git("rev-parse", "HEAD"))

    found = {}
    git("init", "-q")
    commit({"cpms/a.py": "1\n", "kernels/k.cu": "1\n", "notes.txt": "1\n"})
    commit({"cpms/é.py": "2\n", "cpms/_shipped/kernels/k.cu": "copy\n", "cpms/deep/b.py": "3\n"})
    git("checkout", "-qb", "side")
    commit({"cpms/a.py": "side\n"})
    git("checkout", "-q", "trunk")
    commit({"notes.txt": "2\n"})
    commit({"cpms/a.py": None})
    commit({"kernels/k.cu": "4\n", "cpms/data.bin": "no code\n"})
    git("merge", "-q", "--no-edit", "-s", "ours", "side")
    return root, found


def test_the_digest_of_code_leads_to_its_commit(repository):
    root, found = repository
    assert len(found) == 5
    assert commits.by_digest(root) == found
    assert commits.by_digest(root / "cpms") == {}


def test_the_digest_of_code_is_that_of_a_commit_of_this_repository_if_nothing_has_changed():
    code = provenance.code()
    known = commits.by_digest(provenance.repository())
    if code["git_dirty"] is not False or not known:
        pytest.skip("the code at hand is not that of a commit")
    assert code["code_digest"] in known


@pytest.mark.parametrize("edited", [False, True])
def test_a_wheel_has_the_digest_of_its_checkout_and_says_its_commit(tmp_path, edited):
    package, shipped = Path(cpms.__file__).parent, tmp_path / "cpms" / "_shipped"
    shutil.copytree(package, tmp_path / "cpms", ignore=shutil.ignore_patterns("_shipped", "__pycache__"))
    for name in ("kernels", "experiments"):
        shutil.copytree(folder(name), shipped / name, ignore=shutil.ignore_patterns("results"))
    digest = code_digest(package, folder("kernels"))
    (shipped / "build.json").write_text(json.dumps({"code_digest": digest, "commit": "c" * 40}))
    if edited:
        (tmp_path / "cpms" / "solve.py").write_text("# edited\n")
    program = "import json; from cpms.experiment.rows.provenance import code; print(json.dumps(code()))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        check=True,
    )
    said = json.loads(done.stdout)
    assert (said["code_digest"] == digest) != edited
    assert said["git_commit"] == "c" * 40
    assert said["git_dirty"] == edited


def shown(here, **options):
    said = []
    Path("mine.py").write_text(
        'NEEDS = ["x"]\ndef show(rows, out):\n    out.table(rows[["tol", "edges"]], caption="Mine")\n'
    )
    show.show("mine.py", results=here / "out", output=here / "drawn", echo=said.append, **options)
    return said, (here / "drawn" / "mine.md").read_text()


@pytest.fixture
def clean_code(monkeypatch):
    """Have rows say that they are of a commit."""
    code = {"code_digest": "d", "git_commit": "c" * 40, "git_dirty": False}
    monkeypatch.setattr(provenance, "code", lambda: dict(code))
    provenance._lasting.cache_clear()
    yield code
    provenance._lasting.cache_clear()


def test_show_draws_what_the_configuration_asks_for_and_says_what_it_leaves_out(here, clean_code):
    Path("x.toml").write_text(CONFIG + "tolerances = [1e-6, 1e-8]\n")
    said_by_run()
    assert (here / "out" / "x.config.toml").read_bytes() == Path("x.toml").read_bytes()
    said, text = shown(here)
    assert said[-1] == "2 rows: 2 clean, 0 code not committed, 0 config changed"
    assert "1e-06" in text
    Path("x.toml").write_text(CONFIG + "tolerances = [1e-8]\n")
    said_by_run()
    said, text = shown(here)
    assert said[-1] == "2 rows: 1 clean, 0 code not committed, 1 config changed"
    assert "1e-06" not in text
    assert any(recorded()[0]["cell"] in each and each.startswith("left out: 1 row of x") for each in said)


def test_rows_of_an_earlier_configuration_are_drawn_with_a_mark_where_there_are_no_others(here, clean_code):
    said_by_run()
    (here / "out" / "x.toml").write_text(CONFIG + "tolerances = [1e-3]\n")
    said, text = shown(here)
    assert text.startswith("Mine. Machine: ")
    assert text.partition("\n")[0].endswith(" (rows of x are of an earlier configuration)")
    assert said[-1] == "1 row: 0 clean, 0 code not committed, 1 config changed"


def test_rows_of_code_that_was_not_committed_are_marked_until_it_is(here, clean_code, monkeypatch):
    clean_code["git_dirty"] = True
    said_by_run()
    said, text = shown(here)
    assert text.partition("\n")[0].endswith(" (1 of 1 row by code that was not committed)")
    assert said[-2:] == [
        "rows no commit explains: 1 of 1 (1 of x)",
        "1 row: 0 clean, 1 code not committed, 0 config changed",
    ]
    monkeypatch.setattr(commits, "by_digest", lambda _: {"d": "e" * 40})
    said, text = shown(here)
    assert "not committed" not in text
    assert said[-1] == "1 row: 1 clean, 0 code not committed, 0 config changed"


def test_a_figure_has_the_mark_below_and_keeps_its_own_label(tmp_path):
    import matplotlib.pyplot as plt

    for label, expected in (("", "a note"), ("seconds", "seconds\na note")):
        figure, _ = plt.subplots()
        figure.supxlabel(label)
        output_module.Output(tmp_path, "mine", lambda _: None, "a note").figure(figure)
        assert figure.get_supxlabel() == expected


def test_a_configuration_that_comes_with_cpms_needs_no_copy(tmp_path):
    content = experiments()["quickstart"].read_bytes()
    copy = tmp_path / "quickstart.config.toml"
    configured.save_copy(tmp_path, "quickstart", content + b"\n")
    assert configured.of_rows(tmp_path, "quickstart") is not None
    assert copy.is_file()
    configured.save_copy(tmp_path, "quickstart", content)
    assert not copy.exists()
    assert configured.of_rows(tmp_path, "quickstart").cells() == config.read(experiments()["quickstart"]).cells()
    assert configured.of_rows(tmp_path, "nobody's") is None


def test_rows_without_a_digest_of_their_code_are_counted(here):
    said_by_run()
    [row] = recorded()
    del row["code_digest"]
    (here / "out" / "x.jsonl").write_text(json.dumps(row) + "\n")
    assert standing.Recorded(here / "out").counts().endswith("; 1 have no digest of their code")


def test_all_recorded_rows_are_counted():
    said = standing.Recorded(folder("experiments") / "results").counts()
    assert "0 config changed" in said
    assert "no digest" not in said
    words = said.split(";")[0].replace(":", "").replace(",", "").split()
    total, *each = (int(word) for word in words if word.isdigit())
    assert total == sum(each) >= 900
    assert said.split(";")[0].endswith(" quoted")


def test_a_row_is_of_a_configuration_by_its_digest_or_by_that_of_a_version_with_the_same_cell(here, monkeypatch):
    path, before = here / "x.toml", CONFIG + "tolerances = [1e-6]  # first\n"
    path.write_text(before)
    (cell,) = config.read(path).cells()
    row = {"cell": rows.cell_key(cell), "config_sha256": hashlib.sha256(before.encode()).hexdigest()}
    history = {"same": [before], "none": [], "other": [before.replace("tolerances", "threads = 1\ntolerances")]}
    for name, versions in history.items():
        monkeypatch.setattr(commits, "configurations", lambda _, held=versions: [v.encode() for v in held])
        path.write_text(CONFIG + "tolerances = [1e-6, 1e-8]\n")
        recorded = {**row, "config_sha256": configured.digest(versions[0].encode())} if versions else row
        assert configured.is_same(recorded, path, Path(name)) == (name == "same")
        path.write_text(CONFIG + "tolerances = [1e-8]\n")
        assert not configured.is_same(recorded, path, Path(name))
    path.write_text("# words\n" + before)
    assert configured.is_same({**row, "config_sha256": configured.digest(before.encode())}, path, here)
