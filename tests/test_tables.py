"""Data files: each format gives the same table, each fault is named with its place."""

import copy
import gzip
import hashlib
import io
import itertools
import json
import os
import pickle
import struct
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dirad.tables import Encoder, TableError, TableWriter, digest, open_table, write_table

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

SMALL = """age,colour,smoker,y
31,red,true,yes
42.5,blue,false,no
57,red,false,yes
"""
X_SMALL = [[31, 0, 1, 1], [42.5, 1, 0, 0], [57, 0, 1, 0]]  # age, blue, red, smoker
NAMES = ("age", "colour=blue", "colour=red", "smoker")


def put(folder, content, name="data.csv"):
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def idx(array, code=8, axes=None):
    """IDX bytes, written here once more so that the reader is not its own judge."""
    shape = array.shape if axes is None else axes
    return struct.pack(f">BBBB{len(shape)}I", 0, 0, code, len(shape), *shape) + array.tobytes()


def npz(**arrays):
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def texts(table, name, rows=10_000):
    return [text for chunk in table.chunks(rows) for text in chunk.texts(name)]


def numbers(table, name, rows=10_000):
    return np.concatenate([chunk.numbers(name) for chunk in table.chunks(rows)])


# One table in every format.


def small_columns():
    return {
        "age": np.array([31, 42.5, 57]),
        "colour": np.array(["red", "blue", "red"]),
        "smoker": np.array([True, False, False]),
        "y": np.array(["yes", "no", "yes"]),
    }


def parquet(**columns):
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream)
    return stream.getvalue()


SAME = {
    "data.csv": SMALL.encode(),
    "data.txt": SMALL.encode(),
    "bom.csv": b"\xef\xbb\xbf" + SMALL.encode(),
    "crlf.csv": SMALL.replace("\n", "\r\n").encode(),
    "cr.csv": SMALL.replace("\n", "\r").encode(),
    "blank.csv": SMALL.replace("\n", "\n\n").encode(),
    "spaced.csv": SMALL.replace(",", " , ").encode(),
    "semicolon.csv": SMALL.replace(",", ";").encode(),
    "pipe.data": SMALL.replace(",", "|").encode(),
    "data.tsv": SMALL.replace(",", "\t").encode(),
    "quoted.csv": SMALL.replace("red", '"red"').encode(),
    "data.csv.gz": gzip.compress(SMALL.encode()),
    "gzipped.csv": gzip.compress(SMALL.encode()),
    "unended.csv": SMALL.strip().encode(),
    "data.npz": npz(**small_columns()),
    "bytes.npz": npz(**{**small_columns(), "colour": np.array([b"red", b"blue", b"red"])}),
    "data.parquet": parquet(**small_columns()),
    "nameless": parquet(**small_columns()),
    "dictionary.pq": parquet(
        **{**small_columns(), "colour": pa.array(["red", "blue", "red"]).dictionary_encode()}
    ),
}


@pytest.mark.parametrize("name", SAME)
@pytest.mark.parametrize("rows", [2, 10_000])
def test_every_format_gives_the_same(name, rows, tmp_path):
    table = open_table(put(tmp_path, SAME[name], name))
    assert table.names == ("age", "colour", "smoker", "y")
    assert [kind for _, kind in table.columns] == ["number", "category", "boolean", "category"]
    assert [len(chunk) for chunk in table.chunks(rows)] == ([2, 1] if rows == 2 else [3])
    encoder = Encoder.fit(table, "y")
    assert encoder.feature_names == NAMES
    X = np.concatenate([encoder.transform(chunk) for chunk in table.chunks(rows)])
    np.testing.assert_array_equal(X, X_SMALL)
    assert encoder.read(table)[1].tolist() == ["yes", "no", "yes"]


def test_images_and_labels(tmp_path):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (5, 2, 3), dtype=np.uint8)
    labels = np.array([3, 1, 3, 1, 1], np.uint8)
    path = put(tmp_path, gzip.compress(idx(images)), "train-images-idx3-ubyte.gz")
    assert open_table(path).names == ("x0", "x1", "x2", "x3", "x4", "x5")
    put(tmp_path, idx(labels), "train-labels-idx1-ubyte")
    table = open_table(path)
    assert (table.n_rows, len(table.files), table.format) == (5, 2, "idx")
    X, y = Encoder.fit(table, "label").read(table)
    np.testing.assert_array_equal(X, images.reshape(5, 6))
    assert y.tolist() == labels.tolist()
    assert [len(chunk) for chunk in table.chunks(2)] == [2, 2, 1]
    both = open_table(
        put(tmp_path, npz(X=images, y=labels, note=np.array("a single value")), "same.npz")
    )
    np.testing.assert_array_equal(Encoder.fit(both, "y").read(both)[0], X)


def test_labels_of_another_name_are_given(tmp_path):
    pictures = put(tmp_path, idx(np.zeros((2, 3), ">f4"), 13), "pictures.idx")
    labels = put(tmp_path, idx(np.array([0, 1], ">i2"), 11), "kinds.idx")
    assert open_table(pictures, labels=labels).names == ("x0", "x1", "x2", "label")
    assert numbers(open_table(pictures, labels=labels), "label").tolist() == [0, 1]
    long = put(tmp_path, idx(np.zeros(3, np.uint8)), "long.idx")
    with pytest.raises(TableError, match=r"long\.idx has 3 rows, .*pictures\.idx 2"):
        open_table(pictures, labels=long)


def test_columns_of_npz_by_rows_and_by_columns(tmp_path):
    A = np.arange(24.0).reshape(4, 3, 2)
    for array in (A, np.asfortranarray(A), A.astype(">f4"), A.astype(np.int16)):
        table = open_table(put(tmp_path, npz(A=array), "a.npz"))
        assert table.names == tuple(f"A{i}" for i in range(6))
        for rows in (1, 3, 100):
            found = np.column_stack([numbers(table, name, rows) for name in table.names])
            np.testing.assert_array_equal(found, A.reshape(4, 6))


def test_types_of_parquet(tmp_path):
    columns = {
        "decimal": pa.array([1, 2, None], pa.decimal128(9, 2)),
        "whole": pa.array([1, None, 3], pa.int64()),
        "boolean": pa.array([True, None, False]),
        "text": pa.array(["a", None, "NA"]),
        "when": pa.array([0, 1, 2], pa.timestamp("us")),
        "dotted.name": pa.array([1.5, 2.5, 3.5]),
    }
    table = open_table(put(tmp_path, parquet(**columns), "a.parquet"))
    kinds = ["number", "number", "boolean", "category", "unusable", "number"]
    assert [kind for _, kind in table.columns] == kinds
    np.testing.assert_array_equal(numbers(table, "decimal"), [1, 2, np.nan])
    np.testing.assert_array_equal(numbers(table, "whole"), [1, np.nan, 3])
    (chunk,) = table.chunks()
    np.testing.assert_array_equal(chunk.booleans("boolean"), [1, np.nan, 0])
    assert chunk.texts("text") == ["a", None, None]
    assert chunk.numbers("dotted.name").tolist() == [1.5, 2.5, 3.5]
    with pytest.raises(TableError, match=r"a\.parquet: column 'when' holds timestamp.*--drop when"):
        chunk.numbers("when")
    with pytest.raises(TableError, match=r"column 'when' holds timestamp.*--drop when"):
        Encoder.fit(table, "text", drop=["boolean"])


def test_parquet_needs_its_extra(tmp_path, monkeypatch):
    path = put(tmp_path, SAME["data.parquet"], "a.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match="pip install pyarrow"):
        open_table(path)


# Header and delimiter.


def test_header_is_found_or_said(tmp_path):
    without = put(tmp_path, "5.1,setosa\n4.9,setosa\n")
    assert open_table(without).names == ("x0", "x1")
    assert numbers(open_table(without), "x0").tolist() == [5.1, 4.9]
    assert open_table(without, header=True).names == ("5.1", "setosa")
    words = put(tmp_path, "a,b\nc,d\n")
    assert texts(open_table(words), "a") == ["c"]
    assert texts(open_table(words, header=False), "x0") == ["a", "c"]
    unnamed = put(tmp_path, ",a\n0,5\n")
    assert open_table(unnamed).names == ("column 1", "a")


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("a;b\n1,5;2,5\n", ("a", "b")),
        ('a,b\n"x;y;z",1\n"p;q",2\n', ("a", "b")),
        ("a|b\n1|2\n", ("a", "b")),
        ("a, b;c\n1;2\n3;4\n", ("a, b", "c")),
        ("alone\n1\n2\n", ("alone",)),
    ],
)
def test_delimiter_is_found(content, names, tmp_path):
    assert open_table(put(tmp_path, content)).names == names


def test_delimiter_and_format_are_said(tmp_path):
    path = put(tmp_path, "a:b\n1:2\n", "table.bin")
    assert open_table(path, format="csv", delimiter=":").names == ("a", "b")
    with pytest.raises(TableError, match=r"table\.bin: unknown format 'xml'"):
        open_table(path, format="xml")


# Kinds.


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "2.5", "-3e4"], "number"),
        (["1", "", "3"], "number"),
        (["True", "false", "TRUE"], "boolean"),
        (["0", "1", "0"], "number"),
        (["1", "2", "3+"] * 5, "category"),
        (["1_000", "2_000"], "category"),
        ([*map(str, range(50)), "abc"], "number"),  # a slip of the pen, refused when read
        (["red", "7", "blue"], "category"),
        (["", "NA"], "category"),
    ],
)
def test_kinds_of_text(values, kind, tmp_path):
    table = open_table(put(tmp_path, "v,w\n" + "".join(f"{v},a\n" for v in values)))
    assert table.columns[0] == ("v", kind)


# What is wrong is named with its place.


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"data\.csv: empty"),
        (b"\n\n", r"data\.csv: empty"),
        (b"a,b\n", r"data\.csv: a header \('a', 'b'\) and no row"),
        (b"a,b,a\n1,2,3\n", r"data\.csv, line 1: two columns are named 'a'"),
        (b"a,b\n1,2\n3\n", r"data\.csv, line 3: 1 fields where there are 2 columns \('a', 'b'\)"),
        (b"a,b\n1,2\n3,4,5\n", r"data\.csv, line 3: 3 fields"),
        (b'a,b\n"1\n2",3\n4\n', r"data\.csv, line 4: 1 fields"),
        (b"a,b\n1,2\n3,\x004\n", r"data\.csv, line 3: a NUL byte"),
        (b"a,b\n1,caf\xe9\n", r"data\.csv, line 2: byte 0xe9, character 6, is not UTF-8"),
        ("a,b\n1,2\n".encode("utf-16"), r"data\.csv, line 1: a NUL byte.*UTF-16"),
        (b'a,b\n1,"2\n3,4\n', r"data\.csv, line 2: .*quote never closed"),
        (b'a,b\n1,"2"x\n', r"data\.csv, line 2: .*expected after"),
        (b"a,b\n1," + b"x" * 200_000, r"data\.csv, line 2: field larger"),
        (gzip.compress(SMALL.encode(), mtime=0)[:-9], r"data\.csv: damaged or truncated"),
    ],
)
def test_text_that_is_no_table(content, message, tmp_path):
    path = put(tmp_path, content)
    with pytest.raises(TableError, match=message):
        list(open_table(path).chunks())


def test_endless_line(tmp_path, monkeypatch):
    monkeypatch.setattr("dirad.tables.delimited.MAX_LINE", 1000)
    path = put(tmp_path, "a,b\n1,2\n" + "3," * 1000)
    with pytest.raises(TableError, match=r"line 3: longer than 1,000 characters"):
        list(open_table(path).chunks())


NUMBERS = np.arange(6.0).reshape(3, 2)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.npz", npz(), "no array in it"),
        ("a.npz", npz(a=np.zeros(3), b=np.zeros(2)), "array 'b' has 2 rows.*array 'a' 3"),
        ("a.npz", npz(X=np.zeros((3, 0))), r"array 'X': shape \(3, 0\)"),
        ("a.npz", npz(a=np.zeros(0)), "no rows"),
        ("a.npz", npz(X=NUMBERS, x1=np.zeros(3)), "two columns are named 'x1'"),
        ("a.npz", npz(a=np.array([{}, 1], object)), "no array of numbers"),
        ("a.npz", npz(X=NUMBERS)[:100], "damaged"),
        ("a.npz", b"no archive", "damaged"),
        ("a.idx", b"nonsense", "not an IDX file"),
        ("a.idx", b"\0\0\x08\x03\0\0", "ends inside its header"),
        ("a.idx", idx(np.zeros(5, np.uint8), axes=(3, 2)), "ends before row 3 of 3"),
        ("a.idx", idx(np.zeros(7, np.uint8), axes=(3, 2)), "goes on after its 3 rows"),
        ("a.idx", idx(np.zeros(9, np.uint8), axes=(2**32 - 1, 100, 100)), "ends before row"),
        ("a.idx", idx(np.zeros(9, np.uint8), axes=(9, 2**32 - 1)), "shape"),
        ("a.parquet", SAME["data.parquet"][:-20], "damaged|Parquet"),
        ("a.parquet", b"no parquet at all", "damaged|Parquet"),
        ("a.parquet", parquet(a=pa.array([], pa.float64())), "no rows"),
    ],
)
def test_binary_that_is_no_table(name, content, message, tmp_path):
    path = put(tmp_path, content, name)
    with pytest.raises(TableError, match=message) as caught:
        list(open_table(path).chunks())
    assert name in str(caught.value)


def test_a_false_header_costs_no_memory(tmp_path):
    table = open_table(put(tmp_path, idx(np.zeros(9, np.uint8), axes=(2**32 - 1, 100)), "a.idx"))
    with pytest.raises(TableError, match=r"a\.idx: ends before row"):
        list(table.chunks(2**32))  # 400 GB, if the header were true


def test_a_spreadsheet_is_not_read_as_arrays(tmp_path):
    import zipfile

    path = tmp_path / "book.xlsx"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
    with pytest.raises(TableError, match=r"book\.xlsx: holds '\[Content_Types\]\.xml'"):
        open_table(path)


class Trap:
    """Leaves a trace when it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("trapped",)


def test_nothing_is_unpickled(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stream = io.BytesIO()
    np.savez(stream, a=np.arange(3), b=np.array([Trap(), 1, 2], object))
    table = open_table(put(tmp_path, stream.getvalue(), "a.npz"))
    assert numbers(table, "a").tolist() == [0, 1, 2]
    with pytest.raises(TableError, match=r"column 'b' holds type object.*--drop b"):
        Encoder.fit(table, "a")
    assert not (tmp_path / "trapped").exists()
    pickle.loads(pickle.dumps(Trap()))  # the trap works
    assert (tmp_path / "trapped").exists()


def test_paths_that_are_no_files(tmp_path):
    with pytest.raises(TableError, match=r"nowhere\.csv: No such file"):
        open_table(tmp_path / "nowhere.csv")
    with pytest.raises(TableError, match="a folder, not a file"):
        open_table(tmp_path)
    with pytest.raises(TableError, match="Not a directory"):
        open_table(put(tmp_path, SMALL) / "inside.csv")
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(TableError, match=r"pipe\.csv: not a regular file"):
        open_table(tmp_path / "pipe.csv")


@pytest.mark.parametrize("name", ["a.csv", "a.npz", "a.idx", "a.parquet"])
def test_no_permission(name, tmp_path, monkeypatch):
    path = put(tmp_path, SMALL, name)
    if os.geteuid() == 0:  # nothing is forbidden to root
        refuse = PermissionError(13, "Permission denied")

        def refused(*_, **__):
            raise refuse

        monkeypatch.setattr("builtins.open", refused)
        monkeypatch.setattr("io.open", refused)
        monkeypatch.setattr(pq, "ParquetFile", refused)
    else:
        path.chmod(0)
    with pytest.raises(TableError, match=rf"{name}: Permission denied"):
        open_table(path)


MUTATED = {name: SAME[name] for name in ("data.csv", "data.csv.gz", "data.npz", "data.parquet")} | {
    "data.idx": idx(np.arange(12, dtype=np.uint8).reshape(3, 2, 2))
}


@pytest.mark.parametrize("name", MUTATED)
@given(data=st.data())
def test_a_damaged_file_is_refused_or_read(name, data, tmp_path_factory):
    content = bytearray(MUTATED[name])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.sampled_from([len(content), len(content) // 2]))]
    path = put(tmp_path_factory.mktemp("damaged"), bytes(content), name)
    complaint = name
    try:
        for chunk in itertools.islice(open_table(path).chunks(), 5):
            for column in chunk.columns:
                assert len(chunk.texts(column)) == len(chunk)
    except TableError as error:
        complaint = str(error)
    assert name in complaint


# The encoder: kinds of target.


def column_file(folder, y, name="data.csv"):
    rows = "".join(f"{i}.5,{value}\n" for i, value in enumerate(y))
    return open_table(put(folder, "x,y\n" + rows, name))


@pytest.mark.parametrize(
    ("y", "task", "kind", "classes"),
    [
        (["a", "b", "a"], "classification", "category", ("a", "b")),
        (["true", "False", "true"], "classification", "boolean", (False, True)),
        (["2", "1", "2", "1.0"], "classification", "number", (1, 2)),
        (["10", "9", "10", "9"], "classification", "number", (9, 10)),
        (["1", "2", "3", "4"], "regression", "number", ()),
        (["0.5", "1", "0.5", "1"], "regression", "number", ()),
        ([str(i % 20) for i in range(100)], "classification", "number", tuple(range(20))),
        ([str(i % 21) for i in range(100)], "regression", "number", ()),
    ],
)
def test_task_is_found(y, task, kind, classes, tmp_path):
    target = Encoder.fit(column_file(tmp_path, y), "y").target
    assert (target.task, target.kind, target.classes) == (task, kind, classes)
    assert [type(label) for label in target.classes] == [type(label) for label in classes]


def test_task_is_said(tmp_path):
    table = column_file(tmp_path, [1, 2, 1, 2])
    assert Encoder.fit(table, "y", "regression").target.task == "regression"
    halves = column_file(tmp_path, [0.5, 1, 0.5, 1], "halves.csv")
    encoder = Encoder.fit(halves, "y", "classification")
    assert encoder.read(halves)[1].tolist() == ["0.5", "1", "0.5", "1"]
    words = column_file(tmp_path, ["a", "b", "a"], "words.csv")
    with pytest.raises(TableError, match=r"words\.csv: the target 'y' holds 'a', not a number"):
        Encoder.fit(words, "y", "regression")
    with pytest.raises(ValueError, match=r"task must be 'auto'.*not 'guess'"):
        Encoder.fit(words, "y", "guess")
    ids = column_file(tmp_path, [f"n{i}" for i in range(30)], "ids.csv")
    with pytest.raises(TableError, match=r"target 'y' has 30 distinct values in 30 rows"):
        Encoder.fit(ids, "y")


@pytest.mark.parametrize(
    ("y", "labels"),
    [
        (["a", "b", "a"], np.array(["a", "b", "a"])),
        (["true", "false", "true"], np.array([True, False, True])),
        (["2", "1", "2", "1.0"], np.array([2, 1, 2, 1])),
        (["0.5", "1.25", "3"], np.array([0.5, 1.25, 3.0])),
    ],
)
def test_targets_in_their_own_type(y, labels, tmp_path):
    table = column_file(tmp_path, y)
    found = Encoder.fit(table, "y").read(table)[1]
    np.testing.assert_array_equal(found, labels)
    assert found.dtype == labels.dtype


def test_targets_of_other_files(tmp_path):
    encoder = Encoder.fit(column_file(tmp_path, [1, 2, 1, 2]), "y")

    def targets(y, **options):
        (chunk,) = column_file(tmp_path, y, "new.csv").chunks()
        return encoder.targets(chunk, **options).tolist()

    with pytest.raises(TableError, match=r"new\.csv, line 3, column 'y': class '7' is new; known"):
        targets([1, 7])
    assert targets([1, 7], new_classes=True) == [1, 7]
    with pytest.raises(TableError, match=r"new\.csv, line 3, column 'y': the target is missing"):
        targets([1, ""])
    assert targets([1, ""], unlabelled=True) == [1, None]
    assert targets(["", ""], unlabelled=True) == [None, None]
    with pytest.raises(TableError, match=r"line 2, column 'y': 1\.5 is not a whole number"):
        targets([1.5], new_classes=True)
    with pytest.raises(TableError, match=r"line 2, column 'y': 'b' is not a number"):
        targets(["b"])
    wider = encoder.with_classes([7])
    assert wider.target.classes == (1, 2, 7)
    assert encoder.target.classes == (1, 2)


def test_target_of_a_regression_must_be_there(tmp_path):
    table = column_file(tmp_path, [0.5, 1.5, "", 2.5])
    with pytest.raises(TableError, match="line 4, column 'y': the target is missing"):
        Encoder.fit(table, "y").read(table)
    (chunk,) = table.chunks()
    found = Encoder.fit(table, "y").targets(chunk, unlabelled=True)
    np.testing.assert_array_equal(found, [0.5, 1.5, np.nan, 2.5])
    table = column_file(tmp_path, [0.5, 1.5, "inf", 2.5])
    with pytest.raises(TableError, match="line 4, column 'y': the number is infinite"):
        Encoder.fit(table, "y").read(table)


# The encoder: inputs.


def fitted(folder, **options):
    return Encoder.fit(open_table(put(folder, SMALL)), "y", **options)


def test_columns_are_chosen(tmp_path):
    assert fitted(tmp_path, drop=["colour"]).feature_names == ("age", "smoker")
    assert fitted(tmp_path, columns=["smoker", "age"]).feature_names == ("smoker", "age")
    assert fitted(tmp_path, columns=["y", "age", "smoker"], drop=["age"]).feature_names == (
        "smoker",
    )
    with pytest.raises(TableError, match="no column is left as input"):
        fitted(tmp_path, drop=["age", "colour", "smoker"])
    for options in ({"drop": ["Colour"]}, {"columns": ["colur"]}, {"categories": ["coulour"]}):
        with pytest.raises(TableError, match=r"data\.csv: no column '.*'; did you mean 'colour'\?"):
            fitted(tmp_path, **options)
    with pytest.raises(TableError, match="no column 'weight'; it has 'age', 'colour'"):
        fitted(tmp_path, drop=["weight"])
    with pytest.raises(ValueError, match="impute must be"):
        fitted(tmp_path, impute="mean")


def test_target_of_a_file_without_header(tmp_path):
    table = open_table(put(tmp_path, "1,2,a\n3,4,b\n"))
    with pytest.raises(TableError, match=r"no column 'y'; it has no header .* named x0 to x2"):
        Encoder.fit(table, "y")


def test_numbers_that_are_codes(tmp_path):
    content = "month,y\n" + "".join(f"{1 + i % 3},{i % 2}\n" for i in range(12))
    for path in (put(tmp_path, content), tmp_path / "a.npz"):
        if path.suffix == ".npz":
            np.savez(path, month=1 + np.arange(12) % 3, y=np.arange(12) % 2)
        table = open_table(path)
        encoder = Encoder.fit(table, "y", categories=["month"])
        assert encoder.feature_names == ("month=1", "month=2", "month=3")
        np.testing.assert_array_equal(encoder.read(table)[0], np.tile(np.eye(3), (4, 1)))


def test_decimal_commas_are_numbers_where_fields_are_not_separated_by_commas(tmp_path):
    table = open_table(put(tmp_path, "a;b;y\n1,5;x, y;0\n-2,25e1;z;1\n"))
    assert [column.kind for column in table.columns] == ["number", "category", "number"]
    chunk = next(iter(table.chunks()))
    assert chunk.numbers("a").tolist() == [1.5, -22.5]
    assert chunk.texts("b") == ["x, y", "z"]
    bare = open_table(put(tmp_path, "1,5;2\n2,5;3\n", "bare.csv"))
    assert not bare.has_header
    quoted = open_table(put(tmp_path, 'a,y\n"1,5",0\n"2,5",1\n', "quoted.csv"))
    assert quoted.columns[0].kind == "category"  # a thousand, or one and a half? not ours to say


def test_id_columns_are_refused_all_at_once(tmp_path):
    rows = "".join(f"n{i},{i % 7}t{i // 7},{i % 3}.5,{i % 2}\n" for i in range(1200))
    table = open_table(put(tmp_path, "name,ticket,x,y\n" + rows))
    with pytest.raises(TableError) as caught:
        Encoder.fit(table, "y")
    message = str(caught.value)
    for part in ("data.csv", "column 'name' has more than 1,000", "'n0'", "'ticket'", "an id"):
        assert part in message
    assert "--drop name --drop ticket" in message
    assert Encoder.fit(table, "y", drop=["name", "ticket"]).feature_names == ("x",)
    few = open_table(put(tmp_path, "id,y\n" + "".join(f"n{i},{i % 2}\n" for i in range(11))))
    with pytest.raises(TableError, match="'id' has 11 distinct values in 11 rows, such as 'n0'"):
        Encoder.fit(few, "y")
    many = "".join(f"c{i % 101},{i % 2}\n" for i in range(300))
    with pytest.raises(TableError, match=r"'code' has 101 distinct values.*100 are allowed"):
        Encoder.fit(open_table(put(tmp_path, "code,y\n" + many)), "y")
    money = "".join(f'"${i},00.5",{i % 2}\n' for i in range(30)) + '"$9",1\n' * 2
    with pytest.raises(TableError, match=r"'price' has 31 distinct values.*written as text"):
        Encoder.fit(open_table(put(tmp_path, "price,y\n" + money)), "y")
    empty = open_table(put(tmp_path, "a,b,y\n,1,0\n,2,1\n"))
    with pytest.raises(TableError, match=r"column 'a' holds no value.*--drop a"):
        Encoder.fit(empty, "y")


def refused(encoder, folder, content, message, **options):
    *_, last = open_table(put(folder, content, "new.csv")).chunks(2)
    with pytest.raises(TableError, match=rf"new\.csv{message}"):
        encoder.transform(last, **options)


def test_other_files_are_matched_by_name(tmp_path):
    encoder = fitted(tmp_path)
    shuffled = open_table(put(tmp_path, "id,smoker,colour,age\n7,1,blue,5\n", "new.csv"))
    assert encoder.ignored(shuffled) == ("id",)
    (chunk,) = shuffled.chunks()
    assert encoder.transform(chunk).tolist() == [[5, 1, 0, 1]]
    without = open_table(put(tmp_path, "id,smoker,colour\n7,1,blue\n", "new.csv"))
    with pytest.raises(TableError, match=r"new\.csv: no column 'age'"):
        encoder.ignored(without)
    refused(encoder, tmp_path, "smoker,colour\n1,blue\n", ": no column 'age'; it has")


HEADER = "age,colour,smoker\n1,red,true\n2,red,true\n"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("abc,red,true", "column 'age': 'abc' is not a number"),
        ("1_000,red,true", "column 'age': '1_000' is not a number"),
        ("inf,red,true", "column 'age': the number is infinite"),
        ("1e999,red,true", "column 'age': the number is infinite"),
        ("3,pink,true", "column 'colour': 'pink' was not seen in training; known: 'blue', 'red'"),
        ("3,red,maybe", "column 'smoker': 'maybe' is neither true nor false"),
        ("x" * 500 + ",red,true", "column 'age': '" + "x" * 40 + "…' is not a number"),
    ],
)
def test_bad_values_are_named(row, message, tmp_path):
    refused(fitted(tmp_path), tmp_path, HEADER + row + "\n", f", line 4, {message}")


@pytest.mark.parametrize(
    ("row", "name"), [(",red,true", "age"), ("NaN,red,true", "age"), ("3,NA,true", "colour"),
                      ("3,red,", "smoker")]
)  # fmt: skip
def test_missing_values_are_named_where_they_are_refused(row, name, tmp_path):
    encoder = fitted(tmp_path, accept_missing=False)
    refused(
        encoder, tmp_path, HEADER + row + "\n", f", line 4, column '{name}': the value is missing"
    )


def test_bad_values_of_arrays_are_named(tmp_path):
    table = open_table(put(tmp_path, npz(X=np.array([[1, 2], [3, np.inf]]), y=[0.5, 1]), "a.npz"))
    with pytest.raises(TableError, match=r"a\.npz, row 2, column 'x1': the number is infinite"):
        Encoder.fit(table, "y").read(table)


def test_unseen_categories_as_zeros(tmp_path):
    encoder = fitted(tmp_path)
    (chunk,) = open_table(put(tmp_path, HEADER + "3,pink,true\n", "new.csv")).chunks()
    assert encoder.transform(chunk, unseen="zero")[2].tolist() == [3, 0, 0, 1]
    with pytest.raises(ValueError, match="unseen must be"):
        encoder.transform(chunk, unseen="guess")


def test_gaps_are_filled_on_request(tmp_path):
    gaps = "n,c,b,y\n1,u,true,0\n,v,,1\n5,,true,0\n90,v,false,1\n"
    table = open_table(put(tmp_path, gaps))
    with pytest.raises(TableError, match=r"data\.csv, line 3, column 'n': the value is missing"):
        Encoder.fit(table, "y", accept_missing=False).read(table)
    encoder = Encoder.fit(table, "y", impute="median")
    assert [field.fill for field in encoder.inputs] == [5.0, "v", True]
    stored = Encoder.from_json(json.loads(json.dumps(encoder.to_json())))
    X, _ = stored.read(table)
    assert X.tolist() == [[1, 1, 0, 1], [5, 0, 1, 1], [5, 0, 1, 1], [90, 0, 1, 0]]


def test_gaps_are_left_to_the_model(tmp_path):
    gaps = "n,c,d,b,y\n1,u,s,true,0\n,v,t,,1\n5,,s,true,0\n90,v,t,false,1\n"
    table = open_table(put(tmp_path, gaps))
    encoder = Encoder.fit(table, "y")
    assert encoder.feature_names == ("n", "c=u", "c=v", "c=(missing)", "d=s", "d=t", "b")
    gap = np.nan
    np.testing.assert_array_equal(
        encoder.read(table)[0],
        [
            [1, 1, 0, 0, 1, 0, 1],
            [gap, 0, 1, 0, 0, 1, gap],
            [5, 0, 0, 1, 1, 0, 1],
            [90, 0, 1, 0, 0, 1, 0],
        ],
    )
    (chunk,) = open_table(put(tmp_path, "n,c,d,b\n,,,\n", "new.csv")).chunks()
    found = encoder.transform(chunk).tolist()[0]
    np.testing.assert_array_equal(found, [gap, 0, 0, 1, 0, 0, gap])


def test_json_of_earlier_versions_refuses_gaps(tmp_path):
    old = fitted(tmp_path).to_json()
    for field in old["inputs"]:
        del field["missing"]
    encoder = Encoder.from_json(old)
    assert encoder == fitted(tmp_path, accept_missing=False)
    refused(
        encoder, tmp_path, HEADER + ",red,true\n", ", line 4, column 'age': the value is missing"
    )


# The encoder as JSON.


@pytest.fixture(scope="module")
def encoders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoders")
    return [
        fitted(folder),
        fitted(folder, impute="median"),
        Encoder.fit(column_file(folder, [0.5, 1, 2]), "y"),
        Encoder.fit(column_file(folder, [1, 2, 1, 2]), "y"),
        Encoder.fit(column_file(folder, ["true", "false"]), "y"),
        Encoder.fit(open_table(put(folder, "c,n,y\na,1,0\n,,1\nb,2,0\na,3,1\n", "g.csv")), "y"),
    ]


def test_json_round_trip(encoders):
    for encoder in encoders:
        text = json.dumps(encoder.to_json(), allow_nan=False)
        again = Encoder.from_json(json.loads(text))
        assert again == encoder
        assert json.dumps(again.to_json()) == text


def places(obj, path=()):
    """All paths into nested JSON."""
    yield path
    items = (
        obj.items() if isinstance(obj, dict) else enumerate(obj) if isinstance(obj, list) else ()
    )
    for key, value in items:
        yield from places(value, (*path, key))


JUNK = [None, True, 0, -1, 1e400, float("nan"), 2**60, "", "number", [], [1], ["b", "a"], {}, [{}]]


@pytest.mark.parametrize("which", range(6))
def test_altered_json_is_refused_or_sound(which, encoders):
    """Each place of the JSON replaced by junk, doubled, or left out: ValueError or as sound."""
    original = encoders[which].to_json()
    refusals = 0
    for path in places(original):
        for junk in [*JUNK, "delete", "double"]:
            try:
                again = Encoder.from_json(altered(original, path, junk))
            except ValueError:
                refusals += 1
            else:
                assert again == Encoder.from_json(json.loads(json.dumps(again.to_json())))
    assert refusals > 50


def altered(obj, path, junk):
    if not path:
        return junk
    obj = copy.deepcopy(obj)
    inner = obj
    for key in path[:-1]:
        inner = inner[key]
    if junk == "delete":
        del inner[path[-1]]
    elif junk == "double" and isinstance(inner, list):
        inner.append(inner[path[-1]])
    else:
        inner[path[-1]] = junk
    return obj


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("inputs",), []),
        (("inputs", 0, "kind"), "unusable"),
        (("inputs", 0, "name"), "y"),
        (("inputs", 0, "name"), "colour"),
        (("inputs", 0, "name"), 3),
        (("inputs", 0, "fill"), "red"),
        (("inputs", 0, "fill"), True),
        (("inputs", 0, "fill"), float("nan")),
        (("inputs", 1, "categories"), ["red", "blue"]),
        (("inputs", 1, "categories"), ["red", "red"]),
        (("inputs", 1, "categories"), []),
        (("inputs", 1, "fill"), "pink"),
        (("inputs", 0, "missing"), "indicate"),
        (("inputs", 1, "missing"), "guess"),
        (("inputs", 1, "missing"), None),
        (("target", "missing"), "refuse"),
        (("target", "classes"), ["yes", 1]),
        (("target", "classes"), []),
        (("target", "classes"), ["no", "no"]),
        (("target", "task"), "regression"),
        (("target", "kind"), "number"),
        (("more",), 1),
    ],
)
def test_unsound_json_is_refused(path, value, encoders):
    with pytest.raises(ValueError, match="not a valid encoder"):
        Encoder.from_json(altered(encoders[0].to_json(), path, value))


def test_features_of_one_name_are_refused(tmp_path):
    table = open_table(put(tmp_path, "c,c=a,y\na,1,0\nb,2,1\n"))
    with pytest.raises(TableError, match=r"data\.csv: .*two columns are named 'c=a'"):
        Encoder.fit(table, "y")


# Writing.

ODD = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
MISSING = {"", "NA", "<NA>", "N/A", "n/a", "NaN", "nan", "null", "NULL"}


@example(rows=[("a\rb", " 'c' "), ("\n", '"')], suffix="csv")
@given(rows=st.lists(st.tuples(ODD, ODD), min_size=1), suffix=st.sampled_from(["csv", "tsv", "pq"]))
def test_odd_text_survives(rows, suffix, tmp_path_factory):
    path = tmp_path_factory.mktemp("odd") / f"a.{suffix}"
    first, second = zip(*rows, strict=True)
    write_table(path, {"first": first, "se,co\nnd": second})
    table = open_table(path)
    for name, written in (("first", first), ("se,co\nnd", second)):
        expected = [None if text.strip() in MISSING else text.strip() for text in written]
        assert texts(table, name, rows=3) == expected


@example(text=["a", "", "b"])
@given(text=st.lists(ODD, min_size=1))
def test_odd_text_survives_in_a_lone_column(text, tmp_path_factory):
    path = tmp_path_factory.mktemp("odd") / "a.csv"
    write_table(path, {"alone": text})
    assert texts(open_table(path, delimiter=","), "alone") == [
        None if t.strip() in MISSING else t.strip() for t in text
    ]


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "tsv", "parquet"])
@given(values=st.lists(st.floats(allow_infinity=False), min_size=1))
def test_numbers_survive_to_the_last_bit(suffix, values, tmp_path_factory):
    path = tmp_path_factory.mktemp("numbers") / f"a.{suffix}"
    write_table(path, {"x": np.array(values), "i": np.arange(len(values))})
    np.testing.assert_array_equal(numbers(open_table(path), "x"), values)


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "tsv", "tsv.gz", "parquet", "pq"])
def test_written_chunk_by_chunk(suffix, tmp_path):
    path = tmp_path / f"a.{suffix}"
    columns = {
        "class": ["red", None, "a, b"],
        "p": [0.5, 1.0, float("nan")],
        "n": [1, 2, 3],
        "sure": [True, np.bool_(False), True],
    }
    with TableWriter(path) as writer:
        for part in (slice(0, 2), slice(2, 3)):
            writer.write({name: values[part] for name, values in columns.items()})
            assert not path.exists()
    assert list(tmp_path.iterdir()) == [path]
    (chunk,) = open_table(path).chunks()
    assert chunk.texts("class") == ["red", None, "a, b"]
    np.testing.assert_array_equal(chunk.numbers("p"), [0.5, 1, np.nan])
    assert chunk.numbers("n").tolist() == [1, 2, 3]
    assert chunk.booleans("sure").tolist() == [1, 0, 1]
    write_table(path, columns)
    first = path.read_bytes()
    assert first[4:8] == bytes(4) or not suffix.endswith("gz")  # no time in it
    write_table(path, columns)
    assert path.read_bytes() == first


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet"])
@pytest.mark.parametrize("failure", [KeyboardInterrupt, OSError, TableError])
def test_a_failure_leaves_the_old_file(suffix, failure, tmp_path):
    path = put(tmp_path, "old", f"a.{suffix}")

    def interrupted():
        with TableWriter(path) as writer:
            writer.write({"a": np.arange(100_000)})
            raise failure("in the middle")

    with pytest.raises(failure, match="in the middle"):
        interrupted()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_written(tmp_path):
    with pytest.raises(TableError, match=r"a\.xlsx: the name of a table must end in \.csv"):
        TableWriter(tmp_path / "a.xlsx")
    with pytest.raises(TableError, match=r"nowhere.a\.csv: there is no folder"):
        write_table(tmp_path / "nowhere" / "a.csv", {"a": [1]})
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(TableError, match=r"folder\.csv: this is a folder"):
        write_table(tmp_path / "folder.csv", {"a": [1]})
    with pytest.raises(ValueError, match=r"a\.csv: columns of different lengths \('a': 1, 'b': 2"):
        write_table(tmp_path / "a.csv", {"a": [1], "b": [1, 2]})

    def changing(name):
        with TableWriter(tmp_path / name) as writer:
            writer.write({"a": [1]})
            writer.write({"a": ["text"]} if name.endswith("parquet") else {"b": [1]})

    with pytest.raises(ValueError, match=r"a\.csv: columns 'b' after 'a'"):
        changing("a.csv")
    with pytest.raises(TableError, match=r"a\.parquet: a value does not fit"):
        changing("a.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.csv"]


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    path = put(tmp_path, "old", "a.csv")
    with pytest.raises(TableError, match=r"a\.csv: cannot be written: No space left"):
        write_table(path, {"a": [1]})
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_open_file_gets_csv():
    stream = io.BytesIO()
    with TableWriter(stream) as writer:
        writer.write({"a": [1, 2], "b": ["x", "y"]})
    assert stream.getvalue() == b"a,b\n1,x\n2,y\n"


def test_digest(tmp_path):
    path = put(tmp_path, SMALL * 50_000)
    assert digest(path) == hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(TableError, match="a folder"):
        digest(tmp_path)


# Files larger than a chunk, and than memory.


def write_long(folder, suffix, n_rows):
    """A file of numbers and categories; row i holds i, i / 7 and one of three words."""
    path = folder / f"{n_rows}.{suffix}"
    i = np.arange(n_rows)
    words = np.array(["one", "two", "three"])[i % 3]
    if suffix == "npz":
        np.savez_compressed(path, i=i, x=i / 7, word=words)
    elif suffix == "idx":
        path.write_bytes(idx(np.column_stack([i, i / 7]).astype(">f8"), 14))
    else:
        write_table(path, {"i": i, "x": i / 7, "word": words})
    return path


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "npz", "idx"])
def test_memory_does_not_grow_with_the_file(suffix, tmp_path):
    peaks = []
    for n_rows in (4_000, 40_000):
        table = open_table(write_long(tmp_path, suffix, n_rows))
        tracemalloc.start()
        total = 0
        for chunk in table.chunks(1_000):
            total += chunk.numbers(table.names[0]).sum()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert total == n_rows * (n_rows - 1) / 2
    assert peaks[1] < 1.3 * peaks[0] + 200_000


def test_memory_does_not_grow_with_a_parquet_file(tmp_path):
    peaks = []
    for n_parts in (5, 50):
        path = tmp_path / f"{n_parts}.parquet"
        with TableWriter(path) as writer:
            for part in range(n_parts):
                writer.write({"i": np.arange(1_000.0) + 1_000 * part, "word": ["a", "b"] * 500})
        before, peak = pa.total_allocated_bytes(), 0
        for part, chunk in enumerate(open_table(path).chunks(1_000)):
            assert chunk.numbers("i")[0] == 1_000 * part == chunk.rows[0] - 1
            peak = max(peak, pa.total_allocated_bytes() - before)
        peaks.append(peak)
    assert 0 < peaks[1] < 1.5 * peaks[0]


def test_a_file_larger_than_a_chunk(tmp_path):
    path = write_long(tmp_path, "csv", 25_000)
    table = open_table(path)
    assert [len(chunk) for chunk in table.chunks()] == [10_000, 10_000, 5_000]
    X, y = Encoder.fit(table, "word").read(table)
    np.testing.assert_array_equal(X[:, 0], np.arange(25_000))
    np.testing.assert_array_equal(X[:, 1], np.arange(25_000) / 7)
    assert y[:4].tolist() == ["one", "two", "three", "one"]
    with pytest.raises(ValueError, match="rows must be 1 or more"):
        table.chunks(0)
    with open(path, "a") as file:
        file.write("1,oops,one\n")
    with pytest.raises(TableError, match=r"line 25002, column 'x': 'oops' is not a number"):
        Encoder.fit(open_table(path), "word").read(open_table(path))
