"""Model files that several processes want, and fits that go on: nothing is lost, nothing mixed."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import dirad
from commands import DIRAD, run
from dirad import cli
from dirad.atomic import claimed
from dirad.storage.model_file import packed, read
from dirad.tables import write_table
from streams import samples

HOLD = """
import sys
from dirad.atomic import claimed
with claimed(sys.argv[1]):
    print("claimed", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with fruit.csv, a stream of three days, and a continual model of the first."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    weight, code = rng.normal(size=90), rng.integers(0, 3, 90)
    kinds = np.array(["apple", "lemon"])[(weight > 0).astype(int)]
    columns = {"weight": weight, "size": rng.normal(size=90), "code": code, "kind": kinds}
    write_table(folder / "fruit.csv", columns | {"other": kinds[::-1]})
    for number, name in enumerate(("day1", "day2", "day3")):
        X, y = samples(number % 2, 400, seed=number)
        inputs = {f"sensor {i}": X[:, i] for i in range(X.shape[1])}
        labels = [f"f{label}" for label in y]
        if name == "day2":
            labels[:30] = ["early"] * 30
        write_table(folder / f"{name}.csv", inputs | {"fault": labels})
    fit = ["fit", folder / "day1.csv", "--target", "fault", "--continual", "--quiet", "-o"]
    assert cli.run([str(part) for part in (*fit, folder / "plant.dirad")]) == 0
    return folder


@pytest.fixture
def plant(folder, tmp_path):
    """A copy of the continual model."""
    path = tmp_path / "plant.dirad"
    path.write_bytes((folder / "plant.dirad").read_bytes())
    return path


def shown(path):
    return [entry["file"] for entry in read(path).provenance["data"]]


# ------------------------------------------------------------------ two processes, one file


def test_of_two_that_learn_at_once_none_is_lost_unsaid(folder, plant):
    days = ["day2.csv", "day3.csv"]
    both = [
        subprocess.Popen(
            [*DIRAD, "learn", plant, folder / day, "--quiet"], stderr=subprocess.PIPE, text=True
        )
        for day in days
    ]
    errors = [one.communicate()[1] for one in both]
    done = [day for day, one in zip(days, both, strict=True) if one.returncode == 0]
    assert sorted(shown(plant)) == ["day1.csv", *done]
    for one, said in zip(both, errors, strict=True):
        if one.returncode:
            assert one.returncode == 1
            assert said == f"dirad: {plant}: another process is about to write this file\n"
    assert [path.name for path in plant.parent.iterdir()] == ["plant.dirad"]


@pytest.fixture
def holder(plant):
    """A process that has claimed the model."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, plant], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"claimed\n"
        yield process
        process.kill()


def test_a_file_in_use_is_refused_until_its_user_dies(capfdbinary, folder, plant, holder):
    before = plant.read_bytes()
    link = plant.with_name("link.dirad")
    link.symlink_to(plant.name)
    fit = ("fit", folder / "fruit.csv", "--target", "kind", "--max-edges", 2)
    for path, command in (
        (plant, ("learn", plant, folder / "day2.csv")),
        (plant, ("learn", plant, "--finish")),
        (plant, ("learn", folder / "plant.dirad", folder / "day2.csv", "-o", plant)),
        (plant, (*fit, "-o", plant)),
        (link, (*fit, "-o", link)),
    ):
        code, text, errors = run(capfdbinary, *command, "--quiet")
        assert (code, text) == (1, ""), command
        assert errors == f"dirad: {path}: another process is about to write this file\n"
    assert plant.read_bytes() == before
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert run(capfdbinary, *fit, "-o", plant, "--quiet")[0] == 0
    assert shown(plant) == ["fruit.csv"]
    assert {path.name for path in plant.parent.iterdir()} == {"plant.dirad", "link.dirad"}


def test_the_checkpoint_is_claimed_too(capfdbinary, folder, plant):
    with claimed(f"{plant}.checkpoint"):
        code, _, errors = run(capfdbinary, "learn", plant, folder / "day2.csv", "--quiet")
    assert code == 1
    assert f"{plant}.checkpoint: another process" in errors


def test_a_claim_ends_with_its_block_and_its_lock_may_be_anything(tmp_path):
    path, lock = tmp_path / "a", tmp_path / ".a.lock"
    for make in (lambda: None, lock.touch, lambda: os.mkfifo(lock)):
        make()
        with claimed(path):
            assert lock.exists()
            with pytest.raises(BlockingIOError, match="another process"), claimed(path):
                pass
            assert lock.exists()
        assert not lock.exists()
    lock.symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="cannot be written"), claimed(path):
        pass
    assert not (tmp_path / "victim").exists()


def test_without_locks_files_are_written_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr("dirad.atomic.fcntl", None)
    with claimed(tmp_path / "a") as unchanged:
        assert unchanged()
        (tmp_path / "a").write_text("other")
        assert not unchanged()
    assert os.listdir(tmp_path) == ["a"]


# ------------------------------------------------------------------ files that others replace


def test_a_model_that_others_replaced_is_left_as_it_is(capfdbinary, folder, plant, monkeypatch):
    partial_fit = dirad.PREVALClassifier.partial_fit

    def replaced(self, *rest):
        plant.write_bytes(b"theirs")
        return partial_fit(self, *rest)

    monkeypatch.setattr(dirad.PREVALClassifier, "partial_fit", replaced)
    code, text, errors = run(capfdbinary, "learn", plant, folder / "day2.csv", "--quiet")
    assert (code, text) == (1, "")
    assert errors.startswith(f"dirad: {plant}: another program changed this file")
    assert f"{plant}.checkpoint" in errors
    assert plant.read_bytes() == b"theirs"
    assert shown(f"{plant}.checkpoint") == ["day1.csv", "day2.csv"]


def test_so_is_one_that_a_fit_was_to_replace(capfdbinary, folder, tmp_path, monkeypatch):
    path = tmp_path / "fruit.dirad"
    monkeypatch.setattr("dirad.cli.fit.scores", lambda *_: path.write_bytes(b"theirs") and {})
    fit = ("fit", folder / "fruit.csv", "--target", "kind", "--max-edges", 2, "-o", path, "--quiet")
    code, _, errors = run(capfdbinary, *fit)
    assert code == 1
    assert f"{path}.checkpoint" in errors
    assert path.read_bytes() == b"theirs"
    monkeypatch.undo()
    assert run(capfdbinary, *fit, "--resume")[0] == 0
    assert shown(path) == ["fruit.csv"]


# ------------------------------------------------------------------ other options, the same command


def interrupted_at(monkeypatch, kind, method, call):
    """Press Ctrl-C when a method is called for the n-th time."""
    original, calls = getattr(kind, method), []

    def pressed(self, *rest, **more):
        calls.append(self)
        if len(calls) == call:
            os.kill(os.getpid(), signal.SIGINT)
        return original(self, *rest, **more)

    monkeypatch.setattr(kind, method, pressed)


@pytest.mark.parametrize("continual", [True, False])
def test_a_fit_goes_on_with_the_same_columns_alone(
    capfdbinary, folder, tmp_path, monkeypatch, continual
):
    path = tmp_path / "fruit.dirad"
    fit = ["fit", folder / "fruit.csv", "-o", path, "--quiet"]
    kind = dirad.PREVALClassifier if continual else dirad.DIRADClassifier
    if continual:
        fit += ["--continual", "--batch-size", 20, "--begin", 20]
    same = ["--target", "kind", "--drop", "other"]
    monkeypatch.setattr("dirad.cli.fit.STEPS", 5)
    interrupted_at(monkeypatch, kind, "partial_fit" if continual else "resume", 2)
    assert run(capfdbinary, *fit, *same)[0] == 130
    checkpoint = path.with_name("fruit.dirad.checkpoint")
    before = checkpoint.read_bytes()
    others = {
        "--target": ["--target", "other", "--drop", "kind"],
        "--drop": [*same, "--drop", "size"],
        "--category": [*same, "--category", "code"],
        "--impute": [*same, "--impute", "median"],
    } | ({} if continual else {"--test": [*same, "--test", "0.5"]})
    for option, given in others.items():
        code, _, errors = run(capfdbinary, *fit, *given, "--resume")
        assert code == 2, (option, errors)
        assert errors.startswith(f"dirad: --resume: {checkpoint} "), errors
        assert option in errors
    assert checkpoint.read_bytes() == before
    assert run(capfdbinary, *fit, *same, "--resume")[0] == 0
    resumed = path.read_bytes()
    assert run(capfdbinary, *fit, *same)[0] == 0
    assert path.read_bytes() == resumed


@pytest.fixture
def stopped(capfdbinary, folder, plant, monkeypatch):
    """The arguments of a `learn` that was stopped after its first batch."""
    learn = ("learn", plant, folder / "day2.csv", "--quiet")
    with monkeypatch.context() as patch:
        interrupted_at(patch, dirad.PREVALClassifier, "partial_fit", 1)
        code, _, errors = run(capfdbinary, *learn)
    assert code == 130
    assert "after row 200" in errors
    return learn


def test_a_stopped_learner_keeps_the_classes_that_it_saw(capfdbinary, folder, plant, stopped):
    assert run(capfdbinary, *stopped, "--resume")[0] == 0
    resumed = read(plant)
    plant.write_bytes((folder / "plant.dirad").read_bytes())
    assert run(capfdbinary, *stopped)[0] == 0
    whole = read(plant)
    assert resumed.encoder == whole.encoder
    assert resumed.provenance == whole.provenance
    assert packed(resumed.model) == packed(whole.model)
    assert "early" in resumed.encoder["target"]["classes"]


def test_a_stopped_learner_goes_on_from_the_same_model(capfdbinary, folder, plant, stopped):
    model = read(plant)
    plant.write_bytes(packed(model.model, model.encoder, {**model.provenance, "note": "other"}))
    code, _, errors = run(capfdbinary, *stopped, "--resume")
    assert code == 2
    assert f"--resume: {plant}.checkpoint is of a command with another model file" in errors


def test_categories_once_refused_may_be_taken_as_zero_but_not_the_reverse(
    capfdbinary, plant, stopped
):
    checkpoint = plant.with_name("plant.dirad.checkpoint")
    found = read(checkpoint)
    assert found.provenance["--unseen"] == "refuse"
    origin = {**found.provenance, "--unseen": "zero"}
    checkpoint.write_bytes(packed(found.model, found.encoder, origin))
    code, _, errors = run(capfdbinary, *stopped, "--resume")
    assert code == 2
    assert "another --unseen" in errors
    assert run(capfdbinary, *stopped, "--resume", "--unseen", "zero")[0] == 0


@pytest.mark.parametrize("row", [None, -1, True, "3", 10**400])
def test_a_checkpoint_must_say_where_it_stopped(capfdbinary, plant, stopped, row):
    checkpoint = plant.with_name("plant.dirad.checkpoint")
    found = read(checkpoint)
    origin = {**found.provenance, "row": row}
    checkpoint.write_bytes(packed(found.model, found.encoder, origin))
    code, _, errors = run(capfdbinary, *stopped, "--resume")
    assert code == 1
    assert errors == f"dirad: {checkpoint}: it does not say at which row it was stopped\n"
