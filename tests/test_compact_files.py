"""Compact networks on the command line and in model files."""

import copy
import json

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.model_selection import train_test_split

from commands import run
from dirad import DIRADClassifier, storage
from dirad.export.compact import compact_source, predict
from dirad.export.compact.budget import STORAGES
from dirad.export.compact.growing import fit_compact
from dirad.export.compact.stored import as_json, from_json
from dirad.tables import write_table
from test_compact import random_net


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Iris as a table, and a model grown for 400 bytes."""
    path = tmp_path_factory.mktemp("iris")
    X, y = load_iris(return_X_y=True)
    columns = {f"x{i}": X[:, i] for i in range(4)}
    write_table(str(path / "iris.csv"), columns | {"kind": [f"kind {k}" for k in y]})
    return path


@pytest.fixture
def dirad(folder, capfdbinary, monkeypatch):
    monkeypatch.chdir(folder)
    return lambda *arguments: run(capfdbinary, *arguments)


def test_a_fit_for_bytes_is_exported_as_it_was_stored(dirad, folder):
    code, out, _ = dirad("fit", "iris.csv", "--target", "kind", "--max-bytes", 400, "--json")
    assert code == 0
    assert "flash, bytes" in out
    stored = storage.read(folder / "model.dirad").provenance
    assert stored["max bytes"] == 400
    code, out, _ = dirad(
        "export", "model.dirad", "--to", "c", "--bytes", 400, "-o", "a.h", "--json"
    )
    assert code == 0
    assert "flash, bytes" in out
    net = from_json(stored["compact network"], ("kind 0", "kind 1", "kind 2"), tuple("abcd"))
    table = compact_source(net).split("model_bytes")[1].split("};")[0]
    assert table in (folder / "a.h").read_text()


def test_fast_code_keeps_the_bytes(dirad, folder):
    dirad("fit", "iris.csv", "--target", "kind", "--max-bytes", 300, "-o", "small.dirad")
    export = ("export", "small.dirad", "--to", "c", "-o", "fast.h", "--json")
    for most in (300, 2000):
        more = ("--data", "iris.csv") if most == 300 else ()
        code, out, _ = dirad(*export, "--bytes", most, "--fast", *more)
        assert code == 0
        assert json.loads(out)["Export"]["flash, bytes"] <= most
        assert "model_bytes" not in (folder / "fast.h").read_text()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--fast"], "--fast is for --bytes"),
        (["--bytes", 400, "--fixed", 16], "leave --fixed out"),
        (["--data", "iris.csv"], "--data is for --bytes"),
        (["--bytes", 60], "60 bytes are too few"),
    ],
)
def test_what_export_refuses(dirad, folder, options, said):
    if not (folder / "plain.dirad").exists():
        dirad("fit", "iris.csv", "--target", "kind", "--max-edges", 8, "-o", "plain.dirad")
    code, _, err = dirad("export", "plain.dirad", "--to", "c", *options)
    assert code == 2
    assert said in " ".join(err.split())


@pytest.mark.parametrize("options", [["--max-edges", 9], ["--committee", 2], ["--continual"]])
def test_what_fit_refuses(dirad, options):
    code, _, err = dirad("fit", "iris.csv", "--target", "kind", "--max-bytes", 400, *options)
    assert code == 2
    assert "--max-bytes" in err


def test_a_fit_for_bytes_is_no_resumed_fit(dirad, folder):
    (folder / "other.dirad.checkpoint").write_bytes(b"not looked at")
    fit = ("fit", "iris.csv", "--target", "kind", "--max-bytes", 400, "-o", "other.dirad")
    code, _, err = dirad(*fit, "--resume")
    assert code == 2
    assert "--max-bytes writes no checkpoints" in " ".join(err.split())


def test_a_fit_for_bytes_tells_how_good_these_bytes_are(dirad, folder):
    fit = ("fit", "iris.csv", "--target", "kind", "--max-bytes", 300, "--seed", 3, "--json")
    code, out, _ = dirad(*fit, "-o", "seed3.dirad")
    assert code == 0
    found = storage.read(folder / "seed3.dirad")
    net = from_json(found.provenance["compact network"], (0, 1, 2), ())
    X, y = load_iris(return_X_y=True)
    rows = train_test_split(np.arange(150), test_size=0.2, random_state=3, stratify=y)
    right = float(np.mean(predict(net, X[rows[1]]) == y[rows[1]]))
    assert json.loads(out)["What was grown"]["test accuracy in these bytes"] == right
    own = DIRADClassifier(random_state=3)
    made = fit_compact(own, X[rows[0]], y[rows[0]], 300, seed=3)[1]
    assert as_json(made.net) == found.provenance["compact network"]


def test_one_end_of_the_ranges_may_be_given(dirad, folder):
    """The other is that of the rows given, or of those fitted to."""
    if not (folder / "plain.dirad").exists():
        dirad("fit", "iris.csv", "--target", "kind", "--max-edges", 8, "-o", "plain.dirad")
    ends = storage.read(folder / "plain.dirad").provenance
    export = ("export", "plain.dirad", "--to", "c", "--bytes", 500, "-o", "b.h")
    for more in ((), ("--data", "iris.csv")):
        assert dirad(*export, "--high", 20, *more)[0] == 0
        assert "#define MODEL_HIGH(i) 20.0f" in (folder / "b.h").read_text()
        assert "#define MODEL_LOW(i) model_low[i]" in (folder / "b.h").read_text()
    assert dirad(*export)[0] == 0
    for end in ("low", "high"):
        text = (folder / "b.h").read_text().split(f"model_{end}[4] = {{")[1].split("}")[0]
        assert np.allclose([float(v.strip("f \n")) for v in text.split(",")], ends[end])
    fixed = ("export", "plain.dirad", "--to", "c", "--fixed", 16, "-o", "f.h")
    assert dirad(*fixed, "--high", 20)[0] == 0
    text = (folder / "f.h").read_text().split("model_low[4] = {")[1].split("}")[0]
    assert np.allclose([float(v.strip("f \n")) for v in text.split(",")], ends["low"])


@pytest.mark.parametrize("storage", STORAGES)
def test_what_is_stored_is_read_back(storage):
    net = random_net(5, storage.formats)
    again = from_json(json.loads(json.dumps(as_json(net))), net.classes, net.names)
    assert compact_source(again) == compact_source(net)


def _changed(net, path, value):
    found = copy.deepcopy(as_json(net))
    *places, last = path
    inner = found
    for place in places:
        inner = inner[place]
    inner[last] = value
    return found


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["source", 0], 10**6),
        (["source", 0], -1),
        (["weight", 0], 2),
        (["bias", 0], 200),
        (["start", 1], 10**9),
        (["gate_shift", 0], 16),
        (["n_hidden"], 3),
        (["n_inputs"], "30"),
        (["formats", 0], [9, 9, "uniform"]),
        (["high", 0], 1e300),
        (["low", 0], float("nan")),
        (["bias_shift"], 31),
        (["scale"], []),
    ],
)
def test_damaged_networks_are_refused(path, value):
    net = random_net(5, STORAGES[0].formats)
    assert net.start[1] > 0
    with pytest.raises(ValueError, match=r"compact network|32 bits"):
        from_json(_changed(net, path, value), net.classes, net.names)
    with pytest.raises(ValueError, match="compact network"):
        from_json({}, None, ())
    assert np.isfinite(net.low).all()


@pytest.mark.parametrize("bits", [6, 7, 8])
def test_powers_whose_sums_are_not_checked_are_refused(bits):
    net = random_net(5, STORAGES[0].formats, density=0.0)
    found = as_json(net) | {"formats": [[8 if bits == 8 else 8 - bits, bits, "powers"]] * 2}
    with pytest.raises(ValueError, match="unknown format"):
        from_json(found, net.classes, net.names)
