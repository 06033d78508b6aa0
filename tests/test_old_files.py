"""Model files of dirad 0.1 are read, and answer as they did then."""

import json
from pathlib import Path

import numpy as np
import pytest

import dirad

FILES = Path(__file__).parent / "files" / "0.1"
EXPECTED = json.loads((FILES / "expected.json").read_text())
X = np.array(EXPECTED["inputs"])


def test_every_file_has_expected_answers():
    assert {path.stem for path in FILES.glob("*.dirad")} == set(EXPECTED["files"])


@pytest.mark.parametrize("name", EXPECTED["files"])
def test_a_file_answers_as_in_its_version(name):
    model, expected = dirad.load(FILES / f"{name}.dirad"), EXPECTED["files"][name]
    stable = [phase == "stable" for phase in expected["phases"]]
    assert [one.phase == "stable" for one in model.models_] == stable
    assert model.route(X).tolist() == expected["route"]
    found = model.predict_proba(X)
    assert np.allclose(found, expected["probabilities"], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", EXPECTED["files"])
def test_training_goes_on_after_reading(name, tmp_path):
    """All models are finished, and a file of the present version gives the same answers."""
    model = dirad.load(FILES / f"{name}.dirad").finish()
    assert {one.phase for one in model.models_} == {"stable"}
    found = model.predict_proba(X)
    assert found.sum(axis=1) == pytest.approx(np.ones(len(X)))
    dirad.save(model, tmp_path / "again")
    again = dirad.load(tmp_path / "again")
    assert np.array_equal(again.predict_proba(X), found)
    assert np.array_equal(again.route(X), model.route(X))
