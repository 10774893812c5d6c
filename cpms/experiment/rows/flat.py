"""Rows as a table with one line a result, for pandas, CSV files and Parquet files.

A row holds the results of one cell, often several in a list. The table repeats the columns of the cell on the line of
each result (tidy data, Wickham, J. Stat. Softw. 59 (2014)): every line is one observation, so that filters, groups and
figures need one statement. Lists and objects become JSON in a column whose name ends in ``_json``, because CSV has no
lists and a Parquet column has one type. The cost is one copy of the rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cpms.base.atomic_files import replacing
from cpms.base.errors import InputError
from cpms.base.package_data import experiments, folder
from cpms.base.text.suggestions import nearest, unknown
from cpms.base.text.tables import write_csv
from cpms.experiment.derived import sweep_times
from cpms.experiment.rows import rows as files
from cpms.experiment.rows.rows import Row
from cpms.experiment.rows.series import RESULTS, contestants

if TYPE_CHECKING:
    import pandas as pd

_FIRST = ("experiment", "cell", "result", "graph", "parameters", "status")


def flatten(rows: Iterable[Row]) -> pd.DataFrame:
    """Return rows as a table with one line a result; docs/rows.md has the type and unit of each column.

    A column of a result takes precedence over one of its cell. Some columns of sweeps are derived from others
    (`cpms.experiment.derived.sweep_times`). Results that could not be measured have a line with their ``status`` and
    ``reason``.

    Parameters
    ----------
    rows : iterable of dict
        Of `cpms.experiment.rows.rows.read`.

    Returns
    -------
    pandas.DataFrame
        Columns ``experiment``, ``cell``, ``result`` (the place within the cell), ``graph``, ``parameters`` (the text
        that `cpms compare` calls a contestant) and ``status`` first. Values that a line lacks are None or NaN.

    Examples
    --------
    >>> row = {"cell": "0", "experiment": "mine", "status": "ok", "graph": "path"}
    >>> table = flatten([{**row, "results": [{"engine": "cpu", "solve_s": 2.0}, {"engine": "cuda", "bits": [16, 64]}]}])
    >>> table[["result", "parameters", "solve_s", "bits_json"]].values.tolist()
    [[0, 'cpu', 2.0, None], [1, 'cuda', nan, '[16, 64]']]
    """
    import pandas as pd

    lines = [line for row in rows for line in _lines(row)]
    names = dict.fromkeys([*_FIRST, *(name for line in lines for name in line)])
    columns = {name: [line.get(name) for line in lines] for name in names}
    return pd.DataFrame({name: _column(values) for name, values in columns.items()})


def _lines(row: Row) -> Iterator[dict[str, Any]]:
    cell = {name: value for name, value in row.items() if name not in RESULTS}
    for place, (name, result) in enumerate(contestants(row)):
        status = row["status"] if row["status"] != "ok" else result.get("status", "ok")
        derived = sweep_times.columns(row, result)
        joined = {**cell, **result, **derived, "status": status, "result": place, "parameters": name}
        yield dict(_plain(name, value) for name, value in joined.items())


def _plain(name: str, value: Any) -> tuple[str, Any]:
    if isinstance(value, list | dict):
        return f"{name}_json", json.dumps(value, sort_keys=True)
    return name, value


def _column(values: list[Any]) -> pd.Series[Any]:
    """Return values as a column of one type: whole numbers and truth values may be missing, all else is text."""
    import pandas as pd

    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return pd.Series(values, dtype="boolean" if None in values else "bool")
    if kinds == {int} and all(value is None or abs(value) < 2**63 for value in values):
        return pd.Series(values, dtype="Int64" if None in values else "int64")
    if kinds and kinds <= {int, float} and all(map(_is_exact, values)):
        return pd.Series([None if value is None else float(value) for value in values], dtype="float64")
    texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    return pd.Series(texts, dtype=object)


def _is_exact(value: float | None) -> bool:
    """Return whether a number is one of float64, as integers beyond 2**53 may not be."""
    return not isinstance(value, int) or float(value) == value


def read_table(source: Path | str) -> pd.DataFrame:
    """Return the flattened rows of a file or a folder of rows, the last row of each cell.

    A contestant without a layout of its own has that of its cell.

    Parameters
    ----------
    source : Path or str
        A file or folder, or the name of an experiment whose rows come with cpms.

    Raises
    ------
    InputError
        If there is none, or it holds no rows.

    Examples
    --------
    >>> table = read_table("topk")
    >>> sorted(set(table.contestant))
    ['argpartition', 'argsort', 'cpms']
    """
    rows = read_rows(source)
    table = flatten({**row, "cell_layout": row["layout"]} if row.get("layout") else row for row in rows)
    of_cell = table.pop("cell_layout") if "cell_layout" in table else None
    return table if of_cell is None else table.assign(layout=table.layout.fillna(of_cell))


def read_rows(source: Path | str) -> list[Row]:
    """Return the rows of `read_table`'s sources, before they are flattened.

    Raises
    ------
    InputError
        If the source does not exist, or holds no rows.
    """
    held = files_of_rows(source)
    found = {(row["experiment"], row["cell"]): row for file in held for row in files.read(file)}
    if not found:
        raise InputError(f"{source}: holds no rows; 'cpms run CONFIG.toml --output DIR' makes some")
    return list(found.values())


def files_of_rows(source: Path | str) -> list[Path]:
    """Return the files of `read_table`'s sources: that file, or all files of rows in that folder.

    Raises
    ------
    InputError
        If the source does not exist.
    """
    path = _found(source)
    return sorted(path.glob("*.jsonl")) if path.is_dir() else [path]


def source_folder(source: Path | str) -> Path:
    """Return the folder of `read_table`'s sources, in which configurations may lie beside the rows."""
    path = _found(source)
    return path if path.is_dir() else path.parent


def _found(source: Path | str) -> Path:
    path, recorded = Path(source), folder("experiments") / "results"
    if not path.exists() and (recorded / f"{source}.jsonl").is_file():
        path = recorded / f"{source}.jsonl"
    if not path.exists():
        shipped = [name for name in experiments() if (recorded / f"{name}.jsonl").is_file()]
        if path.name != str(source) or path.suffix or not nearest(str(source), shipped):
            raise InputError(
                f"{source}: there is no such file or folder of rows; 'cpms run CONFIG.toml --output DIR' makes one, "
                "and 'cpms run --help' lists the experiments whose rows come with cpms"
            )
        raise InputError(unknown("source of rows", str(source), shipped, ", or a path to a file or folder of rows"))
    return path


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV or Parquet, by the ending of the path.

    Texts in CSV files are escaped, so that spreadsheets take none for a formula; Parquet files keep texts as they are.

    Raises
    ------
    InputError
        If the ending is another one, or the file cannot be written.
    """
    if path.suffix not in (".csv", ".parquet"):
        raise InputError(f"{path}: rows are written to .csv and .parquet; give a path with such an ending")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            if path.suffix == ".csv":
                temporary.write_text(str(write_csv(table)), encoding="utf-8")
            else:
                table.to_parquet(temporary, index=False)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}); give another path") from None
