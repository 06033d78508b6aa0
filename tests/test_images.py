"""Features of images: what is computed, what is kept, and what is refused."""

import errno
import io
import os
import re
import struct
import sys

import numpy as np
import onnx
import pytest
from PIL import Image

from commands import run
from dirad.images import Features, ImageError, compute_features, features, write_features
from dirad.images.cache import FeatureCache, default_cache
from dirad.images.encoder import Encoder
from dirad.tables import open_table
from encoders import SIZE, WEIGHTS, flat_encoder, saved_model, tiny_encoder

MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.3, 0.4)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache folder of this test alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "dirad" / "features"


@pytest.fixture
def encoder(tmp_path):
    return tiny_encoder(tmp_path)


@pytest.fixture
def flat(tmp_path):
    return flat_encoder(tmp_path)


@pytest.fixture
def images():
    return np.random.default_rng(0).integers(0, 256, (10, SIZE, SIZE, 3), dtype=np.uint8)


def naive_features(image, weights=WEIGHTS, mean=MEAN, std=STD):
    """The features of one image of bytes, pixel by pixel."""
    height, width, channels = image.shape
    sums = [0.0] * len(weights)
    for row in range(height):
        for column in range(width):
            for k, w in enumerate(weights.tolist()):
                pixel = [image[row, column, c] / 255 for c in range(channels)]
                inputs = [(p - m) / s for p, m, s in zip(pixel, mean, std, strict=True)]
                sums[k] += max(sum(a * b for a, b in zip(w, inputs, strict=True)), 0.0)
    return [total / (height * width) for total in sums]


def naive_resized(image, size):
    """Bilinear scaling, along one axis after the other, with a triangle as wide as the scale."""

    def along_first(image):
        scale = len(image) / size
        reach, out = max(scale, 1.0), []
        for place in range(size):
            centre = (place + 0.5) * scale
            weights = [max(1 - abs(i + 0.5 - centre) / reach, 0.0) for i in range(len(image))]
            total = sum(weights)
            out.append(sum(w * row for w, row in zip(weights, image, strict=True)) / total)
        return np.array(out)

    return along_first(along_first(image.astype(float)).swapaxes(0, 1)).swapaxes(0, 1)


def folder_of(tmp_path, images, labels=None, suffix="png"):
    for number, image in enumerate(images):
        place = tmp_path / "pictures" / ("" if labels is None else labels[number])
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.squeeze()).save(place / f"{number:02}.{suffix}")
    return tmp_path / "pictures"


def idx(array):
    header = struct.pack(">I", 0x0800 + array.ndim)
    return header + b"".join(struct.pack(">I", n) for n in array.shape) + array.tobytes()


# ------------------------------------------------------------------ values


def test_features_are_those_of_the_naive_twin(encoder, images):
    found = compute_features(images, encoder, mean=MEAN, std=STD)
    assert found.X.dtype == np.float32
    np.testing.assert_allclose(found.X, [naive_features(image) for image in images], rtol=1e-4)
    assert found.y is None
    assert found.names[3] == "the array, image 3"


def test_the_default_normalization_is_that_of_imagenet(encoder, images):
    expected = naive_features(images[0], mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
    np.testing.assert_allclose(compute_features(images, encoder).X[0], expected, rtol=1e-4)


@pytest.mark.parametrize("shape", [("n", SIZE, SIZE, 3), (4, 3, SIZE, SIZE), ("n", 3, "h", "w")])
def test_the_layout_is_found_from_the_model(tmp_path, encoder, images, shape):
    other = tiny_encoder(tmp_path, shape, name="other.onnx")
    expected = compute_features(images, encoder).X
    np.testing.assert_allclose(compute_features(images, other, size=SIZE).X, expected, rtol=1e-5)


def test_the_layout_of_arrays_is_found(flat, images):
    expected = compute_features(images, flat).X
    first = compute_features(images.transpose(0, 3, 1, 2), flat)
    np.testing.assert_array_equal(first.X, expected)
    floats = compute_features(images / 255, flat)
    np.testing.assert_allclose(floats.X, expected, rtol=1e-4, atol=1e-5)


def test_gray_and_colour_become_what_the_model_takes(tmp_path, encoder, images):
    gray = images[..., 0]
    np.testing.assert_array_equal(
        compute_features(gray, encoder).X,
        compute_features(np.repeat(gray[..., None], 3, axis=3), encoder).X,
    )
    single = tiny_encoder(tmp_path, ("n", 1, SIZE, SIZE), WEIGHTS[:, :1], "gray.onnx")
    found = compute_features(gray, single).X  # not normalized by default
    expected = [naive_features(image[..., None], WEIGHTS[:, :1], [0], [1]) for image in gray]
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    luminance = (images / 255) @ [0.299, 0.587, 0.114]
    np.testing.assert_allclose(
        compute_features(images, single).X, compute_features(luminance, single).X, atol=1e-5
    )


@pytest.mark.parametrize("size", [3, 4, 15])
def test_images_are_scaled_bilinearly(tmp_path, images, size):
    model = tiny_encoder(tmp_path, ("n", 3, "h", "w"), name="any.onnx")
    found = compute_features(images / 255, model, size=size, mean=MEAN, std=STD)
    expected = [naive_features(naive_resized(image, size)) for image in images]
    np.testing.assert_allclose(found.X, expected, rtol=1e-3, atol=1e-4)


def test_a_longer_side_is_cropped_at_its_centre(flat, images):
    long = np.concatenate([np.zeros_like(images), images, np.full_like(images, 255)], axis=2)
    expected = compute_features(images, flat).X
    np.testing.assert_allclose(compute_features(long, flat).X, expected, rtol=1e-5)


def test_an_output_of_two_axes_is_used_as_it_is(flat, images):
    found = compute_features(images, flat, mean=0, std=1)
    expected = images.transpose(0, 3, 1, 2).reshape(len(images), -1) / 255
    np.testing.assert_allclose(found.X, expected, rtol=1e-6)


# ------------------------------------------------------------------ where images come from


def test_subfolders_are_labels_and_rows_are_in_order_of_names(tmp_path, encoder, images):
    labels = ["dog", "cat"] * 5
    folder = folder_of(tmp_path, images, labels)
    (folder / "cat" / "notes.txt").write_text("not a picture")
    (folder / "cat" / ".hidden.png").write_text("not a picture")
    found = compute_features(folder, encoder)
    order = [*range(1, 10, 2), *range(0, 10, 2)]
    np.testing.assert_array_equal(found.X, compute_features(images, encoder).X[order])
    assert found.y.tolist() == ["cat"] * 5 + ["dog"] * 5
    assert found.names[0] == str(folder / "cat" / "01.png")


def test_pictures_without_subfolders_have_no_labels(tmp_path, encoder, images):
    found = compute_features(folder_of(tmp_path, images), encoder)
    assert found.y is None
    np.testing.assert_array_equal(found.X, compute_features(images, encoder).X)


def test_pictures_look_as_a_viewer_shows_them(tmp_path, flat, images):
    folder = tmp_path / "modes"
    folder.mkdir()
    upright, gray = Image.fromarray(images[0]), Image.fromarray(images[0, ..., 0])
    turned = upright.transpose(Image.Transpose.ROTATE_90)
    tag = Image.Exif()
    tag[274] = 6  # turn it by 90° clockwise
    turned.save(folder / "a.png", exif=tag)
    clear = upright.convert("RGBA")
    clear.putalpha(0)
    clear.save(folder / "b.png")
    deep = gray.convert("I").point(lambda value: value * 257)
    Image.fromarray(np.asarray(deep).astype(np.uint16)).save(folder / "c.png")
    white = np.full_like(images[0], 255)
    gray3 = np.repeat(images[0, ..., :1], 3, axis=2)
    expected = compute_features(np.stack([images[0], white, gray3]), flat).X
    np.testing.assert_allclose(compute_features(folder, flat).X, expected, rtol=1e-4, atol=1e-5)


def test_files_of_arrays(tmp_path, encoder, images):
    labels = np.arange(10) % 3
    np.save(tmp_path / "a.npy", images)
    np.savez(tmp_path / "a.npz", pictures=images, y=labels)
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(idx(images[..., 0]))
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(idx(labels.astype(np.uint8)))
    expected = compute_features(images, encoder).X
    plain, archive, gray = (
        compute_features(tmp_path / name, encoder)
        for name in ("a.npy", "a.npz", "t10k-images-idx3-ubyte")
    )
    np.testing.assert_array_equal(plain.X, expected)
    np.testing.assert_array_equal(archive.X, expected)
    np.testing.assert_array_equal(gray.X, compute_features(images[..., 0], encoder).X)
    assert plain.y is None
    assert archive.y.tolist() == gray.y.tolist() == labels.tolist()
    given = compute_features(
        tmp_path / "a.npy", encoder, labels=tmp_path / "t10k-labels-idx1-ubyte"
    )
    assert given.y.tolist() == labels.tolist()


# ------------------------------------------------------------------ computed once


def counted(monkeypatch, fail_at=None):
    """Count the images that an encoder gets; let it fail when it has had some."""
    seen, plain = [], Encoder.features

    def features(self, images):
        if fail_at is not None and len(seen) >= fail_at:
            raise KeyboardInterrupt
        seen.extend(images)
        return plain(self, images)

    monkeypatch.setattr(Encoder, "features", features)
    return seen


TESTS = 2  # images that identify an encoder


def test_a_second_call_computes_nothing(encoder, images, monkeypatch):
    first = compute_features(images, encoder)
    seen = counted(monkeypatch)
    second = compute_features(images, encoder)
    assert (first.n_computed, second.n_computed, len(seen)) == (10, 0, TESTS)
    np.testing.assert_array_equal(second.X, first.X)


def test_after_a_stop_only_the_rest_is_computed(encoder, images, monkeypatch, tmp_path):
    whole = compute_features(images, encoder, cache=tmp_path / "another")
    with monkeypatch.context() as patch:
        counted(patch, fail_at=TESTS + 6)
        with pytest.raises(KeyboardInterrupt):
            compute_features(images, encoder, batch_size=3)
    rest = compute_features(images, encoder, batch_size=3)
    assert rest.n_computed == 4
    np.testing.assert_array_equal(rest.X, whole.X)


def test_a_kill_loses_only_what_is_not_yet_kept(encoder, images, monkeypatch):
    monkeypatch.setattr(features, "KEEP_EVERY", 0.0)
    plain, calls = FeatureCache.add, []

    def add(self, digests, values):
        calls.append(len(digests))
        if len(calls) > 2:
            raise OSError(errno.ENOSPC, "No space left on device", str(self.folder))
        plain(self, digests, values)

    with monkeypatch.context() as patch:
        patch.setattr(FeatureCache, "add", add)
        with pytest.raises(OSError, match="No space left"):
            compute_features(images, encoder, batch_size=3)
    assert calls[:3] == [3, 3, 3]
    assert compute_features(images, encoder).n_computed == 4


def test_only_new_images_are_computed_and_equal_ones_once(encoder, images):
    compute_features(images[:4], encoder)
    more = np.concatenate([images[8:], images, images])
    found = compute_features(more, encoder)
    assert found.n_computed == 6
    np.testing.assert_array_equal(found.X[2:12], found.X[12:])
    np.testing.assert_array_equal(found.X[:2], found.X[10:12])


def test_other_settings_and_other_weights_are_other_features(tmp_path, encoder, images):
    compute_features(images, encoder)
    assert compute_features(images, encoder, mean=0.1).n_computed == 10
    assert compute_features(images, encoder, std=0.1).n_computed == 10
    tiny_encoder(tmp_path, weights=2 * WEIGHTS)  # under the same name
    assert compute_features(images, encoder).n_computed == 10


def test_weights_in_a_file_of_their_own_are_noticed(tmp_path, images):
    path = tiny_encoder(tmp_path, weights=np.tile(WEIGHTS, (100, 1)))
    model = onnx.load(path)
    onnx.save(model, path, save_as_external_data=True, location="weights", size_threshold=0)
    first = compute_features(images, path)
    weights = bytearray((tmp_path / "weights").read_bytes())
    weights[:4] = np.float32(3.5).tobytes()
    (tmp_path / "weights").write_bytes(weights)
    second = compute_features(images, path)
    assert second.n_computed == 10
    assert not np.array_equal(first.X, second.X)


def test_damaged_files_in_the_cache_are_passed_over(encoder, images, cache):
    expected = compute_features(images, encoder).X
    (kept,) = cache.rglob("*.npz")
    content = bytearray(kept.read_bytes())
    content[len(content) // 2] ^= 255
    for damaged in (bytes(content), content[:100], b""):
        kept.write_bytes(damaged)
        found = compute_features(images, encoder)
        assert found.n_computed == 10
        np.testing.assert_array_equal(found.X, expected)
    assert default_cache() == cache


def test_progress_is_told(encoder, images):
    told = []
    compute_features(images, encoder, batch_size=4, progress=lambda *what: told.append(what))
    assert told[9] == (10, 10, "reading images")
    assert told[10:] == [(done, 10, "computing features") for done in (4, 8, 10)]


# ------------------------------------------------------------------ what is refused


def refused(message, *arguments, **options):
    with pytest.raises(ImageError, match=re.escape(message)):
        compute_features(*arguments, **options)


def test_pictures_that_cannot_be_read_are_named(tmp_path, encoder, images):
    folder = folder_of(tmp_path, images)
    (folder / "05.png").write_text("text")
    refused("pictures/05.png: not a readable picture (unknown format)", folder, encoder)
    whole = (folder / "04.png").read_bytes()
    (folder / "05.png").write_bytes(whole[: len(whole) // 2])
    refused("pictures/05.png: not a readable picture", folder, encoder)


def test_folders_that_make_no_sense(tmp_path, encoder, images):
    folder = folder_of(tmp_path, images, ["cat"] * 10)
    Image.fromarray(images[0]).save(folder / "loose.png")
    refused("pictures/loose.png: this picture has no class", folder, encoder)
    (tmp_path / "empty").mkdir()
    refused("empty: no pictures (.bmp, .gif,", tmp_path / "empty", encoder)
    refused("nowhere: no such file or folder", tmp_path / "nowhere", encoder)
    refused("its labels", folder, encoder, labels=np.arange(10))


def test_arrays_that_are_no_images(tmp_path, encoder, images):
    refused("shape (10, 36)", images[:, :, :, 0].reshape(10, -1), encoder)
    refused("shape (10, 6, 6, 2); images are", images[..., :2], encoder)
    refused("no image in it", images[:0], encoder)
    refused("type int64; pixels are uint8", images.astype(int), encoder)
    refused("image 0: pixels from 0 to 248; floats", images.astype(float), encoder)
    broken = images / 255
    broken[7, 2, 2, 1] = np.nan
    refused("the array, image 7: pixels from nan", broken, encoder)
    refused("10 images and labels of shape (9,)", images, encoder, labels=np.arange(9))
    np.savez(tmp_path / "two.npz", a=images, b=images)
    refused(
        "two.npz: one array of 3 or 4 axes is needed; it has a (10", tmp_path / "two.npz", encoder
    )
    np.save(tmp_path / "objects.npy", np.array([None]), allow_pickle=True)
    refused("objects.npy: damaged, or not an array of numbers", tmp_path / "objects.npy", encoder)
    (tmp_path / "short.idx").write_bytes(idx(images[..., 0])[:-1])
    refused("short.idx: its length is not", tmp_path / "short.idx", encoder)
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    refused("a.csv: not a folder of pictures, and not an NPY", tmp_path / "a.csv", encoder)


def test_models_that_are_no_encoders(tmp_path, encoder, images):
    node = onnx.helper.make_node
    same, shape = [node("Identity", ["image"], ["features"])], ("n", 3, SIZE, SIZE)
    (tmp_path / "text.onnx").write_text("text")
    refused("text.onnx: not an ONNX model", images, tmp_path / "text.onnx")
    refused("none.onnx: no such file", images, tmp_path / "none.onnx")
    wide = saved_model(tmp_path / "wide.onnx", same, {}, ("n", 5, 8, 8), ("n", 5, 8, 8))
    refused("wide.onnx: its input has shape ['n', 5, 8, 8]", images, wide)
    table = saved_model(tmp_path / "table.onnx", same, {}, ("n", 3), ("n", 3))
    refused("table.onnx: its input has shape", images, table)
    double = onnx.TensorProto.DOUBLE
    other = saved_model(tmp_path / "double.onnx", same, {}, shape, shape, double)
    refused("double.onnx: its input is a tensor(double)", images, other)
    nodes = [node("ReduceMean", ["image"], ["features"], axes=[3], keepdims=0)]
    tokens = saved_model(tmp_path / "tokens.onnx", nodes, {}, shape, ("n", 3, SIZE))
    refused("its first output for 1 images has shape (1, 3, 6)", images, tokens)
    nodes = [node("Log", ["image"], ["features"])]
    log = saved_model(tmp_path / "log.onnx", nodes, {}, shape, shape)
    refused("image 0: its features are not finite", images, log)


def test_random_encoders_are_refused(tmp_path, images):
    node = onnx.helper.make_node
    nodes = [node("RandomNormalLike", ["image"], ["features"])]
    shape = ("n", 3, SIZE, SIZE)
    model = saved_model(tmp_path / "random.onnx", nodes, {}, shape, shape)
    refused("random.onnx: its features of the same image differ", images, model)


def test_settings_that_do_not_fit_the_model(tmp_path, encoder, images):
    refused("it takes images of 6 × 6, not 8 × 8", images, encoder, size=8)
    refused("mean: [1.0, 2.0]; the encoder takes 3 channels", images, encoder, mean=(1, 2))
    refused("have to be above 0", images, encoder, std=0)
    refused("batch_size: 0", images, encoder, batch_size=0)
    model = tiny_encoder(tmp_path, ("n", 3, "h", "w"), name="any.onnx")
    refused("it takes images of any size: choose one", images, model)


@pytest.mark.parametrize(("module", "package"), [("onnxruntime", "onnxruntime"), ("PIL", "Pillow")])
def test_a_missing_package_is_named(tmp_path, encoder, images, monkeypatch, module, package):
    folder = folder_of(tmp_path, images)
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"need {package}: pip install 'dirad\[images\]'"):
        compute_features(folder, encoder)


# ------------------------------------------------------------------ files and the command


@pytest.mark.parametrize("name", ["a.npz", "a.csv", "a.tsv.gz", "a.parquet"])
def test_written_features_are_read_as_a_table(tmp_path, name):
    X = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    found = Features(X, np.array(list("abcab")), [f"{i}.png" for i in range(5)], 5)
    write_features(tmp_path / name, found, file_names=True)
    table = open_table(tmp_path / name)
    assert table.names == ("x0", "x1", "x2", "label", "file_name")
    (chunk,) = table.chunks()
    columns = [np.array(chunk.columns[f"x{i}"], float) for i in range(3)]
    np.testing.assert_array_equal(np.array(columns).T.astype(np.float32), X)
    assert list(chunk.columns["label"]) == list("abcab")
    first = (tmp_path / name).read_bytes()
    write_features(tmp_path / name, found, file_names=True)
    assert (tmp_path / name).read_bytes() == first


def test_shuffled_features_are_the_same_rows_in_another_order(encoder, images):
    found = compute_features(images, encoder, labels=np.arange(10))
    other = found.shuffled(3)
    assert other.y.tolist() != list(range(10))
    assert sorted(other.y.tolist()) == list(range(10))
    np.testing.assert_array_equal(other.X, found.X[other.y])
    assert list(other.names) == [found.names[i] for i in other.y]
    assert found.shuffled(3).y.tolist() == other.y.tolist()


def test_no_part_of_a_file_is_left_where_the_disk_is_full(tmp_path, monkeypatch):
    def full(file, **_):
        file.write(b"some")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="cannot be written: No space left") as raised:
        write_features(tmp_path / "a.npz", Features(np.zeros((2, 2), np.float32), None, "ab", 0))
    assert raised.value.filename == str(tmp_path / "a.npz")
    assert list(tmp_path.iterdir()) == []


def test_from_pictures_to_a_continual_learner(tmp_path, capfdbinary, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tiny_encoder(tmp_path)
    rng = np.random.default_rng(0)
    labels = np.array(["dark", "light"])[np.arange(80) % 2]
    images = (
        rng.integers(0, 100, (80, SIZE, SIZE, 3)) + 150 * (np.arange(80) % 2)[:, None, None, None]
    )
    folder_of(tmp_path, images.astype(np.uint8), labels)
    command = ("features", "pictures", "--encoder", "encoder.onnx", "--mean", "0.5", "--std", "1")
    code, out, _ = run(capfdbinary, *command)
    assert code == 0
    assert re.search("computed now +│ 80", out)
    more = ("--json", "--batch-size", 7, "--shuffle", 0, "-o", "again.csv")
    code, out, _ = run(capfdbinary, *command, *more)
    assert '"computed now": 0' in out
    assert '"classes": 2' in out
    (chunk,) = open_table("again.csv").chunks()
    assert chunk.columns["label"] != sorted(chunk.columns["label"])
    fit = ("fit", "features.npz", "--target", "label", "--continual", "-o", "m.dirad", "--quiet")
    assert run(capfdbinary, *fit)[0] == 0
    assert run(capfdbinary, "learn", "m.dirad", "again.csv", "--finish", "--quiet")[0] == 0
    code, out, _ = run(capfdbinary, "predict", "m.dirad", "again.csv", "-o", "p.csv", "--json")
    assert code == 0
    assert '"accuracy": 1.0' in out


def test_what_the_command_refuses(tmp_path, encoder, images, capfdbinary, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", images)
    base = ("features", "a.npy", "--encoder", "encoder.onnx")
    for more, code, said in [
        (("--size", 1, 2, 3), 2, "--size takes one number or two"),
        (("-o", "a.npy"), 2, "this file is an input"),
        (("-o", "nowhere/a.npz"), 2, "there is no folder nowhere"),
        (("-o", "a.xlsx"), 1, "a.xlsx: the name has to end in .npz"),
        (("--size", 9), 1, "dirad: encoder.onnx: it takes images of 6 × 6, not 9 × 9"),
    ]:
        found, out, err = run(capfdbinary, *base, *more)
        assert (found, out) == (code, "")
        assert said in err
        assert err.count("\n") == 1
    counted(monkeypatch, fail_at=TESTS)
    code, _, err = run(capfdbinary, *base)
    assert (code, err) == (130, "dirad: stopped; the same command computes only what is missing\n")
    assert not (tmp_path / "features.npz").exists()


def test_a_bomb_is_no_picture(tmp_path, encoder, monkeypatch):
    folder = tmp_path / "bomb"
    folder.mkdir()
    content = io.BytesIO()
    Image.new("1", (400, 400)).save(content, "png")
    (folder / "bomb.png").write_bytes(content.getvalue())
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    refused("bomb.png: not a readable picture", folder, encoder)
