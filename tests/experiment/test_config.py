"""Configurations: everything wrong is said at once, and nothing but the project's own errors comes out."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpms.base.errors import CpmsError, InputError
from cpms.base.package_data import experiments, folder
from cpms.experiment import config, runner
from cpms.experiment.rows import rows

GOOD = 'name = "x"\nkind = "pagerank"\ngraphs = ["grid:rows=3,columns=3"]\n'


def read(tmp_path, text):
    path = tmp_path / "x.toml"
    path.write_text(text)
    return config.read(path)


@pytest.mark.quick
@pytest.mark.parametrize("path", sorted(experiments().values()), ids=lambda path: path.stem)
def test_every_configuration_that_ships_is_valid_and_may_begin(path, tmp_path, monkeypatch):
    experiment = config.read(path)
    assert experiment.name == path.stem
    assert len(experiment.cells()) > 0
    monkeypatch.chdir(tmp_path)
    runner._require_graphs(path, experiment, experiment.cells())


@pytest.mark.parametrize("path", sorted(folder("experiments").glob("results/**/*.jsonl")), ids=lambda path: path.stem)
def test_recorded_rows_are_cells_of_the_configuration_that_ships(path):
    found = [row for row in rows.read(path) if row["kind"] != "quoted"]  # Quoted: no configuration makes them.
    cells = config.read(experiments()[path.stem]).cells() if found else []
    assert {row["cell"] for row in found} <= {rows.cell_key(cell) for cell in cells}


@pytest.mark.parametrize("kind", sorted({*config.kind_names()} - {"contest", "pagerank", "ppr", "road", "scaling_gpu"}))
def test_what_a_kind_does_not_read_is_refused(tmp_path, kind):
    ignored = ["warmup", "repetitions"] if kind == "graphs" else ["warmup"]
    with pytest.raises(InputError) as error:
        read(tmp_path, f'name = "x"\nkind = "{kind}"\n' + "".join(f"{name} = 2\n" for name in ignored))
    for name in ignored:
        assert f"{name}: is no key of this kind" in str(error.value)


def test_of_a_mistyped_key_the_nearest_is_named_and_all_others(tmp_path):
    with pytest.raises(InputError, match=r"storage: .* did you mean storages\? It has .*engines, "):
        read(tmp_path, GOOD + 'storage = ["fp64"]\n')
    with pytest.raises(InputError, match=r"tol: .* did you mean tolerances\? It has"):
        read(tmp_path, GOOD + "tol = 1e-8\n")
    ways = (
        'name = "x"\nkind = "linear"\nmatrices = ["stencil:points=5,side=3"]\nways = [{ method = "cg", restrt = 3 }]\n'
    )
    with pytest.raises(
        InputError, match=r"ways\.0\.restrt: is no key of this table; did you mean restart\? It has method"
    ):
        read(tmp_path, ways)


@pytest.mark.parametrize(
    "given", ['{ plugin = "a.py:A", wait = 2 }', '{ rule = "at_most", inner = { plugin = "a.py:A", wait = 2 } }']
)
def test_parameters_of_a_plugin_belong_to_an_instance(tmp_path, monkeypatch, given):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text("import cpms\n\n\nclass A(cpms.Fixed):\n    pass\n")
    with pytest.raises(InputError, match=r"such as mine = A\(wait=…\), and name a\.py:mine"):
        read(tmp_path, GOOD + f"policies = [{given}]\n")


@pytest.mark.parametrize("axis", ["graphs", "methods", "storages", "layouts", "engines", "tolerances", "policies"])
def test_an_axis_without_values_is_refused(tmp_path, axis):
    text = GOOD.replace('["grid:rows=3,columns=3"]', "[]") if axis == "graphs" else GOOD + f"{axis} = []\n"
    with pytest.raises(InputError, match=f"{axis}: .* at least 1 item"):
        read(tmp_path, text)


def test_options_of_graphs_are_in_cells_where_they_are_not_the_usual_ones(tmp_path):
    usual = 'duplicates = "keep"\nself_loops = "keep"\nids = "keep"\ndangling = "teleport"\n'
    plain = read(tmp_path, GOOD).cells()
    assert read(tmp_path, GOOD + usual).cells() == plain
    (cell,) = read(tmp_path, GOOD + 'duplicates = "drop"\ndangling = "uniform"\n').cells()
    assert cell == {**plain[0], "duplicates": "drop", "dangling": "uniform"}


@pytest.mark.quick
def test_all_faults_are_named_at_once(tmp_path):
    with pytest.raises(InputError) as error:
        read(tmp_path, GOOD + 'colour = 1\nrepetitions = "two"\ntolerances = [1e-6, -1.0]\n')
    for part in ("x.toml", "colour", "repetitions", "tolerances.1"):
        assert part in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "kind = 3",
        'name = "x"\nkind = "pagerank"',
        GOOD.replace('"x"', '"../x"'),
        GOOD.replace("pagerank", "poetry"),
        GOOD + "damping = 1.0",
        GOOD + 'norm = "l3"',
        GOOD + 'policies = [{rule = "magic"}]',
        "name = ",
    ],
)
def test_bad_configurations_are_refused(tmp_path, text):
    with pytest.raises(InputError, match=r"x\.toml"):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("kind", "text", "parts"),
    [
        ("pagerank", 'graphs = ["wiki-Vot"]', ["graphs.0", "'wiki-Vot'", "did you mean wiki-Vote?", "rmat", ".mtx"]),
        ("pagerank", 'graphs = ["rmatt:scale=4"]', ["graphs.0", "'rmatt'", "rmat, "]),
        ("pagerank", 'storages = ["fp65"]', ["storages.0", "'fp65'", "fp64", "cpms4"]),
        ("pagerank", 'layouts = ["csr", "foo"]', ["layouts.1", "'foo'", "auto, ", "coo_exchange, csr, ell, pattern"]),
        ("pagerank", 'engines = ["gpu"]', ["engines.0", "'gpu'", "auto, ", "cuda_fused"]),
        ("pagerank", 'storages = ["auto"]', ["auto", "fp64"]),
        ("graphs", 'graphs = ["atlantis"]', ["graphs.0", "'atlantis'"]),
        ("contest", 'contestants = [{engine = "abacus"}, {engine = "cpu"}]', ["contestants.0.engine", "abacus"]),
        ("contest", 'contestants = [{engine = "cpu", layout = "foo"}, {engine = "cpu"}]', ["contestants.0.layout"]),
        ("contest", 'layouts = ["auto"]\ncontestants = [{engine = "cpu"}, {engine = "scipy"}]', ["layouts.0"]),
        ("ppr", 'contestants = [{engine = "abacus"}]\nsettings = [{tol = 1.0}]', ["contestants.0.engine"]),
        ("spmv", 'also = [{engine = "cuda", storage = "fp64", layout = "foo"}]', ["also.0.layout", "pattern"]),
        ("peers", 'ours = [{method = "magic"}]\npeers = ["prpak"]', ["ours.0.method", "peers.0", "NetworKit"]),
        ("scaling", 'ranks = [1]\nlocal = ["mpi"]', ["local.0", "cpu, cpu_composed, cuda"]),
        ("sweeps", 'storages = ["fp15"]', ["storages.0", "fp16"]),
        ("opencl", '[[runs]]\npurpose = "x"\ngraph = "nowhere"\nothers = ["abacus"]', ["runs.0.graph", "others.0"]),
    ],
)  # fmt: skip
def test_names_of_nothing_are_refused_before_anything_runs(tmp_path, kind, text, parts):
    given = f'name = "x"\nkind = "{kind}"\n'
    if "graphs" not in text and kind != "opencl":
        given += 'graphs = ["grid:rows=3,columns=3"]\n'
    with pytest.raises(InputError) as error:
        read(tmp_path, given + text)
    for part in ["x.toml", *parts]:
        assert part in str(error.value)


def test_graphs_that_are_not_here_are_taken(tmp_path, monkeypatch):
    monkeypatch.delenv("CPMS_DATA", raising=False)
    graphs = [
        "web-Google-scc",
        "elsewhere/graph",
        "some.mtx.gz",
        "standin:adaptive",
        "copies:of=(rmat:scale=4),count=2",
    ]
    text = f'name = "x"\nkind = "graphs"\ngraphs = {graphs}'
    assert [cell["graph"] for cell in read(tmp_path, text).cells()] == graphs
    (tmp_path / "mine.txt").write_text("0 1\n")
    monkeypatch.setenv("CPMS_DATA", str(tmp_path))
    assert read(tmp_path, 'name = "x"\nkind = "graphs"\ngraphs = ["mine"]').cells()


def test_weak_graphs_may_be_of_ranks_alone(tmp_path):
    text = 'name = "x"\nkind = "scaling_gpu"\nranks = [1]\nweak = ["{}:parts=RANKS,nodes=7,edges=9"]'
    assert read(tmp_path, text.format("weblike-parts")).cells()
    with pytest.raises(InputError, match=r"weak\.0.*weblike-parts"):
        read(tmp_path, text.format("weblike-pieces"))


def test_reading_a_configuration_imports_no_optional_library():
    program = (
        "import sys; from pathlib import Path; from cpms.experiment import config; "
        f"[config.read(path) for path in Path({str(folder('experiments'))!r}).glob('*.toml')]; "
        "sys.exit(' '.join({'cupy', 'pyopencl', 'mpi4py', 'igraph', 'networkit', 'torch'} & {*sys.modules}) or None)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_missing_file_and_binary_file_are_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        config.read(tmp_path / "absent.toml")
    (tmp_path / "b.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not TOML"):
        config.read(tmp_path / "b.toml")


def test_repetitions_are_outside_the_contestants(tmp_path):
    cells = read(tmp_path, GOOD + 'storages = ["fp64", "cpms2"]\nrepetitions = 2').cells()
    assert [(cell["repetition"], cell["storage"]) for cell in cells] == [
        (0, "fp64"),
        (0, "cpms2"),
        (1, "fp64"),
        (1, "cpms2"),
    ]


VALUES = st.recursive(
    st.one_of(st.integers(-5, 5), st.floats(allow_nan=False), st.booleans(), st.sampled_from(["fp64", "csr", "", "é"])),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)
KEYS = sorted({"kind", *config.read(experiments()["quickstart"]).model_dump(), "zzz"})


def test_method_refine_has_its_own_layout_by_default(tmp_path):
    path = tmp_path / "x.toml"
    path.write_text(
        'name = "x"\nkind = "pagerank"\ngraphs = ["grid:rows=2,columns=2"]\nmethods = ["power", "refine"]\n'
    )
    layouts = {cell["method"]: cell["layout"] for cell in config.read(path).cells()}
    assert layouts == {"power": "csr", "refine": "pattern"}


@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4), st.binary(max_size=8))
def test_any_configuration_is_read_or_refused(tmp_path_factory, changes, junk):
    def toml(value):
        if isinstance(value, bool):
            return str(value).lower()
        return f"[{', '.join(map(toml, value))}]" if isinstance(value, list) else repr(value).replace("'", '"')

    path = Path(tmp_path_factory.mktemp("config")) / "x.toml"
    known = {**tomllib.loads(GOOD), **changes}
    path.write_bytes(
        "".join(f"{key} = {toml(value)}\n" for key, value in known.items()).encode() + junk[:1] * (len(junk) > 6)
    )
    try:
        assert isinstance(config.read(path).cells(), list)
    except CpmsError as error:
        assert "x.toml" in str(error)


def test_a_graph_may_be_a_table_that_says_how_its_file_is_read(tmp_path):
    plain, table = read(
        tmp_path,
        GOOD.replace(
            '"grid:rows=3,columns=3"',
            '"links.csv", {path = "links.csv", columns = ["from", "to"], header = "yes", weights = "ignore"}',
        ),
    ).cells()
    assert table == plain | {"read_options": {"weights": "ignore", "columns": ["from", "to"], "header": "yes"}}
    assert rows.cell_key(plain) != rows.cell_key(table)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        ("{columns = '1,2'}", "graphs.0: a graph is a name, or a table such as"),
        ("{path = 'links.csv', column = '1,2'}", "column: is no key of a graph; it can have path, .*columns"),
        ("{path = 'links.csv', header = 'maybe'}", "header is 'maybe'; it can be 'auto' or 'yes' or 'no'"),
        ("{path = 'links.xyz'}", "graph 'links.xyz' is not known"),
        ("5", "a graph is a name, or a table"),
    ],
)
def test_a_table_that_is_wrong_is_refused(tmp_path, graph, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path, GOOD.replace('"grid:rows=3,columns=3"', graph))


def test_a_graph_of_a_table_is_read_so(tmp_path):
    (tmp_path / "links.csv").write_text("id,from,to\n1,ann,bob\n2,bob,ann\n")
    table = f'{{path = "{tmp_path / "links.csv"}", columns = "from,to"}}'
    text = GOOD.replace('"grid:rows=3,columns=3"', table).replace("pagerank", "graphs")
    experiment = read(tmp_path, text)
    from cpms.experiment.kinds import graphs

    assert graphs.Context(experiment).measure(experiment.cells()[0])["edges"] == 2
