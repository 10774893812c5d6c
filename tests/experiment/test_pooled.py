"""Samples are pooled of repetitions alone: no two results with different parameters are one contestant of a case."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic_core import PydanticUndefined

from cpms.experiment import config
from cpms.experiment.report.observations import observations
from cpms.experiment.rows import rows
from cpms.experiment.rows.changed import parameters
from cpms.experiment.rows.flat import flatten
from cpms.experiment.rows.series import PARAMETERS, TURNED_OFF, contestant, contestants, series_of

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
CASE = ("graph", "values", "purpose", "nodes", "gpu", "algorithm", "systems", "first")
"""Columns of a row or result that belong to what is measured and not to a contestant."""
UNMEASURED = {"only", "queries", "least_tol", "most_tol", "certified", "renumber", "rule", "starts"}
"""Keys of a contestant that only select its graphs, queries or tolerances, or that are parts of an object."""
OTHERS = {"Policy", "RecordedArrangement", "Run", "Setting"}
"""Classes of values of a parameter, or of lists of them."""
ROW = {"cell": "0", "experiment": "mine", "status": "ok", "graph": "path"}


def parts_of(cell: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the contestants of a cell's parameters; a cell that lists none is its own."""
    lists = [value for name in ("contestants", "ours", "ways", "arrangements") for value in [cell.get(name)]]
    found = [each for value in lists if isinstance(value, list) for each in value if isinstance(each, dict)]
    if "arrangements" in cell:
        found = [{"arrangement": each} for each in found]
    return found or [cell]


@pytest.mark.parametrize("path", sorted(EXPERIMENTS.glob("results/**/*.jsonl")), ids=lambda path: path.stem)
def test_results_that_are_pooled_differ_in_their_repetition_alone(path):
    pools: dict[Any, list[tuple[Any, dict[str, Any]]]] = {}
    for row in {row["cell"]: row for row in rows.read(path)}.values():
        for name, result in contestants(row):
            assert "entry" not in result, f"two results of one row are called {name!r}"
            both = {**row, **result}
            key = (name, *(str(both.get(column)) for column in CASE))
            pools.setdefault(key, []).append((row, result))
    for (name, *_), held in pools.items():
        for column in {column for _, result in held for column in result}.difference(PARAMETERS, CASE):
            values = {str(result.get(column)) for row, result in held if result is not row}
            if len(values) > 1:
                assert column.endswith(("_s", "_ms", "_us", "_gbps", "_samples_s")), f"{name}: {column} is {values}"
        own = {column for _, result in held for column in result}  # A result has them in place of its cell's.
        of_cells = [
            {key: value for key, value in row.get("parameters", {}).items() if key not in own or row is result}
            for row, result in held
        ]
        for column in {column for each in of_cells for column in each}.difference({"repetition"}):
            if len({str(each.get(column)) for each in of_cells if column in each}) > 1:
                assert all(isinstance(each.get(column), list | None) for each in of_cells), f"{name}: {column}"


@pytest.mark.parametrize("path", sorted(EXPERIMENTS.glob("configs/**/*.toml")), ids=lambda path: path.stem)
def test_contestants_of_a_configuration_have_names_of_their_own(path):
    experiment = config.read(path)
    repetitions = getattr(experiment, "repetitions", 1)
    counts: dict[Any, int] = {}
    for cell in experiment.cells():
        given_once = parts_of(parameters(experiment, cell))
        for each in given_once:
            values = {name: value for name, value in each.items() if value is not None}
            key = (*(str(cell.get(column)) for column in CASE), contestant(cell, values), str(values.get("only")))
            counts[key] = counts.get(key, 0) + 1
    shared = {key: count for key, count in counts.items() if count > repetitions}
    assert not shared


def models() -> list[type[config.Strict]]:
    """Return the classes of contestants: those of configurations that are no configuration of an experiment."""
    for kind in config.kind_names():
        config.kind_of(kind)
    found = [config.Strict]
    for each in found:
        found += [other for other in each.__subclasses__() if other not in found]
    own = [each for each in found[1:] if each.__module__.startswith("cpms.")]
    return [each for each in own if not issubclass(each, config.Experiment) and each.__name__ not in OTHERS]


@pytest.mark.parametrize("model", models(), ids=lambda model: f"{model.__module__.split('.')[-1]}.{model.__name__}")
def test_each_key_of_a_contestant_distinguishes_it(model):
    for name, field in model.model_fields.items():
        assert name in {*PARAMETERS, *UNMEASURED}, f"{name} must be in PARAMETERS, or contestants are pooled"
        if field.default is not PydanticUndefined and isinstance(field.default, bool):
            assert field.default == (name in TURNED_OFF)


VALUES = st.one_of(st.booleans(), st.integers(1, 9), st.sampled_from(["serial", "cpu"]))


KEYS = st.sampled_from(["mine", "own key", "engine", "local", "fixed", "plain", "error_feedback", "stage"])


@given(st.lists(st.dictionaries(KEYS, VALUES), min_size=1, max_size=5))
@example([{"engine": "cpu"}, {"mine": False, "engine": "cpu", "local": "cpu"}])
@example([{"engine": 1}, {"mine": False, "engine": False, "local": False}, {"mine": False, "local": 1}])
def test_no_two_results_of_a_row_are_pooled(given_results):
    results = [{**each, "solve_s": 1.0 + place} for place, each in enumerate(given_results)]
    row = {**ROW, "results": results}
    assert len(series_of([row])) == len(results)
    assert flatten([row]).parameters.is_unique
    found = observations([row, {**row, "cell": "1", "repetition": 1}])
    assert [*map(len, found.samples)] == [2] * len(results)
    assert found.contestant.is_unique


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ([{}, {"error_feedback": False}, {"convergence_estimate": False}], ["cuda_fused refine", "no error feedback"]),
        ([{"local": "serial"}, {"local": "cpu"}], ["serial", "cpu"]),
        ([{"fixed": True}, {}], ["fixed"]),
        ([{"fixed": True, "storage": "fp16"}, {"storage": "fp32"}], ["fp16", "fp32"]),
    ],
)
def test_contestants_are_named_by_what_they_differ_in(settings, names):
    results = [{"engine": "cuda_fused", "method": "refine", "solve_s": 1.0, **each} for each in settings]
    found = observations([{**ROW, "results": results}])
    assert found.called.tolist()[: len(names)] == names
    assert found.called.is_unique


def test_a_list_of_a_row_is_no_parameter_of_its_results():
    results = [{"engine": "serial", "solve_s": 1.0}, *({"engine": "mpi", "ranks": n, "solve_s": 2.0} for n in (1, 2))]
    row = {**ROW, "ranks": [1, 2], "results": results}
    assert [name for name, _ in contestants(row)] == ["serial", "mpi ranks=1", "mpi ranks=2"]
    called = observations([row]).called.tolist()
    assert called == ["serial", "mpi ranks=1", "mpi ranks=2"]
    assert all(one != other for one, other in itertools.combinations(called, 2))
