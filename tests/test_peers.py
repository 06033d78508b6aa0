"""The peers: right on what they can do, and the same from one batch as from many."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from scipy.special import log_softmax
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from experiments.baselines.perceptron import start
from experiments.metrics import forgetting, novelty_auroc, novelty_fpr95, purity
from experiments.peers import (
    EWC,
    AdwinDetector,
    Balanced,
    ClassGaussians,
    FineTuned,
    Gaussian,
    GDumb,
    HoeffdingTree,
    Joint,
    Moments,
    NearestMean,
    Peer,
    RandomFeatures,
    Replay,
    Reservoir,
    StreamingLDA,
    TaskGaussians,
    Training,
)
from experiments.peers.gradient import fisher

PEERS = {
    "nearest mean": (NearestMean, 0.88),
    "class Gaussians": (ClassGaussians, 0.95),
    "streaming LDA": (StreamingLDA, 0.93),
    "random features": (lambda n: RandomFeatures(n, 500), 0.93),
}


MANY = Training(n_hidden=100, rate=0.3, minibatch=10, passes=5)  # digits are few: 900 to learn from
GRADIENT = {
    "fine-tuned": lambda seed=0: FineTuned(64, 10, MANY, seed),
    "EWC": lambda seed=0: EWC(64, 10, MANY, strength=10.0, seed=seed),
    "replay": lambda seed=0: Replay(64, 10, 200, MANY, seed),
    "GDumb": lambda seed=0: GDumb(64, 10, 200, seed=seed),
    "joint": lambda seed=0: Joint(64, 10, Training(100, 0.01, 32, 10), seed),
}
PARAMETERS = 65 * 100 + 101 * 10  # of a perceptron with 100 hidden units


def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16, y


def halves():
    """Even rows of the digits to learn from, odd ones held out."""
    X, y = digits()
    return X[::2], y[::2], X[1::2], y[1::2]


def in_tasks(peer: Peer, *, tell: bool = False) -> Peer:
    """Teach five tasks of two digits, in batches of 50."""
    X, y, _, _ = halves()
    for task in range(5):
        rows = np.flatnonzero(y // 2 == task)
        for part in np.array_split(rows, -(-len(rows) // 50)):
            peer.learn(X[part], y[part])
        if tell:
            peer.new_task()
    return peer


def shuffled(peer: Peer) -> Peer:
    """Teach all digits at once, in batches of 50."""
    X, y, _, _ = halves()
    for part in np.array_split(np.random.default_rng(0).permutation(len(y)), 18):
        peer.learn(X[part], y[part])
    return peer


def accuracy(peer: Peer) -> float:
    _, _, X, y = halves()
    return float(np.mean(peer.predict(X) == y))


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6))
def test_moments_of_batches_are_those_of_all(sizes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(sum(sizes), 3)) * [1, 2, 3] + [5, 0, -1]
    moments, start = Moments(3), 0
    for size in sizes:
        moments.add(X[start : start + size])
        start += size
    if len(X) > 1:
        assert moments.mean == pytest.approx(X.mean(axis=0))
        assert moments.covariance(0.0) == pytest.approx(np.cov(X.T), abs=1e-9)


def test_a_gaussian_has_the_density_it_should():
    from scipy.stats import multivariate_normal

    rng = np.random.default_rng(0)
    moments = Moments(3)
    moments.add(rng.normal(size=(500, 3)) @ rng.normal(size=(3, 3)))
    X = rng.normal(size=(20, 3))
    density = multivariate_normal(moments.mean, moments.covariance(0.1)).logpdf(X)
    constant = 3 * np.log(2 * np.pi)
    assert Gaussian(moments, 0.1).neg_log_density(X) + constant == pytest.approx(-2 * density)


@pytest.mark.parametrize("name", PEERS)
def test_one_class_after_the_other_is_no_harder_than_all_at_once(name):
    X, y = digits()
    fit, held = np.arange(0, len(X), 2), np.arange(1, len(X), 2)
    make, least = PEERS[name]
    sorted_, together = make(64), make(64)
    together.learn(X[fit], y[fit])
    for digit in range(10):
        some = fit[y[fit] == digit]
        sorted_.learn(X[some[:40]], y[some[:40]])
        sorted_.learn(X[some[40:]], y[some[40:]])
    answers = sorted_.predict(X[held])
    assert np.mean(answers == together.predict(X[held])) > 0.999
    assert np.mean(answers == y[held]) > least
    assert sorted_.n_stored == together.n_stored > 64
    assert sorted_.n_samples_stored == 0


def test_streaming_lda_is_lda():
    X, y = digits()
    ours = StreamingLDA(64, shrinkage=1e-6)
    ours.learn(X, y)
    theirs = LinearDiscriminantAnalysis(solver="lsqr", priors=np.full(10, 0.1)).fit(X, y)
    assert np.mean(ours.predict(X) == theirs.predict(X)) > 0.995


def test_a_gaussian_per_task_finds_the_tasks():
    rng = np.random.default_rng(0)
    peer = TaskGaussians(8)
    shifts = rng.normal(0, 3, (3, 2, 8))
    for task in (0, 1, 2, 0):
        for _ in range(20):
            y = rng.integers(0, 2, 100)
            peer.learn(shifts[task, y] + rng.normal(size=(100, 8)), y + 2 * task)
    assert peer.opened == [0, 20, 40]
    assert peer.n_samples_stored == 8000
    y = rng.integers(0, 2, 100)
    peer.learn(shifts[0, y] + rng.normal(size=(100, 8)), y)
    assert peer.n_samples_stored == 4000  # the first task had all it is fitted on
    for task in range(3):
        y = rng.integers(0, 2, 200)
        X = shifts[task, y] + rng.normal(size=(200, 8))
        assert np.mean(peer.route(X) == task) > 0.95
        assert np.mean(peer.predict(X) == y + 2 * task) > 0.9


@pytest.mark.parametrize("name", GRADIENT)
def test_a_perceptron_learns_shuffled_digits(name):
    assert accuracy(shuffled(GRADIENT[name]())) > (0.85 if name == "GDumb" else 0.9)


def test_who_forgets():
    found = {name: accuracy(in_tasks(make())) for name, make in GRADIENT.items()}
    assert found["fine-tuned"] < 0.25
    assert found["EWC"] == found["fine-tuned"]  # told of no task
    assert found["replay"] > 0.8
    assert found["GDumb"] > 0.85
    assert found["joint"] > 0.93


@pytest.mark.parametrize("name", GRADIENT)
def test_a_perceptron_is_the_same_for_the_same_seed(name):
    _, _, X, _ = halves()
    first, again, other = (in_tasks(GRADIENT[name](seed)).predict(X) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_what_a_perceptron_keeps():
    n = {name: in_tasks(make()) for name, make in GRADIENT.items()}
    samples = {name: peer.n_samples_stored for name, peer in n.items()}
    assert samples == {"fine-tuned": 0, "EWC": 899, "replay": 200, "GDumb": 200, "joint": 899}
    stored = {name: peer.n_stored for name, peer in n.items()}
    assert stored == {
        "fine-tuned": PARAMETERS,
        "EWC": 3 * PARAMETERS + 899 * 64,
        "replay": PARAMETERS + 200 * 65,
        "GDumb": 65 * 200 + 201 * 10 + 200 * 65,
        "joint": PARAMETERS + 899 * 65,
    }


def test_a_batch_is_passed_once_unless_said_otherwise(monkeypatch):
    X, y, _, _ = halves()
    for training, passes in ((None, 1), (MANY, 5)):
        peer = FineTuned(64, 10) if training is None else FineTuned(64, 10, training)
        seen = []
        monkeypatch.setattr(peer.net, "step", lambda some, labels, seen=seen: seen.append(some))
        peer.learn(X[:95], y[:95])
        assert len(seen) == 10 * passes
        rows = np.concatenate(seen)
        np.testing.assert_array_equal(
            np.sort(rows.sum(axis=1)), np.sort(np.repeat(X[:95].astype("f4").sum(axis=1), passes))
        )


def test_fisher_is_that_of_a_loop_over_samples_and_labels():
    rng = np.random.default_rng(0)
    network = start(4, 5, 3, rng)
    X = rng.normal(size=(6, 4)).astype(np.float32)
    ends = np.cumsum([view.size for view in network[1:5]])[:-1]

    def log_p(values, x):
        W, V, b, c = (
            part.reshape(like.shape)
            for part, like in zip(np.split(values, ends), network[1:5], strict=True)
        )
        return log_softmax(np.maximum(x @ W + b, 0) @ V + c)

    values = network.values.astype(np.float64)
    expected = np.zeros(len(values))
    for x in X.astype(np.float64):
        slopes = approx_fprime(values, log_p, 1e-7, x)  # (labels, values)
        for p, slope in zip(np.exp(log_p(values, x)), slopes, strict=True):
            expected += p * slope**2 / len(X)
    np.testing.assert_allclose(fisher(network, X), expected, rtol=1e-3, atol=1e-5)


def test_the_penalty_of_ewc_is_the_slope_of_its_parabola():
    peer = EWC(64, 10, MANY, strength=5.0)
    X, y, _, _ = halves()
    peer.learn(X[:100], y[:100])
    assert not peer.penalty_gradient().any()
    peer.new_task()
    assert peer.n_samples_stored == 0
    np.testing.assert_array_equal(
        peer.importance, fisher(peer.net.network, X[:100].astype(np.float32))
    )
    assert not peer.penalty_gradient().any()  # at its anchor
    anchor, rng = peer.anchor.astype(np.float64), np.random.default_rng(0)
    values = anchor + rng.normal(0, 0.1, anchor.shape)
    peer.net.network.values[:] = values
    slope = peer.penalty_gradient()

    def penalty(v):
        return 5.0 / 2 * np.sum(peer.importance * (v - anchor) ** 2)

    for place in (*peer.importance.argsort()[-3:], *rng.integers(0, len(values), 3)):
        ahead, behind = values.copy(), values.copy()
        ahead[place] += 1e-4
        behind[place] -= 1e-4
        assert slope[place] == pytest.approx((penalty(ahead) - penalty(behind)) / 2e-4, abs=1e-6)


def test_ewc_holds_the_weights_that_mattered():
    free, held = EWC(64, 10, MANY, strength=0.0), EWC(64, 10, MANY, strength=100.0)
    X, y, _, _ = halves()
    one, two = y < 2, (y >= 2) & (y < 4)
    for peer in (free, held):
        peer.learn(X[one], y[one])
        peer.new_task()
        peer.learn(X[two], y[two])
    moved = [np.abs(peer.net.network.values - peer.anchor) for peer in (free, held)]
    np.testing.assert_array_equal(free.anchor, held.anchor)
    mattered = held.importance > np.quantile(held.importance, 0.99)
    idle = held.importance == 0
    assert moved[1][mattered].mean() < 0.5 * moved[0][mattered].mean()
    assert moved[1][idle].mean() > 0.5 * moved[0][idle].mean() > 0


def test_ewc_keeps_a_bounded_number_of_samples_and_the_latest():
    peer = EWC(64, 10, MANY, n_samples=70)
    X, y, _, _ = halves()
    for seen in (50, 100, 150, 200):
        peer.learn(X[seen - 50 : seen], y[seen - 50 : seen])
        assert peer.n_samples_stored == min(seen, 70)
    np.testing.assert_array_equal(peer.recent, X[130:200].astype(np.float32))
    peer.new_task()
    importance = peer.importance.copy()
    peer.new_task()  # nothing came in between
    np.testing.assert_array_equal(peer.importance, importance)
    peer.learn(X[:50], y[:50])
    peer.new_task()
    latest = fisher(peer.net.network, X[:50].astype(np.float32))
    np.testing.assert_array_equal(peer.importance, importance + latest)


def test_a_strong_penalty_does_not_throw_weights_about():
    peer = in_tasks(EWC(64, 10, MANY, strength=1e9), tell=True)
    assert np.abs(peer.net.network.values).max() < 10


@given(st.lists(st.integers(0, 60), max_size=6), st.integers(1, 40))
def test_a_reservoir_keeps_its_bound_and_pairs(sizes, size):
    memory, seen = Reservoir(size, 1, np.random.default_rng(0)), 0
    for n in sizes:
        number = np.arange(seen, seen + n)
        memory.add(number[:, None], number)
        seen += n
        assert len(memory) == min(seen, size)
    kept, labels = memory.draw(size)
    np.testing.assert_array_equal(kept[:, 0], labels)
    assert len(set(labels.tolist())) == min(seen, size)
    assert set(labels.tolist()) <= set(range(seen))


def test_a_reservoir_keeps_each_sample_equally_often():
    rng = np.random.default_rng(0)
    times = np.zeros(60)
    for _ in range(3000):
        memory = Reservoir(12, 1, rng)
        for part in np.split(np.arange(60), [5, 14, 40]):
            memory.add(part[:, None], part)
        times[memory.y] += 1
    # 3,000 × 12 / 60 each; the variance of a draw without replacement is 0.2 · 0.8
    z = (times - 600) / np.sqrt(3000 * 0.2 * 0.8)
    assert np.abs(z).max() < 4
    assert 0.6 < z.var() < 1.5


def test_the_memory_of_gdumb_is_balanced():
    rng = np.random.default_rng(0)
    memory = Balanced(100, 1, 10, rng)
    for label in range(10):
        for n in (100, 7, 50):
            memory.add(np.full((n, 1), label), np.full(n, label))
            counts = memory.counts[: label + 1]
            assert len(memory) == 100
            assert counts.max() - counts.min() <= 1
            np.testing.assert_array_equal(np.bincount(memory.y, minlength=10), memory.counts)
            np.testing.assert_array_equal(memory.X[:, 0], memory.y)
    assert not memory.add(np.zeros((20, 1)), np.arange(20) % 10)


@pytest.mark.parametrize("name", ["GDumb", "joint"])
def test_an_answer_knows_of_the_latest_batch(name):
    X, y, _, _ = halves()
    peer = GRADIENT[name]()
    peer.learn(X[y < 5], y[y < 5])
    assert peer.predict(X).max() < 5
    peer.learn(X[y >= 5], y[y >= 5])
    assert np.mean(peer.predict(X[y >= 5]) >= 5) > 0.8


def test_gdumb_trains_anew_only_when_its_memory_changed():
    peer = shuffled(GDumb(64, 10, 50))
    _, _, X, y = halves()
    peer.predict(X)
    network = peer.fresh.network
    peer.learn(X[:100], y[:100])  # every class has its share already
    answers = peer.predict(X)
    assert peer.fresh.network is network
    peer.fresh.forget()
    np.testing.assert_array_equal(peer.predict(X), answers)
    assert peer.fresh.network is not network


def test_a_hoeffding_tree_learns_and_counts_what_it_keeps():
    pytest.importorskip("river")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 3))
    y = (X[:, 1] > 0.5).astype(int)
    peer = HoeffdingTree("mc")
    assert peer.n_stored == 0
    peer.learn(X[:100], y[:100])
    assert peer.n_stored == 2 + 3 * 2 * 5  # one leaf
    peer.learn(X[100:], y[100:])
    assert peer.tree.n_branches >= 1
    assert peer.n_stored > 32
    assert peer.n_samples_stored == 0
    assert np.mean(peer.predict(X) == y) > 0.9
    again = HoeffdingTree("mc")
    again.learn(X, y)
    np.testing.assert_array_equal(peer.predict(X), again.predict(X))


def test_a_hoeffding_tree_learns_shuffled_digits():
    pytest.importorskip("river")
    assert accuracy(shuffled(HoeffdingTree())) > 0.7


def test_adwin_says_in_which_batch_errors_rise():
    pytest.importorskip("river")
    rng = np.random.default_rng(0)
    detector = AdwinDetector()
    rates = [0.1] * 20 + [0.6] * 10
    seen = [batch for batch, rate in enumerate(rates) if detector.watch(rng.random(100) < rate)]
    assert seen[:1] == [20]


def test_without_river_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "river.tree", None)
    monkeypatch.setitem(sys.modules, "river.drift", None)
    for make in (HoeffdingTree, AdwinDetector):
        with pytest.raises(ImportError, match=r"dirad\[river\]"):
            make()


def test_metrics_at_their_edges():
    assert np.isnan(forgetting([[1.0]]))
    assert purity([0, 1], [4, 4]) == 0.5
    rng = np.random.default_rng(0)
    known, new = rng.normal(size=3000), rng.normal(2, size=3000)
    assert novelty_auroc(known, new) == pytest.approx(0.921, abs=0.01)
    assert novelty_fpr95(known, new) == pytest.approx(0.361, abs=0.04)
    assert novelty_fpr95(new, known) > 0.99
