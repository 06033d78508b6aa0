"""Several threads use one continual classifier: nothing crashes, and every answer is of one state.

Crashes would end the process, so that the stress runs in a process of its own.
"""

import copy
import os
import pickle
import subprocess
import sys
import threading
import time
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import dirad
from dirad import DIRADClassifier, PREVALClassifier
from dirad.estimators.transaction import locked
from dirad.storage.codecs import ArrayStore
from dirad.storage.model_file import packed

QUICK = {
    "batch_size": 50,
    "begin": 100,
    "buffer_size": 400,
    "steps_per_batch": 60,
    "modes": 2,
    "l0": {"max_steps": 300, "settle_steps": 40},
    "l1": {"settle_steps": 30},
    "n_jobs": 2,
    "random_state": 0,
}
CLASSES = 2  # of each task


def task(number: int, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return samples of one of several tasks, each with classes of its own."""
    rng = np.random.default_rng([number, seed])
    X = rng.normal(6.0 * number, 1.0, (n, 4))
    return X, CLASSES * number + (X[:, 0] + X[:, 1] > 12.0 * number)


class Stress:
    """Threads that learn from one classifier, and threads that ask it."""

    def __init__(self, seconds: float, folder: Path) -> None:
        self.deadline = time.monotonic() + seconds
        self.folder = folder
        self.model = PREVALClassifier(**QUICK).partial_fit(*task(0, 500, 0))
        self.faults: list[str] = []
        self.answers = 0

    def guarded(self, work, *args) -> None:
        """Repeat some work until the time is over, or until anything goes wrong."""
        turn = 0
        try:
            while time.monotonic() < self.deadline and not self.faults:
                work(turn, *args)
                turn += 1
        except Exception as error:
            self.faults.append(f"{work.__name__}: {type(error).__name__}: {error}")

    def learn(self, turn: int, offset: int) -> None:
        """Show the next part of a stream of three tasks; now and then finish, or label late."""
        X, y = task((turn // 6 + offset) % 3, 100, turn + 1000 * offset)
        if turn % 5 == 4:
            first = self.model.n_samples_seen_
            self.model.partial_fit(X)
            numbers = np.arange(first, first + 10)
            if offset == 0:  # the other thread's samples may have come in between
                self.model.label(numbers[:1], y[:1])
        else:
            self.model.partial_fit(X, y)
        if turn % 17 == 16:
            self.model.finish()
        if turn % 3 == 2:
            with suppress(ValueError):  # refused, which nobody who asks may notice
                self.model.partial_fit(np.full((5, 4), np.nan), y[:5])

    def ask(self, turn: int) -> None:
        """Ask every kind of question; each answer must be possible in one state."""
        X, _ = task(turn % 3, 20, turn)
        chances = self.model.predict_proba(X)
        self.must(np.allclose(chances.sum(axis=1), 1.0), "probabilities do not add up")
        self.must(np.isfinite(self.model.novelty(X)).all(), "novelty is not finite")
        self.must((self.model.route(X) >= 0).all(), "a sample has no model")
        known = np.array([0, 1, 2, 3, 4, 5])
        self.must(np.isin(self.model.predict(X), known).all(), "an answer is no class")
        self.must(len(self.model.classes_) >= CLASSES, "classes are missing")
        self.model.is_known(X)
        self.model.conflicts(X)
        str(self.model), self.model.n_parameters_, self.model.events_[-1:], self.model.reports_[-1:]
        self.answers += 1

    def keep(self, turn: int) -> None:
        """Save, load, copy and pickle; what comes back must answer."""
        path = self.folder / "stream.dirad"
        dirad.save(self.model, path)
        X, _ = task(0, 5, turn)
        for found in (dirad.load(path), pickle.loads(pickle.dumps(self.model))):
            self.must(np.allclose(found.predict_proba(X).sum(axis=1), 1.0), "a copy is broken")
        time.sleep(0.05)

    def must(self, right: bool, text: str) -> None:
        if not right:
            self.faults.append(text)

    def run(self) -> None:
        """Let two threads learn, two ask and one save; then compare what was learned first."""
        jobs = [(self.learn, 0), (self.learn, 1), (self.ask,), (self.ask,), (self.keep,)]
        threads = [threading.Thread(target=self.guarded, args=job) for job in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.must(self.answers > 0, "no question was answered")
        if self.faults:
            sys.exit("; ".join(self.faults))
        print(f"{self.answers} rounds of questions, {self.model.n_samples_seen_} samples")


def stress(seconds: float, folder: Path) -> subprocess.CompletedProcess:
    command = [sys.executable, str(Path(__file__).resolve()), str(seconds), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "seconds", [8.0, pytest.param(600.0, marks=pytest.mark.slow, id="ten minutes")]
)
def test_asking_while_learning_neither_crashes_nor_errs(tmp_path, seconds):
    done = stress(seconds, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


def test_answers_while_learning_are_those_of_the_state_before(monkeypatch):
    """A reader in the middle of a batch sees nothing of it."""
    model = PREVALClassifier(**QUICK).partial_fit(*task(0, 400, 0))
    X, _ = task(0, 30, 1)
    before = model.predict_proba(X)
    seen = []
    take = type(model._state.system).learn_batch

    def watched(system, *batch):
        report = take(system, *batch)
        seen.append((model.predict_proba(X), len(model.models_), model.n_samples_seen_))
        return report

    monkeypatch.setattr(type(model._state.system), "learn_batch", watched)
    model.partial_fit(*task(1, 200, 2))
    assert len(seen) == 4
    for chances, models, samples in seen:
        assert np.array_equal(chances, before)
        assert (models, samples) == (1, 400)
    assert len(model.models_) == 2
    assert model.n_samples_seen_ == 600


def test_a_saved_file_is_of_one_state(monkeypatch):
    """Another thread may learn between the parts that are written."""
    model = PREVALClassifier(**QUICK).partial_fit(*task(0, 330, 0))
    before = packed(model)
    put = ArrayStore.put

    def learning(store, *array):
        monkeypatch.setattr(ArrayStore, "put", put)
        model.partial_fit(*task(1, 120, 1))
        return put(store, *array)

    monkeypatch.setattr(ArrayStore, "put", learning)
    assert packed(model) == before
    assert model.n_samples_seen_ == 450


def test_threads_that_learn_wait_for_each_other():
    """Two halves of a stream, learned by two threads, are learned one after the other."""
    parts = [task(0, 200, 1), task(0, 200, 2)]
    together = PREVALClassifier(**QUICK)
    threads = [threading.Thread(target=together.partial_fit, args=part) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    X, _ = task(0, 50, 3)
    found = together.finish().predict_proba(X)
    orders = (parts, parts[::-1])
    possible = []
    for order in orders:
        model = PREVALClassifier(**QUICK)
        for part in order:
            model.partial_fit(*part)
        possible.append(model.finish().predict_proba(X))
    assert any(np.array_equal(found, answers) for answers in possible)


def test_two_threads_may_resume_one_fit():
    """The steps of both are taken, one thread after the other."""
    X, y = task(0, 300, 0)
    model = DIRADClassifier(random_state=0).fit(X, y, steps=10)
    threads = [
        threading.Thread(target=model.resume, args=(X, y), kwargs={"steps": 20}) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert model.n_steps_ == 50
    alone = DIRADClassifier(random_state=0).fit(X, y, steps=50)
    assert np.array_equal(model.predict_proba(X), alone.predict_proba(X))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_does_not_wait_for_threads_it_has_not(monkeypatch):
    """A child of a process in which another thread learns can learn by itself."""
    model = PREVALClassifier(**QUICK).partial_fit(*task(0, 300, 0))
    inside, may_go_on = threading.Event(), threading.Event()
    take = type(model._state.system).learn_batch

    def slow(system, *batch):
        inside.set()
        may_go_on.wait(60)
        return take(system, *batch)

    monkeypatch.setattr(type(model._state.system), "learn_batch", slow)
    thread = threading.Thread(target=model.partial_fit, args=task(0, 50, 1))
    thread.start()
    assert inside.wait(60)
    child = os.fork()
    if child == 0:
        with locked(model):
            os._exit(0)
    deadline = time.monotonic() + 60
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if time.monotonic() > deadline:
            os.kill(child, 9)
            pytest.fail("the child waits for ever")
        time.sleep(0.01)
    may_go_on.set()
    thread.join()
    assert model.n_samples_seen_ == 350


def test_copies_go_their_own_way():
    """A deep copy shares nothing with the original, and learns as it would have."""
    model = PREVALClassifier(**QUICK).partial_fit(*task(0, 300, 0))
    other = copy.deepcopy(model)
    X, _ = task(0, 30, 1)
    before = model.predict_proba(X)
    other.partial_fit(*task(0, 200, 2))
    assert np.array_equal(model.predict_proba(X), before)
    model.partial_fit(*task(0, 200, 2))
    assert np.array_equal(model.predict_proba(X), other.predict_proba(X))


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # late labels
    Stress(float(sys.argv[1]), Path(sys.argv[2])).run()
