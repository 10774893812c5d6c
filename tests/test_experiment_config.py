"""Configurations: everything wrong is said at once, and nothing but the project's own errors comes out."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpms.errors import CpmsError, InputError
from cpms.experiment import config
from cpms.shipped import folder

GOOD = 'name = "x"\nkind = "pagerank"\ngraphs = ["grid:rows=3,columns=3"]\n'


def read(tmp_path, text):
    path = tmp_path / "x.toml"
    path.write_text(text)
    return config.read(path)


@pytest.mark.parametrize("path", sorted(folder("experiments").glob("*.toml")), ids=lambda path: path.stem)
def test_every_configuration_that_ships_is_valid(path):
    experiment = config.read(path)
    assert experiment.name == path.stem
    assert len(experiment.cells()) > 0


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
KEYS = sorted({"kind", *config.read(folder("experiments") / "quickstart.toml").model_dump(), "zzz"})


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
