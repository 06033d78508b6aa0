"""Markers of missing data in files: refused by line and column, before any model file changes."""

import numpy as np
import pytest

from commands import run
from dirad import cli
from dirad.tables import Encoder, TableError, open_table, write_table
from streams import samples

MARKERS = [-3.4028235e38, 9.96921e36, 1.7976931348623157e308]


def day(path, marker=None, rows=(), column=1):
    """Write a day of measurements, some of which are markers."""
    X, y = samples(0, 400, seed=3)
    X[list(rows), column] = marker
    inputs = {f"sensor {i}": X[:, i] for i in range(X.shape[1])}
    write_table(path, inputs | {"fault": [f"f{label}" for label in y]})
    return path


@pytest.fixture(scope="module")
def plant(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plant")
    path = folder / "plant.dirad"
    fit = (
        "fit",
        day(folder / "day1.csv"),
        "--target",
        "fault",
        "--continual",
        "--quiet",
        "-o",
        path,
    )
    assert cli.run([str(part) for part in fit]) == 0
    return path


@pytest.mark.parametrize("marker", MARKERS)
@pytest.mark.parametrize("rows", [range(7, 400, 10), (313,)], ids=["tenth", "one"])
def test_a_model_is_not_replaced(capfdbinary, tmp_path, plant, marker, rows):
    before = plant.read_bytes()
    data = day(tmp_path / "day.csv", marker, rows)
    code, _, said = run(capfdbinary, "learn", plant, data, "--quiet")
    assert code == 1
    line = rows[0] + 2  # after the header
    assert f"day.csv, line {line}, column 'sensor 1': {marker:.8g} is so much larger" in said
    assert plant.read_bytes() == before
    code, *_ = run(capfdbinary, "predict", plant, data, "-o", tmp_path / "answers.csv", "--quiet")
    assert code == 0


@pytest.mark.parametrize("options", [(), ("--continual",)])
def test_none_is_written(capfdbinary, tmp_path, options):
    data = day(tmp_path / "day.csv", -3.4028235e38, range(5, 400, 10))
    path = tmp_path / "m.dirad"
    code, _, said = run(
        capfdbinary, "fit", data, "--target", "fault", *options, "-o", path, "--quiet"
    )
    assert code == 1
    assert "day.csv, line 7, column 'sensor 1': -3.4028235e+38 is so much larger" in said
    assert not path.exists()


def test_a_target_is_checked_too(tmp_path):
    y = np.arange(60.0)
    y[17] = 9.96921e36
    write_table(tmp_path / "a.csv", {"x": np.arange(60.0), "y": y})
    table = open_table(tmp_path / "a.csv")
    with pytest.raises(TableError, match=r"line 19, column 'y': 9\.96921e"):
        Encoder.fit(table, "y").read(table)


def test_large_codes_stay_different_classes(tmp_path):
    pa = pytest.importorskip("pyarrow")
    codes = np.array([2**63 + k % 3 for k in range(60)], np.uint64)
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table({"x": np.arange(60.0), "code": codes}), tmp_path / "a.parquet")
    table = open_table(tmp_path / "a.parquet")
    encoder = Encoder.fit(table, "code", task="classification")
    assert len(encoder.target.classes) == 3
    assert len(set(encoder.read(table)[1].tolist())) == 3
