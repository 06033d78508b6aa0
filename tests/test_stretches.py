"""Where the order of samples matters, what is held out are stretches, not single samples."""

import itertools

import numpy as np
import pytest
from scipy.signal import lfilter

import dirad
from dirad import PREVALClassifier, PREVALRegressor
from dirad.preval.buffer import Buffer
from dirad.preval.calibration import RARE_CLASS_KEY, calibrate
from dirad.preval.dependence import Memory
from dirad.preval.stretches import LONGEST, MIN_STRETCHES, in_stretch, length_for
from dirad.storage.model_file import packed

SMALL = {"random_state": 0, "buffer_size": 1000, "steps_per_batch": 20, "batch_size": 100}


def inputs(n, phi, seed=0):
    noise = np.random.default_rng(seed).normal(size=(n, 3)) * np.sqrt(1.0 - phi**2)
    return lfilter([1.0], [1.0, -phi], noise, axis=0)


def learned(phi, n=800, **options):
    X = inputs(n, phi)
    return PREVALClassifier(**SMALL | options).partial_fit(X, X[:, 0] > 0)


def stretches(held):
    return [len(list(run)) for is_held, run in itertools.groupby(held) if is_held]


def filled(n, size=2000, **options):
    buffer = Buffer(1, size, 0.1, 0, **options)
    buffer.add(np.arange(n)[:, None] * 1.0, np.zeros(n, int), np.arange(n))
    return buffer


@pytest.mark.parametrize("length", [1.0, 7.0, 30.0, 1000.0])
def test_stretches_have_their_length_and_share(length):
    held = [in_stretch(i, 3, 0.1, length) for i in range(6400)]
    assert len(stretches(held[:200])) >= MIN_STRETCHES
    assert sum(held[:200]) == pytest.approx(40, abs=5)
    assert sum(held[200:]) == pytest.approx(620, rel=0.1)
    longest = min(length, 0.1 * 3200 / MIN_STRETCHES)
    assert max(stretches(held)) <= max(2 * longest, 11)  # two may follow each other
    assert np.median(stretches(held[3200:])) == pytest.approx(longest, abs=1)


def test_nothing_is_held_out_with_a_share_of_0():
    assert not any(in_stretch(i, 0, 0.0, 20.0) for i in range(500))


def test_a_buffer_changes_once_from_samples_to_stretches():
    buffer = filled(1000)
    assert max(stretches(buffer.held_out)) < 10
    assert buffer.hold_out_stretches(20.0)
    assert stretches(buffer.held_out)[-1] == 20
    assert buffer.shown == [np.count_nonzero(~buffer.drawn_out), np.count_nonzero(buffer.drawn_out)]
    before = buffer.drawn_out.copy()
    assert not buffer.hold_out_stretches(50.0)
    buffer.add(np.zeros((200, 1)), np.zeros(200, int), np.arange(1000, 1200))
    assert np.array_equal(buffer.drawn_out[:1000], before)
    assert np.array_equal(buffer.drawn_out, filled(1200, stretch=20.0).drawn_out)


def test_a_buffer_that_has_lost_samples_stays_as_it_is():
    assert not filled(600, size=500).hold_out_stretches(20.0)
    assert not filled(40).hold_out_stretches(20.0)  # nothing is held out of so few


def test_stretches_are_held_out_of_a_stream_that_turns_out_to_be_dependent():
    buffer = learned(phi=0.98)._stream.system.learners[0].buffer
    assert buffer.stretch > 4
    assert np.mean(stretches(buffer.held_out)) > 3


def test_there_is_one_stretch_in_each_autocorrelation_time():
    assert length_for(200.0, 0.1) == 20.0
    assert length_for(5.0, 0.1) == 1.0
    assert length_for(1e6, 0.1) == LONGEST
    held = [in_stretch(i, 0, 0.1, length_for(200.0, 0.1)) for i in range(3200, 6400)]
    assert len(stretches(held)) == pytest.approx(3200 / 200, abs=1)


def test_independent_samples_are_held_out_one_by_one():
    learner = learned(phi=0.0)._stream.system.learners[0]
    assert learner.buffer.stretch == 0
    assert np.mean(stretches(learner.buffer.held_out)) < 2


def test_the_user_may_say_whether_the_order_matters():
    yes = learned(phi=0.0, n=400, order_matters=True)._stream.system.learners[0]
    assert len(stretches(yes.buffer.held_out)) < 0.3 * yes.buffer.held_out.sum()
    no = learned(phi=0.9, n=400, order_matters=False)._stream.system
    assert no.models[0].buffer.stretch == 0
    assert all(model.calibration.memory == Memory() for model in no.calibrated)
    assert PREVALRegressor(order_matters=True, **SMALL).get_params()["order_matters"] is True
    for odd in ("yes", 1, 0.0):
        with pytest.raises(ValueError, match="order_matters must be"):
            learned(phi=0.0, n=100, order_matters=odd)


def test_l0_learns_no_held_out_sample(monkeypatch):
    taught = []
    learner = learned(phi=0.9, n=300)._stream.system.learners[0]
    advance = type(learner.l0).advance

    def noted(self, X, y, *rest):
        taught.append(X.copy())
        return advance(self, X, y, *rest)

    monkeypatch.setattr(type(learner.l0), "advance", noted)
    learner.finish()
    assert learner.buffer.stretch
    held = learner.scaling.standardize_and_clip(learner.buffer.X[learner.buffer.held_out])
    rows = {tuple(row) for row in held.tolist()}
    assert taught
    assert not rows & {tuple(row) for row in np.concatenate(taught).tolist()}


def test_a_stream_with_stretches_goes_on_from_a_file(tmp_path):
    X = inputs(900, 0.9)
    y = X[:, 0] > 0
    first = PREVALClassifier(**SMALL).partial_fit(X[:500], y[:500])
    assert first._stream.system.learners[0].buffer.stretch
    dirad.save(first, tmp_path / "m.dirad")
    again = dirad.load(tmp_path / "m.dirad").partial_fit(X[500:], y[500:])
    assert packed(again) == packed(first.partial_fit(X[500:], y[500:]))


def test_few_independent_stretches_make_the_tests_careful():
    rng = np.random.default_rng(0)
    counts = {0: (0.0, 50.0), 1: (0.0, 50.0), RARE_CLASS_KEY: (0.0, 900.0)}
    known = calibrate(rng.normal(size=100), np.zeros(100, int), 1, counts)
    known = known._replace(memory=Memory(10.0, 5.0, 10.0), n_learned=1000)
    stretches = known._replace(stretch=50.0)
    assert (known.n_calibrating, stretches.n_calibrating) == (100.0, 20.0)
    assert known._replace(stretch=2.0).n_calibrating == 50.0
    rows = np.array([200])
    assert stretches.standard_error_of_mean(rows) > known.standard_error_of_mean(rows)
    y, wrong = np.zeros(200, int), np.arange(200) < 60
    assert stretches.p_labels(y, wrong) > 10 * known.p_labels(y, wrong)
