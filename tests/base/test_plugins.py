"""Plug-ins of every group: from a wheel, from files as docs/howto/plugins.md says, refused, and wrong in every way."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
import textwrap
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import cpms
from cpms.base import plugins
from cpms.base.errors import InputError
from cpms.cli.main import main
from cpms.engines import get_any
from cpms.experiment.config import kind_of
from cpms.experiment.kinds.pagerank import Policy
from cpms.experiment.report.show import program_named, show
from cpms.precision.controller_specs import controller_of
from cpms.problems.pagerank import Problem
from cpms.sources import matrices

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "howto" / "plugins.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(?:python|toml)\n(.*?)```", PAGE, re.DOTALL)
FILES = {match[1]: text for text in BLOCKS if (match := re.match(r"# (\w+\.\w+)\n", text))}
COMMANDS = re.findall(r"^cpms (.*)$", PAGE, re.MULTILINE)
PROGRAM = re.search(r"```python\n(.*?)\nif __name__", (DOCS / "own_format.md").read_text("utf-8"), re.DOTALL)[1]
GROUPS = {  # What loads a plug-in of each group.
    "formats": cpms.format_named,
    "controllers": controller_of,
    "engines": get_any,
    "layouts": lambda name: cpms.matrix([[1.0]], layout=name),
    "generators": lambda name: cpms.load(f"{name}:nodes=4"),
    "matrices": lambda name: matrices.generate(f"{name}:rows=4"),
    "solvers": lambda name: cpms.solve([[1.0]], [1.0], method=name),
    "show_programs": program_named,
    "experiment_kinds": kind_of,
}


@pytest.fixture
def files(tmp_path, monkeypatch) -> Path:
    """The files of the page, in the current folder."""
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def installed(tmp_path, monkeypatch) -> Iterator[Path]:
    """A folder of installed packages, whose entry points are found."""
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "site").mkdir()
    plugins.declared.cache_clear()
    yield tmp_path / "site"
    plugins.declared.cache_clear()


# The page


def test_all_groups_are_tested():
    assert set(GROUPS) == set(plugins.GROUPS)
    assert all(f"`cpms.{group}`" in PAGE for group in plugins.GROUPS)


@pytest.mark.parametrize("name", FILES)
def test_examples_are_short(name):
    assert sum(bool(line.strip()) for line in FILES[name].splitlines()) <= 15


def test_the_examples_run_in_python_and_on_the_command_line(files, capsys):
    (program,) = (text for text in BLOCKS if text.startswith("import cpms"))
    exec(program, {})  # noqa: S102  # It is this project's own text.
    assert capsys.readouterr().out == "[6. 7.] True\nTrue\n"
    assert [main(shlex.split(command)) for command in COMMANDS] == [0] * len(COMMANDS)
    err = capsys.readouterr().err
    assert "plug-in blocks.py:Blocks of cpms.layouts runs code of" in err
    assert "plug-in sweeps.py of cpms.show_programs runs code of" in err
    rows = [json.loads(line) for line in Path("out/parts.jsonl").read_text().splitlines()]
    assert [row["status"] for row in rows] == ["ok", "ok"]
    assert rows[0]["iterations_by_bits"].keys() >= {"16"}
    assert {each["name"] for each in rows[0]["plugins"]} == {"ring.py:ring", "careful.py:Careful"}
    assert Path("out/parts.svg").exists()
    assert json.loads(Path("out/parts.json").read_text())["experiments"] == ["parts"]


def test_files_are_named_with_blanks_and_letters_of_any_language(files):
    folder = files / "meine Läufe"
    folder.mkdir()
    for name in ("descent", "ring"):
        shutil.copy(files / f"{name}.py", folder / f"Größe {name}.py")
    assert cpms.solve([[4.0, 1.0], [1.0, 3.0]], [1.0, 2.0], method="meine Läufe/Größe descent.py:descent").converged
    assert cpms.load("meine Läufe/Größe ring.py:ring:nodes=7,chords=2").edges == 9
    assert cpms.load(f"{folder}/Größe ring.py:ring:nodes=7,chords=2").edges == 9


@pytest.mark.parametrize("command", COMMANDS)
def test_no_plugins_refuses_them(files, capsys, command):
    code = main([*shlex.split(command), "--no-plugins"])
    assert code == 2
    err = capsys.readouterr().err
    assert re.match(r"cpms: error: .*plug-in \S+ of cpms\.\w+ would run code, which --no-plugins refuses", err)
    assert "runs code of" not in err


def test_rules_of_the_page_are_read_as_tables_and_as_text():
    (text,) = (text for text in BLOCKS if text.startswith("policies"))
    schedule, nested, start = tomllib.loads(text.replace('plugin = "log16.py:Late"', 'rule = "fixed"'))["policies"]
    assert Policy.model_validate(schedule).precision("cpms4") == cpms.Schedule({0: 1, 20: 2, 40: 4})
    assert Policy.model_validate(nested).precision("cpms4") == cpms.AtMost(cpms.WriteAhead(cpms.Fixed(), 1), 2)
    assert Policy.model_validate(start).precision("cpms4") == cpms.StartAt(cpms.Threshold(), 2)
    assert controller_of("at_most:read=2,inner=(write_ahead:by=1,inner=fixed)") == controller_of(nested)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("at_most:raed=2", "rule at_most has no raed; it takes inner, read"),
        ("at_most", "rule at_most takes inner, read: .*read"),
        ("schedul:0=1", "controller 'schedul:0=1' is not known; did you mean schedule"),
        ("at_most:read=2,inner=(schedule:0=1", "parentheses do not match"),
        ({"rule": "at_most", "read": 2, "inner": {"rule": "adaptive_reduction", "formats": ["fp16"]}}, "wraps another"),
        ({"rule": "schedules"}, "rule 'schedules' is not known; did you mean schedule"),
        ({"read": 2}, "give a name, or a table with the key rule or plugin"),
    ],
)
def test_rules_that_are_wrong_say_what_is_possible(given, says):
    with pytest.raises(InputError, match=says):
        controller_of(given)


# Modules beside the file


def test_a_file_imports_what_lies_beside_it_and_leaves_no_trace(tmp_path, monkeypatch):
    names = []
    for folder in ("one", "two"):
        (tmp_path / folder / "pack").mkdir(parents=True)
        (tmp_path / folder / "pack" / "__init__.py").write_text("")
        (tmp_path / folder / "pack" / "deep.py").write_text(f"class Base:\n    name = {folder!r}\n")
        (tmp_path / folder / "beside.py").write_text("from pack.deep import Base\n")
        text = f"from beside import Base\n{PROGRAM}\nclass Own(Base, Log16):\n    pass\n"
        (tmp_path / folder / "own.py").write_text(text)
        path = sys.path.copy()
        names.append(cpms.format_named(f"{tmp_path}/{folder}/own.py:Own").name)
        assert (sys.path, not {"beside", "pack", "pack.deep"} & sys.modules.keys()) == (path, True)
    assert names == ["one", "two"]
    monkeypatch.chdir(tmp_path / "one")
    monkeypatch.syspath_prepend("")
    path = sys.path.copy()
    assert cpms.format_named("own.py:Own").name == "one"
    assert sys.path == path


# Layouts


CASES = [("cpu", "cpms4"), ("cpu", "mxfp8-e4m3"), ("reference", "split-1e-6"), ("reference", "mxfp8-e4m3")]


@pytest.mark.parametrize(("engine", "storage"), CASES)
def test_a_layout_changes_where_values_lie_and_no_product(files, engine, storage):
    given = scipy.sparse.random_array((23, 18), density=0.2, rng=np.random.default_rng(0), format="csr")
    X = np.random.default_rng(1).standard_normal((18, 2))
    own = cpms.matrix(given, layout="blocks.py:Blocks", storage=storage, engine=engine)
    other = cpms.matrix(given, storage=storage, engine=engine)
    tolerance = 1e-12 if storage != "mxfp8-e4m3" else 0.2  # Groups hold other entries.
    for product in (lambda a: a @ X[:, 0], lambda a: a @ X, lambda a: a.rmatvec(np.ones(23))):
        np.testing.assert_allclose(product(own), product(other), atol=tolerance, rtol=tolerance)
    assert own.layout == "blocks.py:Blocks"


@pytest.mark.parametrize("engine", ["cuda", "cusparse"])
def test_engines_without_loops_for_layouts_of_users_refuse_them(files, engine, monkeypatch):
    monkeypatch.setattr(type(get_any(engine)), "missing", lambda _: None)
    with pytest.raises(cpms.UnsupportedError, match=f"engine {engine} has no layout 'blocks.py:Blocks'"):
        cpms.matrix([[1.0, 2.0], [3.0, 4.0]], layout="blocks.py:Blocks", engine=engine)
    refused = get_any(engine).unsupported(Problem(cpms.generate("ring.py:ring:nodes=9")), cpms.FP64, "blocks.py:Blocks")
    assert re.match(rf"engine {engine} has no layout 'blocks.py:Blocks'; it has csr.*; cpu_composed takes", refused)


def test_ranges_of_several_threads_share_no_row(files):
    given = scipy.sparse.random_array((30_001, 500), density=0.02, rng=np.random.default_rng(0), format="csr")
    own = cpms.matrix(given, layout="blocks.py:Blocks", engine="cpu").operator
    arrangement = own.arrangement
    assert len(arrangement.starts) >= 15_002  # Pairs of rows, and some rows by themselves.
    assert len(own._parts) > 1
    inside = np.repeat(np.arange(len(arrangement.rows) - 1), np.diff(arrangement.starts))
    assert (arrangement.row_numbers >= arrangement.rows[inside]).all()
    assert (arrangement.row_numbers < arrangement.rows[inside + 1]).all()
    x, y = np.random.default_rng(1).standard_normal(500), np.empty(30_001)
    own.apply(x, y)
    np.testing.assert_allclose(y, given @ x, atol=1e-12)


def test_what_a_layout_says_of_its_bytes_counts(files):
    own = cpms.matrix(np.ones((4, 4)), layout="blocks.py:Blocks", storage="fp16", engine="cpu")
    assert own.bytes_read() == 2 * 16 + 4 * 4 + 4 * 3


# A wheel

WHEEL = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "log-wheel"
version = "1.5"
[tool.hatch.build.targets.wheel]
include = ["log_wheel.py"]
[project.entry-points]
"cpms.formats" = { wheel-log16 = "log_wheel:Log16" }
"cpms.controllers" = { wheel-late = "log_wheel:Late" }
"cpms.generators" = { wheel-path = "log_wheel:path" }
"cpms.show_programs" = { wheel-table = "log_wheel:Table" }
""".strip()
MORE = """
def path(*, nodes: int): return range(nodes - 1), range(1, nodes)

class Table:
    NEEDS = ["wheel"]
    def show(self, rows, out): out.table(rows[["storage", "iterations"]])
"""


def test_a_wheel_of_40_lines_brings_plug_ins_by_entry_points(installed, tmp_path, monkeypatch, capsys):
    build = pytest.importorskip("hatchling.build")
    assert sum(bool(line.strip()) for line in (WHEEL + "\n" + PROGRAM + MORE).splitlines()) <= 40
    (tmp_path / "pyproject.toml").write_text(WHEEL)
    (tmp_path / "log_wheel.py").write_text(PROGRAM + MORE)
    with zipfile.ZipFile(tmp_path / build.build_wheel(str(tmp_path))) as wheel:
        wheel.extractall(installed)
    (tmp_path / "log_wheel.py").unlink()
    assert main(["check", "wheel-log16", "--patterns", "5000"]) == 0
    product = cpms.matrix([[0.5, 0.0], [-3.0, 0.25]], storage="wheel-log16", engine="reference") @ [1.0, 2.0]
    np.testing.assert_allclose(product, [0.5, -2.5], rtol=2e-3)
    axes = 'storages = ["wheel-log16", "fp32", "fp64"]\nengines = ["reference"]\nwarmup = 0\n'
    axes += 'policies = [{ plugin = "wheel-late" }]\n'
    config = f'name = "wheel"\nkind = "pagerank"\ngraphs = ["wheel-path:nodes=9"]\n{axes}'
    (tmp_path / "wheel.toml").write_text(config)
    assert main(["run", "wheel.toml"]) == 0
    row = json.loads(Path("out/wheel.jsonl").read_text().splitlines()[0])
    assert {each["name"] for each in row["plugins"]} == {"wheel-log16", "wheel-late", "wheel-path"}
    assert {each["version"] for each in row["plugins"]} == {"1.5"}
    assert main(["show", "wheel-table"]) == 0
    assert main(["show", "wheel.toml"]) == 0
    assert Path("out/wheel_time.pdf").exists()
    capsys.readouterr()
    assert main(["plugins", "--load"]) == 0
    assert capsys.readouterr().out.count("log-wheel 1.5") == 4
    assert main(["run", "wheel.toml", "--no-plugins"]) == 2
    assert main(["formats", "--no-plugins"]) == 0
    assert "wheel-log16" not in capsys.readouterr().out


# Bad input


@pytest.mark.parametrize("group", GROUPS)
def test_what_does_not_load_is_a_sentence_that_names_it(files, group):
    Path("bad.py").write_text("import cpms\nnumber = 3\n")
    Path("worse.py").write_text("import nothing_of_this_name\n")
    Path("stop.py").write_text("raise SystemExit(3)\n")
    for name, says in {
        "bad.py:number": "of cpms.{group} is int; it must be an? |bad.py:number has no list NEEDS",
        "bad.py:none": "of cpms.{group}: there is no attribute 'none'",
        "gone.py:mine": "of cpms.{group}: there is no file",
        "worse.py:mine": "of cpms.{group} cannot be imported .ModuleNotFoundError.*, worse.py line 1",
        "stop.py:mine": "of cpms.{group} cannot be imported .SystemExit",
    }.items():
        with pytest.raises(InputError, match=says.format(group=group)) as error:
            GROUPS[group](name)
        assert f"plug-in {name}" in str(error.value)


def test_an_entry_point_of_the_wrong_kind_hides_no_other(installed, capsys):
    (installed / "wrong_kinds.py").write_text("NUMBER = 3\n")
    info = installed / "wrong_kinds-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: wrong-kinds\nVersion: 0.1\n")
    points = "".join(f"[cpms.{group}]\nwrong-{group} = wrong_kinds:NUMBER\n" for group in plugins.GROUPS)
    (info / "entry_points.txt").write_text(points)
    assert main(["plugins"]) == 0
    assert main(["plugins", "--load"]) == 1
    out = capsys.readouterr().out
    for group in plugins.GROUPS:
        assert re.search(rf"plug-in wrong-{group}( of cpms.{group} is int; it must be an?| has no list NEEDS)", out), (
            group
        )
    assert main(["engines"]) == 0
    assert "wrong-engines of cpms.engines is int" in capsys.readouterr().out
    assert main(["rank", "grid:rows=2,columns=3", "--engine", "cpu", "--storage", "wrong-formats"]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("cpms: error: plug-in wrong-formats")


WRONG = textwrap.dedent("""
    import cpms, numpy as np

    class Shape(cpms.Format):
        name = "shape"
        def bits(self, read=None): return 8
        def unit_roundoff(self, read=None): return 0.5
        def encode(self, values): return np.zeros(len(values) + 1, np.uint8)
        def decode(self, codes, read=None): return np.ones(len(codes))

    class NoPair(cpms.Controller):
        def init(self, storage): return 3
        def update(self, state, residual): return 3

    class Fails(NoPair):
        def init(self, storage): return cpms.Level(1, 1), None
        def update(self, state, residual): return 1 / 0

    class Exits(NoPair):
        def init(self, storage): raise SystemExit(0)

    class Below(NoPair):
        def init(self, storage): return cpms.Level(-1, 1), None

    class High(NoPair):
        def init(self, storage): return cpms.Level(7, 7), None

    class NoPlan(cpms.RefinementPolicy):
        def init(self): return cpms.FP16, None
        def update(self, state, promised, found): return None

    class Short(cpms.Layout):
        def slots(self, matrix): return np.zeros(1, int)

    class Twice(cpms.Layout):
        def slots(self, matrix): return np.zeros(matrix.entries, int)

    class Text(cpms.Layout):
        def slots(self, matrix): return np.arange(matrix.entries)
        def index_bytes(self, matrix, slots): return "many"

    class Crash(cpms.Layout):
        def slots(self, matrix): return matrix.nothing

    class Writes(cpms.Layout):
        def slots(self, matrix): matrix.indices[...] = 0

    def text(*, nodes: int): return "a graph"
    def ragged(*, nodes: int): return [1, 2], [1]
    def broken(*, rows: int): return 1 / 0
    def vector(*, rows: int): return np.zeros(rows)
    def true(task, x): return True
    def fails(task, x): return task.nothing
    def liar(task, x): return cpms.SolveStatus.CONVERGED
""")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: cpms.encode([1.0], "wrong.py:Shape"), "shape"),
        (lambda: _rank("wrong.py:NoPair"), "plug-in wrong.py:NoPair returned 3; a controller must return a pair"),
        (lambda: _rank("wrong.py:Fails"), "plug-in wrong.py:Fails failed: ZeroDivisionError: .*, wrong.py line 17"),
        (lambda: _rank("wrong.py:Exits"), "plug-in wrong.py:Exits failed: SystemExit: 0, wrong.py line 20"),
        (lambda: _rank("wrong.py:Below"), "plug-in wrong.py:Below: read is -1; a level has 1 segment or more"),
        (lambda: _rank("wrong.py:High"), "plug-in wrong.py:High asks for Level.read=7"),
        (lambda: _rank("wrong.py:NoPlan", "refine"), "plug-in wrong.py:NoPlan planned .*; a policy must return a pair"),
        (lambda: _matrix("wrong.py:Short"), r"plug-in wrong.py:Short returned int64 of shape \(1,\); slots must"),
        (lambda: _matrix("wrong.py:Twice"), "plug-in wrong.py:Twice returned slots below 0, or one for two entries"),
        (lambda: _matrix("wrong.py:Crash"), "plug-in wrong.py:Crash failed: AttributeError: .*, wrong.py line 43"),
        (lambda: _matrix("wrong.py:Text"), "plug-in wrong.py:Text: index_bytes is 'many'; it must be a whole number"),
        (
            lambda: _matrix("wrong.py:Writes"),
            "plug-in wrong.py:Writes failed: ValueError: .*read-only, wrong.py line 46",
        ),
        (lambda: kind_of("wrong.py"), "plug-in wrong.py has no class Config, derived from .*, or no class Context"),
        (
            lambda: cpms.load("wrong.py:text:nodes=3"),
            "plug-in wrong.py:text returned 'a graph'; it must return a cpms.G",
        ),
        (lambda: cpms.load("wrong.py:ragged:nodes=3"), "plug-in wrong.py:ragged returned no graph: "),
        (lambda: cpms.load("wrong.py:text:node=3"), "'node' is not known; text takes nodes"),
        (lambda: matrices.generate("wrong.py:broken:rows=3"), "plug-in wrong.py:broken failed: ZeroDivisionError"),
        (lambda: matrices.generate("wrong.py:vector:rows=3"), "plug-in wrong.py:vector returned array.*sparse matrix"),
        (
            lambda: _solve("wrong.py:true"),
            "plug-in wrong.py:true returned True; a method must return a cpms.SolveStatus",
        ),
        (lambda: _solve("wrong.py:fails"), "plug-in wrong.py:fails failed: AttributeError: .*, wrong.py line 53"),
        (lambda: _solve("wrong.py:Short"), "plug-in wrong.py:Short of cpms.solvers is the class Short; it must be a f"),
    ],
)
def test_a_call_that_returns_something_else_or_fails_names_the_plug_in(tmp_path, monkeypatch, call, says):
    monkeypatch.chdir(tmp_path)
    Path("wrong.py").write_text(WRONG)
    with pytest.raises(InputError, match=says):
        call()


def test_an_answer_that_a_solver_only_claims_is_not_certified(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("wrong.py").write_text(WRONG)
    assert _solve("wrong.py:liar").status is cpms.SolveStatus.UNVERIFIED


def test_a_program_that_fails_names_itself(files, capsys):
    Path("out").mkdir()
    assert main(["run", "parts.toml"]) == 0
    Path("sweeps.py").write_text('NEEDS = ["parts"]\n\ndef show(rows, out):\n    rows.nothing\n')
    with pytest.raises(InputError, match=r"plug-in sweeps.py failed: AttributeError: .*, sweeps.py line 4"):
        show("parts.toml", results=Path("out"))
    Path("sweeps.py").write_text("NEEDS = 3\n")
    with pytest.raises(InputError, match=r"plug-in sweeps.py has no list NEEDS"):
        show("parts.toml", results=Path("out"))


KIND = """
from cpms.experiment.config import Experiment

class Config(Experiment):
    def cells(self): return {cells}

class Context:
    def __init__(self, config): pass
    def measure(self, cell): return {measured}
"""


@pytest.mark.parametrize(
    ("cells", "measured", "says"),
    [
        ("self.nothing", "{}", "plug-in kind.py failed: AttributeError: .*, kind.py line 5"),
        ("[{'at': 1}]", "1 / 0", "plug-in kind.py failed: ZeroDivisionError: .*, kind.py line 9"),
        ("[{'at': 1}]", "[1.0]", r"plug-in kind.py measured \[1.0\]; measure must return a dictionary of columns"),
        ("[{'at': 1}]", "{'x': float('nan')}", "plug-in kind.py measured what a row cannot hold .*; give finite"),
    ],
)
def test_kinds_that_fail_are_named(tmp_path, monkeypatch, capsys, cells, measured, says):
    monkeypatch.chdir(tmp_path)
    Path("kind.py").write_text(KIND.format(cells=cells, measured=measured))
    Path("own.toml").write_text('name = "own"\nkind = "kind.py"\n')
    assert main(["run", "own.toml"]) == 2
    assert re.search(says, capsys.readouterr().err)


def test_rows_of_which_no_figure_can_be_drawn_say_so(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("kind.py").write_text(KIND.format(cells="[{'at': 1}]", measured="{'height': 2.0}"))
    Path("own.toml").write_text('name = "own"\nkind = "kind.py"\n')
    assert main(["run", "own.toml"]) == 0
    assert main(["show", "own.toml"]) == 2
    assert "no figure for any experiment can be drawn" in capsys.readouterr().err


# The registry itself


def test_a_file_that_changed_is_read_again_and_digests_follow(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = []
    for read in (1, 2):
        Path("own.py").write_text(f"import cpms\nmine = cpms.Fixed({read})\n")
        with plugins.noted() as noted:
            found.append((controller_of("own.py:mine"), plugins.as_columns(noted)))
    (first, one), (second, two) = found
    assert (first, second) == (cpms.Fixed(1), cpms.Fixed(2))
    assert one[0]["sha256"] != two[0]["sha256"]


def test_an_object_of_a_file_that_changed_is_no_plug_in_any_more(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = []
    for read in (1, 2):
        Path("own.py").write_text(f"import cpms\nclass Own(cpms.Fixed):\n    pass\nmine = Own({read})\n")
        found.append(controller_of("own.py:mine"))
    assert [plugins.called(each) for each in found] == [None, "own.py:mine"]


def test_errors_of_code_that_is_no_plug_in_are_its_own():
    class Own(cpms.Layout):
        def slots(self, matrix):
            return matrix.entries / 0

    with pytest.raises(ZeroDivisionError):
        _matrix(Own())


def test_refusals_nest():
    with plugins.allowed(False), plugins.allowed(True), pytest.raises(InputError, match="refuses"):
        controller_of("own.py:mine")


def _rank(controller, method="power"):
    return cpms.pagerank(([0, 1, 2], [1, 2, 0]), engine="reference", method=method, controller=controller)


def _matrix(layout):
    return cpms.matrix([[1.0, 2.0], [3.0, 4.0]], layout=layout, engine="cpu")


def _solve(method):
    return cpms.solve([[2.0, 1.0], [1.0, 3.0]], [1.0, 2.0], method=method, engine="cpu")
