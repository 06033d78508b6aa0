"""Compact networks on the command line and in model files."""

import copy
import json

import numpy as np
import pytest
from sklearn.datasets import load_iris

from commands import run
from dirad import storage
from dirad.export.compact import compact_source
from dirad.export.compact.budget import STORAGES
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


@pytest.mark.parametrize(
    ("options", "said"),
    [
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
