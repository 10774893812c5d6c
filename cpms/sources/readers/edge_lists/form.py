"""What an edge list looks like: separator, columns, header line, comments, numbers or names as ids."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass

from cpms.base.errors import InputError
from cpms.graph.read_record import ReadRecord
from cpms.sources.readers.edge_lists import columns as columns_of
from cpms.sources.readers.edge_lists.delimiter import counted_fields, separator_of, usual_fields
from cpms.sources.readers.edge_lists.header import FirstLine, first_is, role_of
from cpms.sources.readers.edge_lists.lines import is_decimal, is_word, marks_of, sampled_fields
from cpms.sources.readers.edge_lists.sample import Sample, sample_of
from cpms.sources.readers.entries import quoted
from cpms.sources.readers.options import DELIMITERS, ReadOptions
from cpms.sources.readers.stream import Stream

Rows = list[list[str]]
ADJACENCY = "an adjacency list must be written as one edge a line"
_PLAIN = re.compile(r"[\w.-]+", re.ASCII)
"""Titles that a shell takes as they are."""
EMPTY = "the graph is empty; it needs at least one edge"


@dataclass(frozen=True)
class EdgeListForm:
    """How to read the lines of an edge list.

    Parameters
    ----------
    separator : str or None
        The character between fields, or None for any run of blanks and tabs.
    columns : tuple of int
        Source, target and perhaps weight, from 0.
    numbered : bool
        Whether ids are numbers.
    fields : int, optional
        How many fields every line has; None: at least those that ``columns`` name.
    chosen : bool
        Whether an option names the columns.
    labelled : bool
        Whether one field that is not read may follow source and target.
    header : tuple of str, optional
        The titles of the first line.
    header_line : bytes
        That line, empty if it holds numbers alone, which an edge may have too.
    marks : tuple of str
        What comment lines begin with.
    first_line : int
        Where the first edge is, from 1.
    comment_lines : int
        Comment lines above it.
    doubtful : tuple of str
        Source, target and other fields of the first line, if it is an edge only where the rest bears that out.
    trusted : bool
        Whether ``header`` holds titles for certain, even if a node is called like one of them.
    """

    separator: str | None
    columns: tuple[int, ...]
    numbered: bool
    fields: int | None = None
    chosen: bool = False
    labelled: bool = False
    header: tuple[str, ...] | None = None
    header_line: bytes = b""
    marks: tuple[str, ...] = ()
    first_line: int = 1
    comment_lines: int = 0
    doubtful: tuple[str, ...] = ()
    trusted: bool = True

    @property
    def valued(self) -> bool:
        """Whether a column holds weights."""
        return len(self.columns) == 3

    @property
    def fields_possible(self) -> tuple[int, int]:
        """The least and the most fields that a line may have."""
        if self.fields is None:
            return 1 + max(self.columns), sys.maxsize
        return self.fields, self.fields + self.labelled

    def looks_like_edge(self, text: str) -> bool:
        """Return whether a line that begins with a comment mark might be an edge instead."""
        row = sampled_fields(text, self.separator)
        least, most = self.fields_possible
        if self.numbered or not least <= len(row) <= most or not (row[self.columns[0]] and row[self.columns[1]]):
            return False
        return not self.valued or is_decimal(row[self.columns[2]])

    def record(self) -> ReadRecord:
        """Return what is known of the file before its edges are read."""
        titles = self.header or ()
        place = self.columns[2] if self.valued else 0
        called = f" ({titles[place]})" if place < len(titles) else ""
        return ReadRecord(
            form=f"edge list of {'numbers' if self.numbered else 'names'}",
            delimiter=next((name for name, each in DELIMITERS.items() if each == self.separator), self.separator),
            columns=tuple(place + 1 for place in self.columns),
            header=self.header,
            comment_lines=self.comment_lines,
            weights=f"column {place + 1}{called}" if self.valued else None,
        )


def sniff(stream: Stream, options: ReadOptions) -> EdgeListForm:
    """Find out the form of an edge list from its first lines and from what ``options`` say of it.

    Raises
    ------
    InputError
        If there is no line but comments, or the lines can be understood in more than one way.
    """
    marks = marks_of(options.comments)
    sample = sample_of(stream, marks)
    if not sample.lines:
        raise InputError(f"{stream.label}: {EMPTY}{_marked_alone(sample)}")
    where = f"{stream.label}, line {sample.lines[0][0]}"
    separator = separator_of(sample.lines, options, stream.label)
    rows = [sampled_fields(text, separator) for _, text in sample.lines]
    header = _header(options, where)
    chosen = options.columns is not None
    columns, fields = _columns(rows[1:] or rows if header == "yes" else rows, rows[0], options, where)
    if fields is None:
        _check_least_fields(sample, rows, columns, header, stream.label)
    else:
        _check_fields(sample, rows, fields, header, stream.label)
    numbered = _numbered(rows if header == "no" else rows[1:] or rows, columns)
    first_kind = {"yes": FirstLine.TITLES, "no": FirstLine.EDGE}.get(header) or first_is(
        rows, columns, numbered=numbered, where=where
    )
    titled = first_kind is FirstLine.TITLES
    if titled and len(rows) == 1:
        raise InputError(
            f"{where}: {EMPTY}; its only line was taken for a header (header='no', --header no){_marked_alone(sample)}"
        )
    if not chosen:
        _check_columns(rows, titled, columns, options, where, numbered=numbered)
    first_line = sample.lines[1 if titled else 0][0]
    form = EdgeListForm(
        separator=separator,
        columns=columns,
        numbered=numbered,
        fields=fields if chosen else len(columns),
        chosen=chosen,
        labelled=not chosen and fields == 3 and len(columns) == 2,
        header=tuple(rows[0]) if titled else None,
        header_line=sample.first_bytes if titled and any(map(is_word, rows[0])) else b"",
        marks=marks,
        first_line=first_line,
        comment_lines=sample.marked_before(first_line),
        doubtful=() if first_kind is not FirstLine.DOUBTFUL else _possible_counts(rows[0], columns if chosen else None),
        trusted=header == "yes" or len(columns) == 3,
    )
    if options.comments == "auto":
        _check_comments(sample, form, rows, stream.label)
    return form


def _possible_counts(first: list[str], columns: tuple[int, ...] | None) -> tuple[str, ...]:
    """Return source, target and what else may be a count in the first line."""
    return tuple(first if columns is None else [first[place] for place in columns if place < len(first)])


def _marked_alone(sample: Sample) -> str:
    if not sample.marked:
        return ""
    return f" ({len(sample.marked)} other lines begin with a comment mark; --comments none reads them)"


def _header(options: ReadOptions, where: str) -> str:
    """Return whether there is a header as far as ``options`` say so: titles of columns imply one."""
    if not any(isinstance(column, str) for column in options.columns or ()):
        return options.header
    if options.header == "no":
        raise InputError(f"{where}: columns are chosen by title, but header is 'no'; choose columns by number")
    return "yes"


def _columns(rows: Rows, first: list[str], options: ReadOptions, where: str) -> tuple[tuple[int, ...], int | None]:
    """Return the columns to read, from 0, and how many fields there are; columns by number leave that open."""
    if options.columns:
        given = columns_of.given_columns(options, first, where)
        by_title = any(isinstance(column, str) for column in options.columns)
        return given[:2] if options.weights == "ignore" else given, len(first) if by_title else None
    fields = usual_fields(rows)
    if fields not in (2, 3):
        raise InputError(
            f"{where}: {counted_fields(rows[0])} where 2 or 3 belong (source, target, perhaps weight); "
            f"name their columns (columns=…, --columns 1,2 or 1,2,3{_by_title(rows[0])}); {ADJACENCY}"
        )
    return (0, 1, 2) if fields == 3 and options.weights == "auto" else (0, 1), fields


def _by_title(first: list[str]) -> str:
    """Return an option that names the titles of source and target, if the first line has them."""
    roles = [role_of(title) for title in first]
    if roles.count("source") != 1 or roles.count("target") != 1:
        return ""
    named = [first[roles.index(role)] for role in ("source", "target")]
    return f", or by title --columns {','.join(named)}" if all(_PLAIN.fullmatch(title) for title in named) else ""


def _check_least_fields(sample: Sample, rows: Rows, columns: tuple[int, ...], header: str, label: str) -> None:
    """Refuse lines without the columns that an option names by number."""
    for (number, _), row in list(zip(sample.lines, rows, strict=True))[header == "yes" :]:
        if len(row) <= max(columns):
            named = ", ".join(str(place + 1) for place in columns)
            raise InputError(
                f"{label}, line {number}: {counted_fields(row)} where columns {named} are chosen; choose others "
                "(columns=…, --columns), or another delimiter (delimiter=…, --delimiter)"
            )


def _check_fields(sample: Sample, rows: Rows, fields: int, header: str, label: str) -> None:
    """Refuse lines of other numbers of fields than most have."""
    lower = rows if header == "no" else rows[1:]
    if header == "auto" and len(rows[0]) != fields and all(len(row) == fields for row in lower):
        raise InputError(
            f"{label}, line {sample.lines[0][0]}: {counted_fields(rows[0])} where the lines below have {fields}; if it "
            f"is no edge, header='yes' (--header yes) passes over it, comments=… (--comments MARK) over all lines that "
            f"begin with a mark; {ADJACENCY}"
        )
    for (number, text), row in zip(sample.lines[len(rows) - len(lower) :], lower, strict=True):
        if len(row) != fields and text.count('"') % 2:
            raise InputError(f"{label}, line {number}: a quoted field runs past the end of its line")
        if len(row) != fields:
            meaning = "source, target, weight" if fields == 3 else "source, target"
            raise InputError(
                f"{label}, line {number}: {counted_fields(row)} where {fields} belong ({meaning}); columns=… "
                f"(--columns 1,2) reads some columns alone; {ADJACENCY}"
            )


def _check_columns(
    rows: Rows, titled: bool, columns: tuple[int, ...], options: ReadOptions, where: str, *, numbered: bool
) -> None:
    """Refuse lists that may have source, target or weights in other columns than the first ones."""
    body, titles = (rows[1:], rows[0]) if titled else (rows, None)
    if titles and len(titles) != len(body[0]) and not all(map(is_word, titles)):
        titles = None  # They are counts of nodes and edges, which an option passes over.
    if titles:
        columns_of.refuse_header(titles, len(body[0]), where)
    columns_of.refuse_shapes(body, where)
    if len(columns) == 3:
        columns_of.refuse_third(body, titles, where)
    elif options.weights == "ignore" and not numbered:
        columns_of.refuse_labels(body, titles, where)


def _check_comments(sample: Sample, form: EdgeListForm, rows: Rows, label: str) -> None:
    """Refuse lines above the first edge whose mark may begin a name: no blank follows it, or a node is called so."""
    names = {row[place] for row in rows for place in form.columns[:2] if len(row) > place}
    for number, text in sample.marked:
        if number > form.first_line or not form.looks_like_edge(text):
            continue
        mark = next(mark for mark in form.marks if text.lstrip().startswith(mark))
        ends = [sampled_fields(text, form.separator)[place] for place in form.columns[:2]]
        plain = text.lstrip()[len(mark) :][:1] in ("", " ", "\t", *mark) and form.separator != "\t"
        titles = [role_of(end.lstrip("#%/")) for end in ends] == ["source", "target"]
        if (not plain and not titles) or ends[0] in names:
            raise InputError(f"{label}, line {number}: {doubtful_comment(text, mark)}")


def doubtful_comment(text: str, mark: str) -> str:
    """Say that a line may be a comment or an edge, and which options settle it.

    Examples
    --------
    >>> doubtful_comment("#python,#numpy", "#").partition(";")[0]
    "'#python,#numpy' may be a comment or an edge"
    """
    return (
        f"{quoted(text.strip())} may be a comment or an edge; comments='none' (--comments none) reads it as an edge, "
        f"comments={mark!r} (--comments '{mark}') passes over such lines"
    )


def _numbered(rows: Rows, columns: tuple[int, ...]) -> bool:
    """Return whether at least half of the lines have numbers as ids."""
    ends = [[row[place] for place in columns[:2] if len(row) > place] for row in rows]
    return 2 * sum(len(pair) == 2 and all(map(is_decimal, pair)) for pair in ends) >= len(ends)
