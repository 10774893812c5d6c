"""Tables of edges: Parquet files, data frames of pandas or Polars, tables of Arrow, and arrays of sources and targets.

A column of whole numbers holds ids from 0, any other holds names, which count by first appearance (`pandas.factorize`).
Titles decide which columns are meant, as they do for edge lists in text.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cpms.base.errors import CpmsError, InputError
from cpms.base.host_memory import graph_bytes, require_memory
from cpms.base.real_arrays import plain_array
from cpms.base.text.counted import counted
from cpms.base.text.phases import phase
from cpms.base.types import Floats
from cpms.base.validation import require_real
from cpms.graph.edge_arrays import LARGEST_ID
from cpms.graph.edge_list import EdgeList
from cpms.graph.read_record import ReadRecord
from cpms.sources.readers.assemble import assemble
from cpms.sources.readers.edge_lists.columns import given_columns, refuse_header, refuse_third
from cpms.sources.readers.entries import LARGEST_64_BIT_ID, quoted, wrong_weight
from cpms.sources.readers.options import ReadOptions

if TYPE_CHECKING:
    import pandas as pd

_SAMPLE_ROWS = 100
_NO_TITLE = re.compile(r"\d+|column_\d+")
"""Titles that libraries give to columns without one."""


def read(path: Path, options: ReadOptions) -> EdgeList:
    """Read a Parquet file, of which each row is an edge; other columns than the chosen ones are not read.

    Raises
    ------
    InputError
        If the file is corrupt, or its rows are no edges; with file and row.
    """
    import pyarrow.dataset
    import pyarrow.parquet

    try:
        schema = pyarrow.parquet.read_schema(path)
        rows = pyarrow.parquet.read_metadata(path).num_rows
        require_memory(graph_bytes(0, rows, weighted=True), f"{path}: a table of {rows:,} rows")
        titles = [str(name) for name in schema.names]
        chosen = [titles[place] for place in _places(titles, options, str(path))]
        batches = []
        with phase(f"reading {path.name}", rows) as reading:
            for batch in pyarrow.dataset.dataset(path, format="parquet").to_batches(columns=chosen):
                batches.append(batch)
                reading.advance(len(batch))
        frame = pyarrow.Table.from_batches(batches).to_pandas(ignore_metadata=True)
    except (CpmsError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - broken files raise errors of many kinds
        raise InputError(f"{path}: corrupt Parquet file ({quoted(' '.join(str(error).split()))})") from None
    return _edges(frame, chosen, path.stem, str(path), options, form="Parquet")


def from_frame(given: Any, options: ReadOptions) -> EdgeList:
    """Return the edges of a data frame, or of anything that Arrow reads as a table.

    Examples
    --------
    >>> import pandas as pd
    >>> edges = from_frame(pd.DataFrame({"from": ["a", "b"], "to": ["b", "a"]}), ReadOptions())
    >>> edges.nodes, edges.names[0]
    (2, 'a')
    """
    import pandas as pd

    label = "the data frame"
    kind = f"{type(given).__module__.split('.')[0]} {type(given).__name__}"
    if isinstance(given, pd.DataFrame):
        frame = given
    else:
        import pyarrow as pa

        try:
            frame = pa.table(given).to_pandas(ignore_metadata=True)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise InputError(f"{label} is no table for Arrow ({quoted(' '.join(str(error).split()))})") from None
    titles = [str(title) for title in frame.columns]
    places = _places(titles, options, label)
    chosen = frame.iloc[:, list(places)]
    return _edges(chosen, [titles[place] for place in places], "graph", label, options, form=kind)


def from_columns(given: Any, options: ReadOptions) -> EdgeList:
    """Return the edges of a pair of sources and targets, or of these and weights: arrays, series or lists.

    Examples
    --------
    >>> from_columns((["a", "b"], ["b", "c"]), ReadOptions()).names[2]
    'c'
    """
    import pandas as pd

    label = "the edges"
    columns = [_array(column, label) for column in given]
    lengths = {len(column) for column in columns}
    if len(columns) not in (2, 3) or len(lengths) > 1:
        shape = ", ".join(str(len(column)) for column in columns)
        raise InputError(
            f"{label} have columns of {shape} values; give sources and targets, and perhaps weights, alike"
        )
    options.refuse_form(label)
    try:
        frame = pd.DataFrame(dict(enumerate(columns)))
    except UnicodeError as error:
        raise InputError(f"{label}: a name is no Unicode text ({quoted(str(error))})") from None
    except OverflowError as error:  # Up to version 3.0, pandas makes float64 of integers that have no 64 bits.
        raise InputError(f"{label}: a column holds what is no number ({quoted(str(error))})") from None
    if options.weights == "ignore":
        frame = frame.iloc[:, :2]
    return _edges(frame, [str(place + 1) for place in range(frame.shape[1])], "graph", label, options, form="arrays")


def _array(column: Any, label: str) -> Any:
    """Return a column as an array, or as a series of pandas that it is."""
    if getattr(column, "ndim", 1) != 1:
        raise InputError(f"{label} have a column of {column.ndim} dimensions; give lists or arrays of one dimension")
    if hasattr(column, "reset_index"):
        return column.reset_index(drop=True)
    if hasattr(column, "to_list"):
        return column.to_list()
    require_real(f"a column of {label}", column)
    array = plain_array(label, column)
    if array.ndim != 1:
        raise InputError(f"{label} have a column of {array.ndim} dimensions; give lists or arrays of one dimension")
    return array


def _places(titles: list[str], options: ReadOptions, where: str) -> tuple[int, ...]:
    """Return the columns of source, target and perhaps weight, from 0."""
    other = [option for option in options.form if option != "columns"]
    if other:
        raise InputError(f"{where}: {', '.join(other)} can be chosen of edge lists in text alone")
    if options.columns is not None:
        places = given_columns(options, titles, where, "it has")
        if max(places) >= len(titles):
            raise InputError(f"{where}: there is no column {max(places) + 1}; it has {len(titles)}")
        return places[:2] if options.weights == "ignore" else places
    if len(titles) not in (2, 3):
        held = ", ".join(map(quoted, titles[:20]))
        raise InputError(
            f"{where}: {counted(len(titles), 'column')} ({held}) where 2 or 3 belong (source, target, perhaps weight); "
            "name those of the edges by cpms.load(…, columns=['from', 'to']), or --columns from,to"
        )
    if not all(_NO_TITLE.fullmatch(title) for title in titles):
        refuse_header(titles, len(titles), where)
    return (0, 1, 2) if len(titles) == 3 and options.weights == "auto" else (0, 1)


@phase("checking edges")
def _edges(
    frame: pd.DataFrame, titles: list[str], name: str, label: str, options: ReadOptions, *, form: str
) -> EdgeList:
    import pandas as pd

    if frame.shape[0] == 0:
        raise InputError(f"{label}: the graph is empty; it needs at least one edge")
    if options.columns is None and len(titles) == 3 and form != "arrays":
        sample = [[str(value) for value in row] for row in frame.iloc[:_SAMPLE_ROWS].itertuples(index=False)]
        refuse_third(sample, titles, label)
    for place, title in enumerate(titles):
        missing = np.flatnonzero(frame.iloc[:, place].isna().to_numpy())
        if len(missing):
            raise InputError(f"{label}, row {missing[0] + 1}: column {quoted(title)} has no value")
    ends = [_whole_numbers(frame.iloc[:, place], title, label, options) for place, title in enumerate(titles[:2])]
    names: npt.NDArray[Any] | None = None
    if ends[0] is not None and ends[1] is not None:
        sources, targets = ends[0], ends[1]
        nodes = 1 + max(int(sources.max()), int(targets.max()))
    else:
        texts = np.empty((len(frame), 2), object)
        for place in range(2):
            texts[:, place] = [_text(value, titles[place], label) for value in frame.iloc[:, place]]
        codes, unique = pd.factorize(texts.ravel())
        try:
            "".join(unique).encode()
        except UnicodeEncodeError as error:
            raise InputError(f"{label}: a name is no Unicode text ({quoted(str(error))})") from None
        sources, targets = codes[::2], codes[1::2]
        names, nodes = np.asarray(unique, dtype=object), len(unique)
    weights = _weights(frame.iloc[:, 2], titles[2], label, options) if len(titles) == 3 else None
    record = ReadRecord(
        form=f"{form}, {'numbers' if names is None else 'names'}",
        columns=tuple(range(1, 1 + len(titles))),
        header=tuple(titles),
        weights=None if weights is None else f"column {titles[2]}",
    )
    return assemble(
        *(sources, targets, weights, options),
        nodes=nodes,
        name=name,
        label=label,
        names=names,
        record=record,
        both_ways=options.symmetric == "expand",
    )


def _whole_numbers(
    column: pd.Series[Any], title: str, label: str, options: ReadOptions
) -> npt.NDArray[np.int64] | None:
    """Return a column of ids; None if it holds names."""
    from pandas.api.types import infer_dtype

    if hasattr(column, "cat"):
        column = column.astype(column.cat.categories.dtype)
    if column.dtype == object and infer_dtype(column, skipna=False) == "integer":
        column = column.infer_objects()
    kind = getattr(column.dtype, "kind", "O")
    if kind == "b":
        raise InputError(f"{label}: column {quoted(title)} holds truth values, which are no nodes")
    if kind not in "iuf":
        return None
    values = column.to_numpy()
    high = LARGEST_64_BIT_ID if options.ids == "compact" else LARGEST_ID
    with np.errstate(invalid="ignore"):
        fits = values < high + 1.0 if kind == "f" else values <= high  # No float64 is 2**63 - 1.
        wrong = np.flatnonzero(~((values >= 0) & fits & (values == np.floor(values))))
    if len(wrong):
        raise InputError(
            f"{label}, row {wrong[0] + 1}: column {quoted(title)} holds {values[wrong[0]]}; ids are whole numbers "
            f"from 0 to {high}"
        )
    return values.astype(np.int64)


def _text(value: Any, title: str, label: str) -> str:
    if isinstance(value, (str, int, np.integer)):
        return str(value)
    raise InputError(
        f"{label}: column {quoted(title)} holds {quoted(str(value))}; nodes are named by texts or integers"
    )


def _weights(column: pd.Series[Any], title: str, label: str, options: ReadOptions) -> Floats:
    require_real(f"{label}: column {quoted(title)}", column.to_numpy())
    try:
        weights = column.to_numpy(dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"{label}: column {quoted(title)} holds what is no number ({quoted(str(error))}); "
            "weights='ignore' leaves it out"
        ) from None
    least = weights >= 0 if options.zero_weights == "drop" else weights > 0
    wrong = np.flatnonzero(~(least & np.isfinite(weights)))
    if len(wrong):
        raise InputError(f"{label}, row {wrong[0] + 1}: {wrong_weight(float(weights[wrong[0]]))}")
    return weights
