"""Model files with a sound digest whose notes are nonsense: one line, never a traceback."""

import numpy as np
import pytest

from commands import run
from dirad import cli
from dirad.storage.model_file import packed, read
from dirad.tables import write_table

HUGE = 10**400


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a classifier and a regressor, and their data."""
    folder = tmp_path_factory.mktemp("data")
    weight = np.random.default_rng(0).normal(size=60)
    inputs = {"weight": weight, "garden": [f"g{i % 2}" for i in range(60)]}
    for name, target in (("kinds", np.where(weight > 0, "a", "b")), ("prices", 2.5 * weight)):
        data, model = folder / f"{name}.csv", folder / f"{name}.dirad"
        write_table(data, inputs | {"target": target})
        fit = ("fit", data, "--target", "target", "--max-edges", 2, "--quiet", "-o", model)
        assert cli.run([str(part) for part in fit]) == 0
    return folder


def crafted(folder, path, name="kinds", *, encoder=(), target=(), inputs=(), **origin):
    """Write a model file in which some of its notes are others."""
    found = read(folder / f"{name}.dirad")
    parts = [dict(part) for part in found.encoder["inputs"]]
    for place, changes in inputs:
        parts[place] |= changes
    notes = {"inputs": parts, "target": {**found.encoder["target"], **dict(target)}}
    path.write_bytes(packed(found.model, notes | dict(encoder), {**found.provenance, **origin}))
    return path


@pytest.mark.parametrize(
    "ends",
    [
        {"low": None}, {"high": None}, {"low": [None] * 3}, {"low": ["0"] * 3}, {"low": {}},
        {"high": [HUGE] * 3}, {"high": HUGE}, {"low": [0.0]}, {"low": "abc"}, {"low": [[]] * 3},
        {"low": [9.0] * 3, "high": [0.0] * 3}, {"low": [True] * 3},
    ],
)  # fmt: skip
def test_ranges_that_are_none(capfdbinary, folder, tmp_path, ends):
    path = crafted(folder, tmp_path / "model.dirad", **ends)
    export = ("export", path, "--to", "c", "--fixed", 16, "-o", tmp_path / "m.h")
    code, text, errors = run(capfdbinary, *export)
    assert (code, text) == (1, "")
    assert errors == (
        f"dirad: {path}: the ranges of its inputs are not valid: give others by --low and --high\n"
    )
    assert run(capfdbinary, *export, "--low", -3, "--high", 3)[0] == 0


@pytest.mark.parametrize(
    "origin",
    [
        {"data": [{"file": [], "sha256": []}]}, {"data": [{"sha256": {}}, 3]}, {"data": {"a": 1}},
        {"test accuracy": HUGE}, {"test rows": HUGE, "rows": -HUGE}, {"test R²": [1]},
        {"test accuracy": {"a": []}, "rows": True}, {"dirad": [None], "seed": {}},
    ],
)  # fmt: skip
def test_origins_that_make_no_sense_do_no_harm(capfdbinary, folder, tmp_path, origin):
    path, data = crafted(folder, tmp_path / "model.dirad", **origin), folder / "kinds.csv"
    for command in (
        ("inspect", path),
        ("inspect", path, "--data", data, "--json"),
        ("report", path, "--data", data, "-o", tmp_path / "page.html"),
    ):
        code, _, errors = run(capfdbinary, *command, "--quiet")
        assert (code, errors) == (0, ""), command


@pytest.mark.parametrize(
    ("name", "notes", "said"),
    [
        ("kinds", {"encoder": {"target": []}}, "the target does not consist of"),
        ("kinds", {"encoder": {"inputs": {}}}, "it does not consist of inputs"),
        ("kinds", {"inputs": [(0, {"fill": HUGE})]}, "too large"),
        ("kinds", {"inputs": [(0, {"name": None})]}, "no name"),
        ("kinds", {"inputs": [(1, {"categories": ["a", "b", "c"]})]}, "4 names for 3 inputs"),
        ("kinds", {"target": {"task": "regression", "kind": "number", "classes": []}},
         "regression"),
        ("prices", {"target": {"task": "classification", "kind": "category", "classes": ["a"]}},
         "classification"),
        ("kinds", {"target": {"kind": "number", "classes": [1, 2]}}, "classes"),
    ],
)  # fmt: skip
def test_columns_that_do_not_fit_the_model(capfdbinary, folder, tmp_path, name, notes, said):
    path, data = crafted(folder, tmp_path / "model.dirad", name, **notes), folder / f"{name}.csv"
    out = tmp_path / "out.csv"
    for command in (
        ("inspect", path),
        ("inspect", path, "--inputs"),
        ("inspect", path, "--data", data),
        ("predict", path, data, "-o", out),
        ("export", path, "--to", "dot", "-o", out),
        ("report", path, "-o", out),
    ):
        code, text, errors = run(capfdbinary, *command)
        assert (code, text) == (1, ""), command
        assert errors.startswith(f"dirad: {path}: ")
        assert errors.count("\n") == 1
        assert said in errors
