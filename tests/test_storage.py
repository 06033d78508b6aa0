"""Model files: same answers, same continuation, and no file that could do harm."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save as serialized
from sklearn.datasets import load_iris

import dirad
from dirad import DIRADClassifier, DIRADRegressor, ModelError, PREVALClassifier
from dirad.atomic import replacing
from dirad.growth.state import PHASE
from dirad.history import TRIMMING
from dirad.storage.model_file import HEADER, digest_of, packed, read
from streams import samples

IRIS = load_iris(return_X_y=True)
QUICK = {"max_edges": 20, "max_steps": 600, "settle_steps": 100}
PREVAL = {
    "l0": {"max_steps": 400, "settle_steps": 50},
    "l1": {"settle_steps": 50},
    "modes": 2,
    "batch_size": 50,
    "buffer_size": 600,
    "begin": 100,
    "steps_per_batch": 50,
    "random_state": 0,
    "n_jobs": 1,
}
PAPER = {
    "preset": "paper",
    "batch_size": 40,
    "l0": {"max_steps": 120, "patience": 20},
    "l1": {"max_steps": 60, "patience": 10},
    "T_CP": 0.2,
    "random_state": 0,
    "n_jobs": 1,
}


@pytest.fixture(scope="module")
def grown():
    return DIRADClassifier(random_state=0, **QUICK).fit(*IRIS)


def stored(model, folder, name="model.dirad"):
    """Return the model after a trip through a file."""
    dirad.save(model, folder / name)
    return dirad.load(folder / name)


def same_network(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


# ------------------------------------------------------------------ round trips


@pytest.mark.parametrize("preset", ["default", "paper"])
def test_a_classifier_comes_back_to_the_last_bit(tmp_path, preset):
    X, y = IRIS
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = DIRADClassifier(preset=preset, random_state=3, **QUICK).fit(X, names)
    back = stored(model, tmp_path)
    assert np.array_equal(back.predict_proba(X), model.predict_proba(X))
    assert back.predict(X).tolist() == model.predict(X).tolist()
    assert back.get_params() == model.get_params()
    assert same_network(back.network_, model.network_)
    assert np.array_equal(back.history_.events, model.history_.events)
    assert back.n_parameters_ == model.n_parameters_
    assert str(back) == str(model)
    assert back.history_.topology() == model.history_.topology()


@pytest.mark.parametrize("labels", [[True, False], [-1, 7], [0.0, 1.0], ["a", "ü, \n"]])
def test_labels_keep_their_type(tmp_path, labels):
    X = np.array([[0.0], [1.0]] * 20)
    model = DIRADClassifier(random_state=0, **QUICK).fit(X, labels * 20)
    back = stored(model, tmp_path)
    assert back.classes_.dtype == model.classes_.dtype
    assert back.predict(X).tolist() == model.predict(X).tolist()


@pytest.mark.parametrize("preset", ["default", "paper"])
def test_a_regressor_comes_back_to_the_last_bit(tmp_path, preset):
    X, _ = IRIS
    model = DIRADRegressor(preset=preset, random_state=0, **QUICK).fit(X[:, :2], X[:, 2:])
    back = stored(model, tmp_path)
    assert np.array_equal(back.predict(X[:, :2]), model.predict(X[:, :2]))


@pytest.mark.parametrize("options", [PREVAL, PREVAL | {"models": "shared"}, PAPER])
def test_a_system_goes_on_as_if_it_had_never_stopped(tmp_path, options):
    """Saved after every call, in every phase, and loaded again."""
    classes = list(range(4)) if options is PAPER else None
    parts = [samples(task, 400, seed=seed) for task in (0, 1, 0) for seed in (0, 1)]
    whole, halted = PREVALClassifier(**options), PREVALClassifier(**options)
    phases = set()
    for number, (X, y) in enumerate(parts):
        for rows in np.array_split(np.arange(len(X)), 5):
            whole.partial_fit(X[rows], y[rows], classes=classes)
            halted.partial_fit(X[rows], y[rows], classes=classes)
            halted = stored(halted, tmp_path, f"{number}.dirad")
            phases |= {model.phase for model in halted.models_}
    whole.finish()
    halted = stored(halted.finish(), tmp_path)
    X = np.concatenate([X for X, _ in parts])
    assert "L0" in phases
    assert len(whole.models_) >= 1
    assert np.array_equal(halted.predict_proba(X), whole.predict_proba(X))
    assert np.array_equal(halted.novelty(X), whole.novelty(X))
    assert halted.events_ == whole.events_
    assert [str(report) for report in halted.reports_] == [str(r) for r in whole.reports_]
    assert halted.n_parameters_ == whole.n_parameters_
    for one, other in zip(halted.models_, whole.models_, strict=True):
        assert same_network(one.network, other.network)
    assert packed(halted) == packed(whole)


def test_waiting_samples_and_late_labels_survive(tmp_path):
    X, y = samples(0, 130)
    models = [PREVALClassifier(**PREVAL).partial_fit(X) for _ in range(2)]
    models[1] = stored(models[1], tmp_path)
    for model in models:
        model.label(np.arange(130), y).finish()
    assert models[0].n_samples_seen_ == models[1].n_samples_seen_ == 130
    assert np.array_equal(models[0].predict_proba(X), models[1].predict_proba(X))


def test_a_class_that_l0_learns_before_the_model_answers_it(tmp_path):
    """L0 gets an output for a rare class at once; the interim expert at its next fit."""
    X, y = samples(0, 400)
    y[390:392] = 7
    model = PREVALClassifier(**PREVAL | {"batch_size": 10}).partial_fit(X, y)
    learner = model._state.system.adapting
    assert len(learner.l0.classes) > len(learner.classes)
    back = stored(model, tmp_path)
    for one in (model, back):
        one.partial_fit(*samples(0, 200, seed=1)).finish()
    assert packed(back) == packed(model)


@pytest.mark.parametrize("fraction", [0.0, 0.3])
def test_a_fit_stopped_at_any_steps_ends_in_the_same_network(tmp_path, fraction):
    options = QUICK | {"validation_fraction": fraction, "random_state": 1}
    whole = DIRADClassifier(**options).fit(*IRIS)
    rng = np.random.default_rng(0)
    halted = DIRADClassifier(**options).fit(*IRIS, steps=int(rng.integers(1, 60)))
    stops = 1
    while not halted.is_stable_:
        halted = stored(halted, tmp_path)
        halted.predict(IRIS[0])  # usable on its way
        halted.resume(*IRIS, steps=int(rng.integers(1, 60)))
        stops += 1
    assert stops >= 10
    assert same_network(halted.network_, whole.network_)
    assert np.array_equal(halted.history_.events, whole.history_.events)
    assert np.array_equal(halted.history_.error, whole.history_.error)
    assert packed(halted) == packed(whole)


def test_a_fit_goes_on_within_trimming(tmp_path):
    X = np.random.default_rng(5).normal(size=(2000, 6))
    y = X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3] > 0
    whole = DIRADClassifier(random_state=0).fit(X, y)
    halted = DIRADClassifier(random_state=0).fit(X, y, steps=330)
    phases = set()
    while not halted.is_stable_:
        halted = stored(halted, tmp_path)
        phases.add(int(halted._fit.state.clock[PHASE]))
        halted.resume(X, y, steps=330)
    assert TRIMMING in phases
    assert packed(halted) == packed(whole)


def test_a_fit_goes_on_with_its_own_samples_only():
    X, y = IRIS
    model = DIRADRegressor(random_state=0, **QUICK).fit(X, y, steps=10)
    assert not model.is_stable_
    with pytest.raises(ValueError, match="not the samples that the fit began with"):
        model.resume(X + 1, y)
    model.resume(X, y)
    assert model.is_stable_
    with pytest.raises(ValueError, match="nothing left to resume"):
        model.resume(X, y)


def test_the_same_model_gives_the_same_bytes(grown):
    assert packed(grown) == packed(grown)
    again = DIRADClassifier(random_state=0, **QUICK).fit(*IRIS)
    assert packed(again) == packed(grown)


def test_what_is_kept_beside_the_model(tmp_path, grown):
    dirad.save(grown, tmp_path / "m", encoder={"a": [1, "ü"]}, provenance={"data": "x" * 64})
    found = read(tmp_path / "m")
    assert found.encoder == {"a": [1, "ü"]}
    assert found.provenance == {"dirad": dirad.__version__, "data": "x" * 64}


def test_only_fitted_estimators_can_be_saved(tmp_path):
    for odd in (DIRADClassifier(), {"a": 1}, None):
        with pytest.raises(ModelError, match="only fitted estimators"):
            dirad.save(odd, tmp_path / "m")
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------ damaged and hostile files


def attempt(path):
    """Load a file that may be anything: a model, or a clear error."""
    try:
        return dirad.load(path)
    except ModelError as error:
        said = str(error)
    assert str(path) in said
    return None


def mutated(content, rng):
    """Return the bytes with one thing wrong."""
    content = bytearray(content)
    n = len(content)
    place = int(rng.integers(n))
    match int(rng.integers(6)):
        case 0:
            content[place] ^= 1 << int(rng.integers(8))
        case 1:
            del content[place:]
        case 2:
            del content[place : place + int(rng.integers(1, 64))]
        case 3:
            content[place:place] = rng.bytes(int(rng.integers(1, 64)))
        case 4:
            content[place : place + 8] = rng.bytes(8)
        case 5:
            other = int(rng.integers(n))
            content[place : place + 16], content[other : other + 16] = (
                content[other : other + 16], content[place : place + 16],
            )  # fmt: skip
    return bytes(content)


def mutate_many(model, folder, count):
    """Return how many of so many damaged files were refused; the rest must be as good as new."""
    X = IRIS[0]
    content, rng = packed(model), np.random.default_rng(0)
    path, refused = folder / "mutated", 0
    for _ in range(count):
        path.write_bytes(mutated(content, rng))
        found = attempt(path)
        refused += found is None
        if found is not None:
            assert packed(found) == content
            assert np.array_equal(found.predict_proba(X), model.predict_proba(X))
    return refused


def test_damaged_files_are_refused(tmp_path, grown):
    assert mutate_many(grown, tmp_path, 400) > 350


@pytest.mark.slow
def test_ten_thousand_damaged_files(tmp_path, grown):
    refused = mutate_many(grown, tmp_path, 10_000)
    print(f"10,000 damaged files: {refused} refused, the others loaded to the last bit")
    assert refused > 9000


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not a model file"),
        (b"{}", "not a model file"),
        (b"\x80\x04\x95 a pickle", "not a model file"),
        (b"\xff" * 8 + b"x" * 100, "not a model file"),  # a header of 2^64 bytes
        (serialized({"a": np.zeros(3)}), "no dirad model"),
    ],
)
def test_foreign_files_are_refused(tmp_path, content, said):
    path = tmp_path / "foreign"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=said):
        dirad.load(path)


def test_no_file_at_all(tmp_path):
    with pytest.raises(FileNotFoundError):
        dirad.load(tmp_path / "missing")
    with pytest.raises(ModelError, match="folder"):
        dirad.load(tmp_path)


def forged(model, folder, change):
    """Write a file with a valid digest whose content was changed."""
    path = folder / "forged"
    path.write_bytes(packed(model))
    with safe_open(path, "np") as file:
        found = json.loads(file.metadata()[HEADER])
        arrays = {name: file.get_tensor(name).copy() for name in file.keys()}  # noqa: SIM118
    change(found, arrays)
    found["digest"] = digest_of(found, arrays)
    path.write_bytes(serialized(arrays, metadata={HEADER: json.dumps(found)}))
    return path


def setting(name, value, place=0):
    def change(_, arrays):
        arrays[f"model/network_/{name}"][place] = value

    return change


def replacing_array(name, array):
    def change(_, arrays):
        arrays[f"model/{name}"] = array

    return change


def in_tree(*keys, value):
    def change(found, _):
        inner = found
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = value

    return change


def cycle(_, arrays):
    """Let a modulatory node, made up, feed itself."""
    prefix = "model/network_"
    inputs, unit = int(arrays[f"{prefix}/counts"][0]), int(arrays[f"{prefix}/counts"][1]) - 1
    arrays[f"{prefix}/edges/source"][0] = inputs + unit
    arrays[f"{prefix}/edges/term"][0] = 2 * unit


def deep(found, _):
    for _ in range(200):
        found["tree"]["options"] = {"pairs": [["a", found["tree"]["options"]]]}


HOSTILE = {
    "NaN weight": setting("edges/weight", np.nan),
    "infinite bias": setting("bias", np.inf),
    "edge to nowhere": setting("edges/term", 10**12),
    "negative term": setting("edges/term", -5),
    "source out of range": setting("edges/source", 10**9),
    "more units than there are": setting("counts", 10**15, 1),
    "more edges than there are": setting("counts", 10**15, 2),
    "other inputs": setting("counts", 7, 0),
    "unknown transfer": setting("counts", 9, 4),
    "unknown kind of unit": setting("units/kind", 99),
    "outputs twice": setting("units/output", 1),
    "a cycle": cycle,
    "wrong type": replacing_array("network_/bias", np.zeros((3, 2), np.float32)),
    "wrong shape": replacing_array("network_/bias", np.zeros((3, 5))),
    "too short": replacing_array("network_/edges/weight", np.zeros(1)),
    "unknown event": replacing_array("history_/events/kind", np.full(1, 55)),
    "no such array": in_tree("tree", "network_", "counts", value="nothing"),
    "another field": in_tree("tree", "extra", value=1),
    "no options": in_tree("tree", "options", value=[]),
    "unknown option": in_tree("tree", "options", "pairs", value=[["rm -rf", 1]]),
    "huge labels": in_tree("tree", "classes_", value={"type": "<U900000000", "labels": ["a"] * 3}),
    "labels of objects": in_tree("tree", "classes_", value={"type": "O", "labels": [1, 2, 3]}),
    "wrong labels": in_tree("tree", "classes_", value={"type": "<i8", "labels": ["a", 2, 3]}),
    "fewer classes": in_tree("tree", "classes_", value={"type": "<i8", "labels": [1, 2]}),
    "huge number": in_tree("tree", "n_features_in_", value=10**400),
    "bad constant": in_tree("tree", "params_", "gamma", value=-1),
    "text for a constant": in_tree("tree", "params_", "gamma", value="fast"),
    "another estimator": in_tree("model", value="os.system"),
    "a list for an estimator": in_tree("model", value=["a"]),
    "no tree": in_tree("tree", value=None),
    "nested": deep,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused(tmp_path, grown, name):
    path = forged(grown, tmp_path, HOSTILE[name])
    with pytest.raises(ModelError, match="forged"):
        dirad.load(path)


def test_a_forged_file_that_changes_nothing_loads(tmp_path, grown):
    path = forged(grown, tmp_path, lambda found, arrays: None)
    assert packed(dirad.load(path)) == packed(grown)


@pytest.fixture(scope="module")
def system():
    model = PREVALClassifier(**PREVAL)
    for task in (0, 1):
        X, y = samples(task, 700)
        model.partial_fit(X, y)
    return model.finish()


@given(st.data())
def test_a_system_with_any_number_out_of_range_is_refused_or_answers(
    tmp_path_factory, system, data
):
    """Whatever one number of a forged file is, nothing crashes: an error, or an answer."""
    X, _ = samples(0, 20)

    def change(found, arrays):
        name = data.draw(st.sampled_from(sorted(n for n, a in arrays.items() if a.size)))
        array = arrays[name].reshape(-1)
        place = data.draw(st.integers(0, array.size - 1))
        odd = {
            "i": [-1, 0, 1, 2**31, -(2**63), 2**63 - 1],
            "u": [0, 1, 34, 255],  # text: a quotation mark among others
            "f": [-1.0, 0.0, 1e30],
            "b": [not array[place]],
        }
        array[place] = data.draw(st.sampled_from(odd[array.dtype.kind]))

    path = forged(system, tmp_path_factory.mktemp("forged"), change)
    found = attempt(path)
    if found is not None:
        found.predict_proba(X)
        found.route(X)


ODD = [None, [], {}, [[]], [[1, 2]], {"pairs": [[1, 2]]}, 10**400, -(10**400), -1, 0.5, True, "x"]


def places_in(tree, path=()):
    """Yield the path to everything in a tree of lists and dictionaries."""
    inside = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in inside:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places_in(value, (*path, key))


@pytest.mark.parametrize("kind", ["grown", "system", "unfinished"])
@given(st.data())
def test_whatever_a_header_says_it_is_refused_or_answers(tmp_path_factory, request, kind, data):
    """A description with a valid digest in which any one thing is replaced by something odd."""
    model = request.getfixturevalue(kind)

    def change(found, _):
        parts = {name: found[name] for name in ("tree", "shared", "encoder", "provenance", "model")}
        path = data.draw(st.sampled_from(sorted(places_in(parts), key=str)))
        for key in path[:-1]:
            found = found[key]
        found[path[-1]] = data.draw(st.sampled_from(ODD))

    found = attempt(forged(model, tmp_path_factory.mktemp("forged"), change))
    if found is not None and hasattr(found, "predict_proba"):
        found.predict_proba(np.zeros((2, found.n_features_in_)))


@pytest.fixture(scope="module")
def unfinished():
    return PREVALClassifier(**PREVAL).partial_fit(*samples(0, 320))


def test_a_model_that_stands_on_itself_is_refused(tmp_path, system):
    def change(found, _):
        for place, part in enumerate(found["shared"]):
            if isinstance(part, dict) and "base" in part:
                part["base"] = place

    with pytest.raises(ModelError, match="part of itself"):
        dirad.load(forged(system, tmp_path, change))


# ------------------------------------------------------------------ writing


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def fail():
        with replacing(path) as part:
            part.write_text("half")
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        fail()
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_full_disk_costs_nothing(tmp_path, grown, monkeypatch):
    path = tmp_path / "model"
    path.write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        dirad.save(grown, path)
    assert path.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_folder_that_is_not_there_is_named(tmp_path, grown):
    with pytest.raises(OSError, match="missing/model"):
        dirad.save(grown, tmp_path / "missing" / "model")


WRITER = """
import sys
from pathlib import Path
from dirad.atomic import replacing
from dirad.growth.state import PHASE
from dirad.history import TRIMMING
path, size = Path(sys.argv[1]), int(sys.argv[2])
print("ready", flush=True)
number = 0
while True:
    number += 1
    with replacing(path) as part:
        part.write_bytes(bytes([number % 256]) * size)
"""


def kill_writers(folder, times):
    """Kill a process that writes a file again and again; the file must always be whole."""
    path, size, rng = folder / "file", 1 << 20, np.random.default_rng(0)
    for _ in range(times):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, path, str(size)], stdout=subprocess.PIPE
        )
        assert process.stdout.readline() == b"ready\n"
        time.sleep(float(rng.uniform(0.005, 0.1)))
        process.send_signal(signal.SIGKILL)
        process.wait()
        if path.exists():
            content = path.read_bytes()
            assert len(content) == size
            assert len(set(content)) == 1
    assert path.exists()


def test_a_killed_writer_leaves_a_whole_file(tmp_path):
    kill_writers(tmp_path, 3)


@pytest.mark.slow
def test_fifty_killed_writers(tmp_path):
    kill_writers(tmp_path, 50)
