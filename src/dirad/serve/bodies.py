"""The bodies of requests: rows with labels and ids, as JSON, CSV, Arrow or Parquet."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json

from dirad.core.magnitudes import LARGEST
from dirad.serve.binary import check_columns, read_binary
from dirad.serve.errors import Refused, TooLarge
from dirad.serve.specification import IDS, TARGET, Specification
from dirad.tables.errors import TableError
from dirad.tables.table import Chunk
from dirad.tables.values import category, number, whole_number

JSON, CSV = "application/json", "text/csv"
ARROW = ("application/vnd.apache.arrow.stream", "application/vnd.apache.arrow.file")
PARQUET = ("application/vnd.apache.parquet", "application/x-parquet")
MAX_NUMBERS = 8_000_000  # that the rows of a request may become
MAX_ID = 200  # characters of an id or of a text label
MAX_WHOLE = 2**53  # labels beyond it are not exact in every format
WHERE = "the body"  # what errors call the file
# Errors of tables name options of commands; those of a stream say how it was created.
REASONS = {
    " (--impute median, when fitting, fills missing values)": ', and the column has no "gaps"',
    "was not seen in training; known:": "is none of the categories",
    " (--unseen zero)": ', and the column has no "other"',
}


@dataclass(frozen=True)
class Rows:
    """The rows of a request."""

    X: NDArray[np.float64]
    labels: list[Any] | None = None  # None: no label at all; in the list: that one is unknown
    ids: list[str] | None = None
    label_type: str | None = None  # "text" or "number"


@dataclass(frozen=True)
class Question:
    """What a client asks about rows."""

    rows: Rows
    explain: bool = False
    coverage: float | None = None  # of intervals


@dataclass(frozen=True)
class LateLabels:
    """Labels that became known later, and the numbers or ids of their rows."""

    labels: list[Any]
    numbers: list[int] | None
    ids: list[str] | None
    label_type: str | None


def parsed_json(body: bytes) -> Any:
    """Return a JSON body; numbers beyond float64, NaN and deep nesting are refused."""
    try:
        return from_json(body, allow_inf_nan=False)
    except (ValueError, RecursionError) as error:
        raise Refused(f"the body is no JSON: {str(error)[:200]}", 400) from None


def is_binary(content_type: str) -> bool:
    """Say whether a body is read by programs that were made for trusted files."""
    return _kind(content_type) in ARROW + PARQUET


def _kind(content_type: str) -> str:
    return content_type.split(";")[0].strip().lower() or JSON


def read_rows(specification: Specification, content_type: str, body: bytes, max_rows: int) -> Rows:
    """Return the rows of a body of any supported type."""
    kind = _kind(content_type)
    if kind == JSON:
        return rows_of_json(specification, parsed_json(body), max_rows)
    if kind == CSV:
        return _rows_of_table(specification, csv_columns(body, max_rows))
    if kind in ARROW + PARQUET:
        _check_size(specification, 1)
        return _rows_of_table(specification, _binary_columns(specification, kind, body, max_rows))
    known = ", ".join([JSON, CSV, *ARROW, *PARQUET])
    raise Refused(f"Content-Type {kind!r:.80} is not supported; use one of {known}", 415)


def read_question(
    specification: Specification, content_type: str, body: bytes, max_rows: int
) -> Question:
    """Return the rows to predict; a JSON body may ask for more than the answers."""
    if _kind(content_type) != JSON:
        return Question(read_rows(specification, content_type, body, max_rows))
    obj = parsed_json(body)
    rows = rows_of_json(specification, obj, max_rows)
    explain, coverage = obj.get("explain", False), obj.get("coverage")
    if not isinstance(explain, bool):
        raise Refused(f"explain must be true or false, got {explain!r:.40}")
    if coverage is not None and (type(coverage) not in (int, float) or not 0 < coverage < 1):
        raise Refused(f"coverage must be between 0 and 1, got {coverage!r:.40}")
    return Question(rows, explain, coverage)


def read_late_labels(specification: Specification, obj: Any, max_rows: int) -> LateLabels:
    """Return late labels: `rows` or `ids`, and a label for each."""
    given = obj if isinstance(obj, dict) else {}
    numbers, ids = given.get("rows"), given.get("ids")
    named = numbers if ids is None else ids
    if not isinstance(named, list) or (numbers is not None and ids is not None):
        raise Refused('the body must be an object with "labels", and with "rows" or "ids"')
    _check_count(len(named), max_rows)
    if ids is None and any(type(one) is not int or not 0 <= one < 2**62 for one in named):
        raise Refused("rows must be the whole numbers of rows, as they were accepted")
    labels = late_labels(specification, given.get("labels"), len(named))
    named_ids = None if ids is None else checked_ids(ids, len(ids))
    return LateLabels(labels, numbers, named_ids, label_type_of(labels))


def rows_of_json(specification: Specification, obj: Any, max_rows: int) -> Rows:
    """Return rows that are lists in the order of the columns, or objects by column names."""
    if not isinstance(obj, dict) or not isinstance(obj.get("rows"), list):
        raise Refused('the body must be an object with "rows", a list of rows')
    rows, names = obj["rows"], [column.name for column in specification.columns]
    _check_count(len(rows), max_rows)
    columns = _columns_of_rows(rows, names)
    X = _inputs(specification, columns, len(rows))
    labels = _labels(specification, obj.get("labels"), len(rows))
    return Rows(X, labels, checked_ids(obj.get("ids"), len(rows)), label_type_of(labels))


def _check_count(n: int, most: int) -> None:
    if n == 0:
        raise Refused("there are no rows")
    if n > most:
        raise TooLarge(f"{n} rows, and a request may have {most}")


def _columns_of_rows(rows: list[Any], names: list[str]) -> dict[str, list[Any]]:
    """Turn rows into columns."""
    if set(map(type, rows)) != {list} or set(map(len, rows)) != {len(names)}:
        _check_rows(rows, names)
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def _check_rows(rows: list[Any], names: list[str]) -> None:
    """Turn rows that are objects into lists; refuse what is no row of these columns."""
    for i, row in enumerate(rows):
        if isinstance(row, dict):
            missing = [name for name in names if name not in row]
            unknown = sorted(row.keys() - set(names))
            if missing:
                raise Refused(f"row {i}: column {missing[0]!r:.80} is missing")
            if unknown:
                raise Refused(f"row {i}: there is no column {unknown[0]!r:.80}")
            rows[i] = [row[name] for name in names]
        elif not isinstance(row, list):
            raise Refused(f"row {i}: a row is a list or an object, got {row!r:.40}")
        elif len(row) != len(names):
            raise Refused(f"row {i}: {len(row)} values, and there are {len(names)} columns")


def _inputs(
    specification: Specification, columns: Mapping[str, Any], n: int
) -> NDArray[np.float64]:
    """Return the numbers that the learner takes."""
    _check_size(specification, n)
    values: dict[str, Any] = {}
    for column in specification.columns:
        found = columns[column.name]
        if isinstance(found, list):
            found = _numbers(found, column.name) if column.kind == "number" else _texts(found)
        values[column.name] = found
    try:
        X = specification.encoder.transform(Chunk(WHERE, values, range(n)))
    except TableError as error:
        text = str(error)
        for option, reason in REASONS.items():
            text = text.replace(option, reason)
        raise Refused(text) from None
    far = np.abs(X) > LARGEST
    if far.any():
        row, place = np.argwhere(far)[0].tolist()
        name = specification.encoder.feature_names[place]
        raise Refused(f"{WHERE}, row {row}, column {name!r}: the number is too large")
    return X


def _check_size(specification: Specification, n: int) -> None:
    width = len(specification.encoder.feature_names)
    if n * width > MAX_NUMBERS:
        most = MAX_NUMBERS // width
        raise TooLarge(f"{n} rows of {width} inputs: send {most} rows at once, or fewer")


def _numbers(values: list[Any], name: str) -> Any:
    """Return numbers as an array; texts stay a list, whose texts the encoder reads or refuses."""
    kinds = set(map(type, values))
    if kinds <= {int, float, type(None)}:
        try:
            found = np.array([math.nan if one is None else one for one in values], np.float64)
        except OverflowError:
            raise Refused(f"{WHERE}, column {name!r}: a number is too large") from None
        return found
    return _texts(values)


def _texts(values: list[Any]) -> list[str]:
    """Return values as texts, as a CSV file would hold them."""
    texts = []
    for one in values:
        if isinstance(one, list | dict):
            raise Refused(f"a value of a row is a number, a text, true, false or null: {one!r:.40}")
        is_flag = isinstance(one, bool)
        texts.append("" if one is None else str(one).lower() if is_flag else str(one))
    return texts


def _labels(specification: Specification, given: Any, n: int) -> list[Any] | None:
    """Return the labels, None where one is unknown; refuse what cannot be a label."""
    if given is None:
        return None
    if not isinstance(given, list):
        raise Refused(f"labels must be a list, got {given!r:.40}")
    if len(given) != n:
        raise Refused(f"{n} rows and {len(given)} labels")
    if specification.kind == "regressor":
        found = [_number(one, i) for i, one in enumerate(given)]
    elif set(map(type, given)) == {int} and -MAX_WHOLE <= min(given) and max(given) <= MAX_WHOLE:
        return given  # as most labels are: not looked at one by one
    else:
        found = [_label(one, i) for i, one in enumerate(given)]
    return None if all(one is None for one in found) else found


def late_labels(specification: Specification, given: Any, n: int) -> list[Any]:
    """Return labels that became known later: none of them is missing."""
    found = _labels(specification, given, n)
    if found is None or any(one is None for one in found):
        raise Refused("a late label is missing: leave out what is not known yet")
    return found


def _number(value: Any, row: int) -> float | None:
    if value is None:
        return None
    if type(value) not in (int, float) or not abs(value) <= LARGEST:
        raise Refused(f"labels, row {row}: a regressor takes numbers, got {value!r:.40}")
    return float(value)


def _label(value: Any, row: int) -> Any:
    """Return the label of a class: text, a whole number, or a boolean as 0 or 1."""
    if value is None:
        return None
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and abs(value) <= MAX_WHOLE:
        return value
    if isinstance(value, str) and 0 < len(value) <= MAX_ID and value.isprintable():
        return value
    raise Refused(
        f"labels, row {row}: the label of a class is a whole number or a printable text of up to "
        f"{MAX_ID} characters, got {value!r:.40}"
    )


def label_type_of(labels: Sequence[Any] | None) -> str | None:
    """Return "text" or "number"; refuse labels of both types."""
    kinds = {isinstance(one, str) for one in labels or () if one is not None}
    if len(kinds) > 1:
        raise Refused("labels: some are texts and some are numbers")
    return None if not kinds else "text" if kinds.pop() else "number"


def checked_ids(given: Any, n: int) -> list[str] | None:
    """Return the client's own ids of rows."""
    if given is None:
        return None
    if not isinstance(given, list) or len(given) != n:
        raise Refused(f"ids must be a list with an id for each of the {n} rows")
    ids = [str(one) if type(one) is int else one for one in given]
    for i, one in enumerate(ids):
        if not isinstance(one, str) or not 0 < len(one) <= MAX_ID or not one.isprintable():
            raise Refused(f"ids, row {i}: an id is a text of 1 to {MAX_ID} characters")
    if len(set(ids)) < n:
        raise Refused("two rows have the same id")
    return ids


# ------------------------------------------------------------------ tables


def csv_columns(body: bytes, max_rows: int) -> dict[str, Any]:
    """Return the columns of a CSV body with a header; its delimiter is a comma."""
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Refused(f"the body is no UTF-8: {error}", 400) from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, skipinitialspace=True)
    records = []
    try:
        for record in reader:
            if record:
                records.append(record)
            if len(records) > max_rows + 1:
                raise TooLarge(f"a request may have {max_rows} rows")
    except csv.Error as error:
        raise Refused(f"the body is no CSV: line {reader.line_num}: {error}", 400) from None
    if not records:
        raise Refused("the body is empty: a CSV body begins with a header", 400)
    header = [name.strip() for name in records[0]]
    for i, record in enumerate(records[1:]):
        if len(record) != len(header):
            raise Refused(f"row {i}: {len(record)} fields, and the header has {len(header)}")
    if len(set(header)) < len(header):
        raise Refused("two columns of the header have the same name")
    _check_count(len(records) - 1, max_rows)
    return dict(zip(header, map(list, zip(*records[1:], strict=True)), strict=True))


def _rows_of_table(specification: Specification, columns: dict[str, Any]) -> Rows:
    """Return the rows of a table whose columns are found by name; others are refused."""
    names = [column.name for column in specification.columns]
    try:
        check_columns(list(columns), names)
    except ValueError as error:
        raise Refused(str(error)) from None
    n = len(next(iter(columns.values())))
    X = _inputs(specification, columns, n)
    labels = columns.get(TARGET)
    if labels is not None:
        labels = _labels(specification, _label_values(labels, specification.kind), n)
    ids = columns.get(IDS)
    ids = None if ids is None else checked_ids(list(map(str, _listed(ids))), n)
    return Rows(X, labels, ids, label_type_of(labels))


def _listed(values: Any) -> list[Any]:
    return values.tolist() if isinstance(values, np.ndarray) else values


def _label_values(values: Any, kind: str) -> list[Any]:
    """Return labels of a table; in text, whole numbers are numbers if all labels are.

    What means "no value", and how numbers are written, is as in other data files.
    """
    found = [None if one is None or one != one else one for one in _listed(values)]
    if not all(isinstance(one, str | None) for one in found):
        return found
    texts = list(map(category, found))
    convert = number if kind == "regressor" else whole_number
    numbers = [None if one is None else convert(one) for one in texts]
    are_numbers = all(
        one is None or value is not None for one, value in zip(texts, numbers, strict=True)
    )
    return numbers if are_numbers else texts


def _binary_columns(
    specification: Specification, kind: str, body: bytes, max_rows: int
) -> dict[str, Any]:
    """Return the columns of an Arrow or Parquet body."""
    names = [column.name for column in specification.columns]
    most = min(max_rows, MAX_NUMBERS // len(specification.encoder.feature_names))
    head = {"format": "parquet" if kind in PARQUET else "arrow", "rows": most, "columns": names}
    try:
        answer, content = read_binary(head, body)
    except ValueError as error:
        status = 413 if "rows" in str(error) else 400
        raise Refused(f"the body cannot be read: {str(error)[:200]}", status) from None
    columns: dict[str, Any] = answer["texts"]
    place, n = 0, answer["rows"]
    for name in answer["numbers"]:
        columns[name] = np.frombuffer(content, "<f8", n, place)
        place += 8 * n
    return columns
