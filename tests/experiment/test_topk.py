"""The experiment of the k largest: every contestant is held against a stable sort, on this machine and on a GPU."""

import numpy as np
import pandas as pd
import pytest

from cpms import InputError
from cpms.experiment.kinds import topk
from cpms.experiment.report import show
from cpms.experiment.rows import rows
from cpms.experiment.runner import run

CONFIG = """
kind = "topk"
sizes = [3000, 70000]
ks = [3, 100]
dtypes = ["float64", "float32"]
samples = 2
"""


def recorded(folder, name, more=""):
    path = folder / f"{name}.toml"
    path.write_text(f'name = "{name}"{CONFIG}{more}')
    return rows.read(run(path, output=folder))


def judged(found, exact, among_ties):
    """Exact contestants have the places of a stable sort; others have its values, and may differ among ties."""
    assert len(found) == 2 * 2 * 4
    for row in found:
        assert row["status"] == "ok"
        assert row["bytes"] == row["values"] * np.dtype(row["dtype"]).itemsize
        assert {result["contestant"] for result in row["results"]} >= exact | among_ties
        for result in row["results"]:
            assert result["same_values"]
            assert result["same_places"] or (result["contestant"] not in exact and row["pattern"] != "ascending")
            assert result["least_ms"] <= result["median_ms"] <= result["most_ms"]


def test_contestants_find_what_a_stable_sort_finds(tmp_path):
    judged(recorded(tmp_path, "topk"), {"cpms", "argsort"}, {"argpartition"})
    show.show("topk", results=tmp_path, output=tmp_path)
    assert "argpartition" in (tmp_path / "topk.md").read_text()
    table = pd.read_csv(tmp_path / "topk.csv")
    assert (table["copy ms"] == table.groupby(["type", "values"])["copy ms"].transform("max")).all()
    assert table.share.to_numpy() == pytest.approx((table["copy ms"] / table.ms / 2).to_numpy())


@pytest.mark.gpu
@pytest.mark.usefixtures("gpu_backend")
def test_contestants_on_a_gpu_find_what_a_stable_sort_finds(tmp_path):
    exact = {"cpms", "launch", "launch in order", "argsort"}
    judged(recorded(tmp_path, "gpu_topk", 'device = "cuda"\n'), exact, {"argpartition"})
    show.show("topk", results=tmp_path, output=tmp_path)
    assert "in order ms" in (tmp_path / "topk_gpu.md").read_text()


def test_more_than_there_are_values_is_refused(tmp_path):
    path = tmp_path / "x.toml"
    path.write_text('name = "x"\nkind = "topk"\nsizes = [10]\nks = [5, 11]\n')
    with pytest.raises(InputError, match="11 largest of 10 values do not exist"):
        run(path, output=tmp_path)


def test_an_answer_that_differs_is_seen():
    values = np.array([1.0, 3.0, 3.0, 2.0])
    best = np.array([1, 2, 3])
    assert topk._agreement((values[[1, 2]], np.array([1, 2])), values, best) == {
        "same_values": True,
        "same_places": True,
    }
    assert topk._agreement((values[[2, 1]], np.array([2, 1])), values, best)["same_places"] is False
    assert topk._agreement((values[[1, 3]], np.array([1, 3])), values, best)["same_values"] is False


def test_patterns_are_what_they_are_called():
    rising, equal, ranks = (topk.pattern(np, name, 5000) for name in ("ascending", "equal", "ranks"))
    assert (np.diff(rising) > 0).all()
    assert np.ptp(equal) == 0
    assert 0.2 < (ranks == ranks.min()).mean() < 0.5
    assert ranks.max() > 100 * np.median(ranks)
