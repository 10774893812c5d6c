"""Flattened rows: no number is lost or altered, files read back equal, and the schema covers all recorded rows."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpms.base.errors import InputError
from cpms.base.package_data import folder
from cpms.cli.main import main
from cpms.experiment.rows import rows as files
from cpms.experiment.rows import schema
from cpms.experiment.rows.flat import flatten, read_rows, read_table, write_table
from cpms.experiment.rows.series import contestants, results_of

RECORDED = folder("experiments") / "results"
ROW = {"cell": "0", "experiment": "mine", "status": "ok", "graph": "path"}
FITS = {
    "text": lambda held: isinstance(held, str),
    "integer": lambda held: isinstance(held, int) and not isinstance(held, bool),
    "number": lambda held: isinstance(held, int | float) and not isinstance(held, bool),
    "boolean": lambda held: isinstance(held, bool),
    "JSON": lambda held: isinstance(json.loads(held), list | dict),
}

scalars = st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False) | st.text(max_size=5)
values = (
    scalars
    | st.lists(st.integers(0, 9), max_size=3)
    | st.dictionaries(st.text(max_size=3), st.floats(0, 1), max_size=2)
)
results = st.lists(st.dictionaries(st.sampled_from(["a", "b_s", "c"]), values, max_size=3), min_size=1, max_size=4)


@given(st.lists(results, min_size=1, max_size=4))
def test_no_value_is_lost_or_altered(lists):
    rows = [{**ROW, "cell": str(k), "results": each} for k, each in enumerate(lists)]
    table = flatten(rows)
    assert len(table) == sum(map(len, lists))
    for line in table.to_dict("records"):
        given_ = lists[int(line["cell"])][line["result"]]
        for name, value in given_.items():
            if isinstance(value, list | dict):
                assert json.loads(line[f"{name}_json"]) == value
            elif value is not None and table[name].dtype != object:
                assert line[name] == value
            elif value is not None:
                assert line[name] == (value if isinstance(value, str) else json.dumps(value))
            else:
                assert pd.isna(line[name])


def test_a_result_has_precedence_over_its_cell_but_not_over_a_cell_that_failed():
    table = flatten([{**ROW, "tol": 1e-3, "status": "unavailable", "results": [{"tol": 1e-6, "status": "ok"}]}])
    assert (table.tol[0], table.status[0]) == (1e-6, "unavailable")


def test_a_contestant_without_a_layout_has_that_of_its_cell(tmp_path):
    results_ = [{"engine": "cpu", "layout": None}, {"engine": "cpu", "layout": "pattern"}]
    row = {**ROW, "layout": "csr", "results": results_}
    (tmp_path / "mine.jsonl").write_text(json.dumps(row) + "\n")
    table = read_table(tmp_path)
    assert table.layout.tolist() == ["csr", "pattern"]
    assert table.parameters.tolist() == [name for name, _ in contestants(row)]


@pytest.fixture(scope="module")
def recorded():
    return read_table(RECORDED)


def test_the_schema_has_each_recorded_column_with_its_type(recorded):
    known = schema.columns()
    counts = [name for name, each in known.items() if each.meaning.endswith("of kind graphs their number")]
    assert counts == ["dangling", "self_loops"]
    assert not set(recorded.columns) - set(known)
    faults = []
    for name in recorded.columns:
        held = recorded[name].dropna()
        numbers = held if name in ("dangling",) else held[:: max(1, len(held) // 200)]
        fits = FITS["integer"] if name in counts and held.dtype != object else FITS[known[name].type]
        faults += [(name, each) for each in numbers.tolist() if not fits(each)]
    assert not faults[:5]


def test_numbers_of_recorded_rows_are_those_of_the_files(recorded):
    rows = [row for path in sorted(RECORDED.glob("*.jsonl")) for row in files.read(path)]
    times = [each["solve_s"] for row in rows for each in results_of(row) if "solve_s" in each]
    assert sorted(times) == sorted(recorded.solve_s.dropna())


def test_the_page_is_that_of_the_schema():
    assert (Path(__file__).parents[2] / "docs" / "rows.md").read_text(encoding="utf-8") == schema.page()
    assert {each.type for each in schema.columns().values()} == set(schema.TYPES)
    for name, each in schema.columns().items():
        if each.type == "number":
            assert each.unit == schema.unit_of(name) != ""


def test_files_read_back_equal(tmp_path):
    table = read_table("topk")
    write_table(table, tmp_path / "a.parquet")
    plain = [each.astype(object).where(each.notna(), None) for each in (pd.read_parquet(tmp_path / "a.parquet"), table)]
    pd.testing.assert_frame_equal(*plain, check_column_type=False)
    write_table(table, tmp_path / "new" / "a.csv")
    again = pd.read_csv(tmp_path / "new" / "a.csv", dtype={"median_ms": str})  # pandas before 3.1 rounds numbers badly.
    assert again.median_ms.map(float).tolist() == table.median_ms.tolist()
    assert list(again.columns) == list(table.columns)


def test_the_command_writes_and_lists(tmp_path, capsys):
    paths = [str(tmp_path / name) for name in ("a.csv", "a.parquet")]
    assert main(["rows", "topk", "--csv", paths[0], "--parquet", paths[1]]) == 0
    assert all(Path(path).stat().st_size for path in paths)
    assert main(["rows", "topk"]) == 0
    listed = capsys.readouterr().out
    assert "median of samples" in listed
    assert "rows no commit explains: 0 of 12" in listed


def test_formulas_in_names_stay_texts_in_csv(tmp_path):
    write_table(flatten([{**ROW, "graph": "=1+1\n"}]), tmp_path / "a.csv")
    assert "'=1+1\\n" in (tmp_path / "a.csv").read_text()


@pytest.mark.parametrize("arguments", [["nothing"], ["topk", "--csv", "a.txt"], ["topk", "--parquet", "a.csv"]])
def test_bad_input_is_a_line(arguments, capsys):
    assert main(["rows", *arguments]) == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("read", [read_rows, read_table])
def test_a_folder_without_rows_is_refused(tmp_path, read):
    with pytest.raises(InputError, match="holds no rows"):
        read(tmp_path)
