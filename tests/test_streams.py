"""Streams of every kind, a learner that follows them, and the numbers drawn from it."""

import dataclasses
import io
import itertools
import json
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from dirad import cli
from dirad.cli.stream import view_of
from dirad.datasets import Dataset
from dirad.plot.timeline import draw_timeline
from dirad.preval.events import Journal, ModelEvent, Report
from dirad.streams import detection, kinds, summary
from dirad.streams import run as streams
from dirad.streams.detection import MISSED, Part
from dirad.streams.follow import Moment, follow
from dirad.streams.kinds import KINDS, NEVER

EACH = 500  # training samples of a class


def toy():
    """Ten classes; an input names the sample, the other the class."""
    y = np.repeat(np.arange(10), EACH)
    X = np.stack([np.arange(len(y)), y], axis=1).astype(np.float32)
    return Dataset(X, y, X[::10], y[::10])


DATA = toy()


def lengths(stream):
    """Return (task, samples) of each run of samples of one task."""
    starts = [0, *(np.flatnonzero(np.diff(stream.task)) + 1).tolist(), len(stream.task)]
    return [(int(stream.task[a]), b - a) for a, b in itertools.pairwise(starts)]


# ------------------------------------------------------------------ streams


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "swapped"])
def test_samples_belong_to_their_tasks_and_come_once(kind):
    stream = KINDS[kind](DATA, 3, 400, 20, 7)
    assert stream.name == kind
    n = len(stream.y)
    assert n == stream.n_batches * 20 == len(stream.X) == len(stream.task) == len(stream.delay)
    assert np.array_equal(stream.X[:, 1], stream.y)
    assert len(stream.classes) == 3
    assert len({c for own in stream.classes for c in own}) == 6
    owner = {c: task for task, own in enumerate(stream.classes) for c in own}
    assert [owner[c] for c in stream.y.tolist()] == stream.task.tolist()
    assert [owner[c] for c in stream.y_test.tolist()] == stream.task_test.tolist()
    assert len(stream.y_test) == 6 * EACH / 10
    assert len(set(stream.X[:, 0].tolist())) == n
    assert stream.shares().shape == (stream.n_batches, 3)
    assert stream.shares().sum(axis=1) == pytest.approx(np.ones(stream.n_batches))


def test_swapped_tasks_show_the_same_inputs_with_other_labels():
    stream = kinds.swapped(DATA, 4, 200, 20, 7)
    assert stream.task[::200].tolist() == [0, 1, 2, 3, 0]
    assert stream.classes[0] == stream.classes[1] != stream.classes[2] == stream.classes[3]
    other = dict([stream.classes[0], stream.classes[2]])
    other |= {b: a for a, b in other.items()}
    true = stream.X[:, 1].astype(int).tolist()  # the data's own label
    expected = [other[c] if task % 2 else c for c, task in zip(true, stream.task, strict=True)]
    assert stream.y.tolist() == expected
    # The first rule came back; of the other two tasks the later one holds.
    true = stream.X_test[:, 1].astype(int).tolist()
    expected = [c if c in stream.classes[0] else other[c] for c in true]
    assert stream.y_test.tolist() == expected
    assert set(stream.task_test.tolist()) == {0, 3}


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_depends_on_its_seed_alone(kind):
    one, same, other = (KINDS[kind](DATA, 3, 200, 20, seed) for seed in (1, 1, 2))
    assert np.array_equal(one.X, same.X)
    assert np.array_equal(one.delay, same.delay)
    assert one.classes == same.classes
    assert not np.array_equal(one.X[: len(other.X)], other.X[: len(one.X)])
    assert one.classes != other.classes


def test_the_order_of_samples_depends_on_the_seed_too():
    whole = [kinds.abrupt(DATA, 1, 100, 20, seed, classes_per_task=10) for seed in (1, 2)]
    assert len(set(whole[0].X[:, 0].tolist()) & set(whole[1].X[:, 0].tolist())) < 20


def test_where_a_pool_is_used_up_it_is_shown_again():
    stream = kinds.abrupt(DATA, tasks=2, per_task=2500, batch_size=100)
    shown = np.bincount(stream.X[:, 0].astype(int), minlength=10 * EACH)
    of_first = shown[np.isin(DATA.y_train, stream.classes[0])]
    assert set(of_first.tolist()) == {2, 3}
    first_pass = stream.X[: 2 * EACH, 0].tolist()
    second_pass = stream.X[2 * EACH : 4 * EACH, 0].tolist()
    assert first_pass != second_pass
    assert sorted(first_pass) == sorted(second_pass)


def test_abrupt_tasks():
    stream = kinds.abrupt(DATA, tasks=5, per_task=210, batch_size=50)
    assert lengths(stream) == [(0, 210), (1, 210), (2, 210), (3, 210), (4, 210)]
    assert stream.n_batches == 21
    assert stream.shares()[4].tolist() == [0.2, 0.8, 0, 0, 0]
    assert not stream.delay.any()
    assert lengths(kinds.short(DATA, 2, 200))[0] == (0, 200)
    few = kinds.abrupt(DATA, tasks=3, per_task=100, batch_size=50, classes_per_task=3)
    assert [len(own) for own in few.classes] == [3, 3, 3]


def test_recurring_tasks_are_shown_with_other_samples():
    stream = kinds.recurring(DATA, per_task=200, batch_size=50)
    assert lengths(stream) == [(0, 200), (1, 200), (0, 200), (2, 200), (1, 200)]
    assert len(set(stream.X[:, 0].tolist())) == 1000
    stream = kinds.recurring(DATA, per_task=100, batch_size=50, order=(1, 0, 1))
    assert lengths(stream) == [(1, 100), (0, 100), (1, 100)]
    assert [t for t, _ in lengths(kinds.recurring(DATA, 4, 50, 50))] == [0, 1, 0, 2, 1, 3, 2]


def test_gradual_changes_rise_evenly():
    stream = kinds.gradual(DATA, tasks=3, per_task=600, batch_size=20, mixing=9)
    shares = stream.shares()
    assert shares[:26, 0].tolist() == [1.0] * 26
    assert shares[26:35, 1].tolist() == pytest.approx(np.arange(1, 10) / 10)
    assert shares[35:56, 1].tolist() == [1.0] * 21
    assert shares[56:65, 2].tolist() == pytest.approx(np.arange(1, 10) / 10)
    assert len(set(stream.task[30 * 20 : 31 * 20].tolist())) == 2
    changes = np.count_nonzero(np.diff(stream.task[30 * 20 : 31 * 20]))
    assert changes > 2  # shuffled within the batch
    short = kinds.gradual(DATA, tasks=2, per_task=200, batch_size=50, mixing=20).shares()
    assert np.count_nonzero(short.max(axis=1) < 1) == 2  # half of the four batches of a task


def test_early_changes_fall_anywhere():
    for seed in range(5):
        stream = kinds.early(DATA, tasks=4, per_task=500, batch_size=20, seed=seed)
        visits = lengths(stream)
        assert [task for task, _ in visits[:4]] == [0, 1, 2, 3]
        assert sorted(task for task, _ in visits[4:]) == [0, 1, 2, 3]
        assert all(100 <= n <= 500 for _, n in visits[:-1])
        assert any(n % 20 for _, n in visits)
    assert min(n for _, n in lengths(kinds.early(DATA, 2, 10, 20))[:-1]) == 60


def test_mixed_tasks_come_last_and_without_labels():
    stream = kinds.mixed(DATA, tasks=3, per_task=210, batch_size=20, deployed=10)
    assert stream.n_batches == 31 + 10
    assert not stream.delay[:620].any()
    assert (stream.delay[620:] == NEVER).all()
    shares = stream.shares()
    assert (shares[31:].max(axis=1) < 0.75).all()
    assert shares[31:].mean(axis=0) == pytest.approx([1 / 3] * 3, abs=0.12)


def test_labels_come_late_or_seldom():
    assert set(kinds.late_labels(DATA, 2, 200, 20, delay=70).delay.tolist()) == {70}
    delay = kinds.few_labels(DATA, 2, 600, 20, share=0.2).delay
    assert set(delay.tolist()) == {0, NEVER}
    assert np.mean(delay == 0) == pytest.approx(0.2, abs=0.03)


def test_what_cannot_be():
    with pytest.raises(ValueError, match="need 12 classes; the data have 10"):
        kinds.abrupt(DATA, tasks=6)
    with pytest.raises(ValueError, match="60 samples make no batch of 100"):
        kinds.abrupt(DATA, tasks=2, per_task=30, batch_size=100)


# ------------------------------------------------------------------ a learner that follows


class Fake:
    """Answers what it has labels of, opens a model per task, and writes down what it was given."""

    def __init__(self, n_inputs=2, n_classes=10, settings=None, seed=0, threads=1):
        self.models, self.journal = [], Journal()
        self.taught = set()  # classes
        self.labels, self.calls = [], []
        self.n_parameters = 7
        self.tasks = {}  # the model of each class

    def answer(self, X):
        right = X[:, 1].astype(int)
        known = [c if c in self.taught else (c + 1) % 10 for c in right.tolist()]
        return SimpleNamespace(outputs=np.eye(10)[known])

    def learn(self, X, y):
        batch = len(self.journal.reports)
        true = X[:, 1].astype(int).tolist()
        self.taught |= set(y[y >= 0].tolist())
        self.labels += y.tolist()
        new = not any(c in self.tasks for c in true)
        if new:
            self.models.append(SimpleNamespace(number=len(self.models), phase="stable"))
            self.journal.events.append(ModelEvent(batch, "opened", self.models[-1].number))
        found = {self.tasks.setdefault(c, len(self.models) - 1) for c in true}
        kind = "new" if new else "mixed" if len(found) > 1 else "known"
        model = -1 if kind == "mixed" else found.pop()
        self.journal.reports.append(Report(batch, kind, model, 0.5))

    def label(self, numbers, y):
        self.calls.append((len(self.journal.reports), numbers.tolist()))
        for number, label in zip(numbers.tolist(), y.tolist(), strict=True):
            assert self.labels[number] == -1
            self.labels[number] = label
        self.taught |= set(y.tolist())

    def finish(self, X, y):
        assert len(X) == len(y) == 0


def test_the_learner_is_asked_first_and_taught_then():
    stream = kinds.abrupt(DATA, tasks=2, per_task=100, batch_size=50)
    seen = []
    moments = follow(Fake(), stream, lambda moment, _: seen.append(moment))
    assert seen == moments
    assert [m.batch for m in moments] == [0, 1, 2, 3]
    assert np.isnan(moments[0].accuracy)
    assert [m.accuracy for m in moments[1:]] == [1.0, 0.0, 1.0]
    assert [m.verdict for m in moments] == ["new", "known", "new", "known"]
    assert [m.model for m in moments] == [0, 0, 1, 1]
    assert [m.models for m in moments] == [1, 1, 2, 2]
    assert [m.task for m in moments] == [0, 0, 1, 1]
    assert moments[2].shares == (0.0, 1.0)
    assert (moments[2].phase, moments[2].p) == ("stable", 0.5)


def test_late_labels_arrive_with_the_sample_that_is_so_much_later():
    stream = kinds.late_labels(DATA, tasks=2, per_task=100, batch_size=20, delay=30)
    learner = Fake()
    follow(learner, stream)
    assert learner.calls[0] == (2, list(range(10)))  # sample 9 + 30 is the last of batch 1
    assert learner.calls[1] == (3, list(range(10, 30)))
    assert learner.labels[:170] == stream.y[:170].tolist()
    assert learner.labels[170:] == [-1] * 30  # the stream was over
    same_batch = kinds.late_labels(DATA, tasks=2, per_task=100, batch_size=20, delay=5)
    learner = Fake()
    follow(learner, same_batch)
    assert learner.calls[0] == (2, list(range(15, 20)))  # others came with their own batch
    assert learner.labels[:195] == same_batch.y[:195].tolist()


def test_labels_that_never_come_are_never_given():
    stream = kinds.few_labels(DATA, tasks=2, per_task=100, batch_size=20)
    learner = Fake()
    follow(learner, stream)
    assert learner.calls == []
    assert learner.labels == np.where(stream.delay == 0, stream.y, -1).tolist()


# ------------------------------------------------------------------ numbers


def told(tasks, models, verdicts=None, accuracies=None):
    """Return moments of batches: the task of each (or shares), the model (· for none), the verdict.

    The letters of verdicts: known, new, mixed, learning.
    """
    names = {"k": "known", "n": "new", "m": "mixed", "l": "learning"}
    shares = [tuple(np.eye(4)[int(t)].tolist()) if isinstance(t, str) else t for t in tasks]
    verdicts = verdicts or "k" * len(shares)
    accuracies = accuracies or [1.0] * len(shares)
    return [
        Moment(i, share, a, names[v], -1 if m == "·" else int(m), "stable", float("nan"), 1)
        for i, (share, m, v, a) in enumerate(zip(shares, models, verdicts, accuracies, strict=True))
    ]


def opened(*batches):
    return [ModelEvent(batch, "opened", number) for number, batch in enumerate(batches)]


def test_a_perfect_learner():
    moments = told("000111000222", "000111000222", "nkknkkkkknkk")
    found = detection.detection(moments, opened(0, 3, 9))
    assert found == ([0, 0, 0], 0, 1, 0)
    assert found.missed == 0
    assert detection.precision_and_recall(moments) == (1.0, 1.0)


def test_a_learner_that_notices_nothing():
    moments = told("000111000", "000000000", "nllllllkk")
    found = detection.detection(moments, opened(0))
    assert found.delays == [MISSED, MISSED]
    assert (found.missed, found.false_alarms, found.reopened) == (2, 0, 0)
    precision, recall = detection.precision_and_recall(moments)
    assert np.isnan(precision)
    assert recall == 0.0


def test_delays_false_alarms_and_tasks_opened_again():
    #                0   4   8    12
    moments = told("0000" + "1111" + "0000" + "1111", "0002" + "2233" + "3344" + "4333")
    found = detection.detection(moments, opened(0, 1, 3, 6, 10))
    # Task 1 after two batches; task 0 after two, by a new model; task 1 goes home after one.
    assert found.delays == [2, 2, 1]
    assert found.false_alarms == 2  # at 1 and 3
    assert (found.recurrences, found.reopened) == (2, 1)
    # Said at 3, 6, 10, 13; true at 4, 8, 12.
    assert detection.precision_and_recall(moments) == (0.0, 0.0)
    home_first = told("00001111" + "0000", "00001111" + "0022")
    found = detection.detection(home_first, opened(0, 4, 10))
    assert (found.delays, found.false_alarms, found.reopened) == ([0, 0], 1, 0)


def test_a_task_that_was_missed_has_a_home_but_is_not_opened_again():
    moments = told("00112211", "00001100")  # task 1 was missed, and learned by model 0
    found = detection.detection(moments, opened(0, 4))
    assert found == ([MISSED, 0, 0], 0, 0, 0)
    moments = told("00112211", "00001122")
    found = detection.detection(moments, opened(0, 4, 6))
    assert found == ([MISSED, 0, 0], 0, 0, 0)


def test_a_model_that_was_merged_has_a_successor():
    moments = told("001122110", "001122000")
    merged = [*opened(0, 2, 4), ModelEvent(5, "merged", 0, {"model": 1})]
    assert [visit.home for visit in detection.visits(moments, merged)] == [-1, -1, -1, 0, 0]
    assert detection.detection(moments, merged).delays == [0, 0, 0, MISSED]
    removed = [*opened(0, 2, 4, 6), ModelEvent(5, "removed", 1)]
    found = detection.detection(told("00112211", "00112233"), removed)
    assert found == ([0, 0, 0], 0, 0, 0)  # there was nothing left to go back to
    assert detection.undone(merged) == detection.undone(removed) == 1


def test_gradual_changes():
    rising = [(1 - s, s, 0.0, 0.0) for s in (0.2, 0.4, 0.6, 0.8)]
    moments = told(["0", "0", *rising, "1", "1"], "00001111", "nkkmnkkk")
    assert detection.parts(moments) == [Part(0, 0, 1), Part(1, 2, 7)]
    assert detection.detection(moments, opened(0, 4)).delays == [2]
    # True: 2 to 5; said: 3 and 4.
    assert detection.precision_and_recall(moments) == (1.0, 0.5)


def test_tasks_mixed_for_good_are_no_part():
    mixed = [(0.5, 0.5, 0.0, 0.0), (0.4, 0.6, 0.0, 0.0), (0.6, 0.4, 0.0, 0.0)]
    moments = told(["0", "0", "1", "1", *mixed], "0011··2", "nknkmmn", [0.5, 1, 0, 1, 1, 0.5, 0])
    assert detection.parts(moments) == [Part(0, 0, 1), Part(1, 2, 3)]
    found = detection.detection(moments, opened(0, 2, 6))
    assert (found.delays, found.false_alarms) == ([0], 1)
    assert detection.precision_and_recall(moments) == (1.0, 1.0)
    assert detection.mixed_accuracy(moments) == 0.5
    assert np.isnan(detection.mixed_accuracy(moments[:4]))
    assert detection.mixed_accuracy(moments[4:]) == 0.5  # there is no part at all
    assert detection.prequential_accuracy(moments) == pytest.approx(4 / 7)
    nan_first = told("000", "000", "nll", [float("nan"), 0.5, 1.0])
    assert detection.prequential_accuracy(nan_first) == 0.75


def test_a_change_inside_a_batch_begins_with_it():
    moments = told(["0", "0", (0.6, 0.4, 0, 0), "1", "1"], "00011")
    assert detection.parts(moments) == [Part(0, 0, 1), Part(1, 2, 4)]
    assert detection.detection(moments, opened(0, 3)).delays == [1]


def test_a_new_task_that_goes_on_is_no_change():
    moments = told("000111", "000112", "nnnnnn")  # said at 3 and 5; true at 3
    assert detection.precision_and_recall(moments) == (0.5, 1.0)


def test_batches_that_no_model_takes_are_no_switch():
    moments = told("0001", "0·01", "nmkk")
    assert detection.switches(moments) == [False, False, False, True]
    moments = told("0011", "0·11", "nmkk")
    assert detection.switches(moments) == [False, False, True, False]


# ------------------------------------------------------------------ whole runs


@pytest.fixture
def faked(monkeypatch):
    monkeypatch.setattr(streams, "new_system", Fake)
    monkeypatch.setattr(streams, "source", lambda name: DATA)
    monkeypatch.setattr("dirad.cli.stream.warm_up", lambda *_: None)


@pytest.mark.usefixtures("faked")
def test_a_run():
    scores = streams.measure("recurring", seed=3, data="digits", tasks=2, per_task=400)
    assert (scores.kind, scores.data, scores.seed, scores.batches) == ("recurring", "digits", 3, 12)
    assert (scores.delays, scores.missed, scores.false_alarms) == ([0, 0], 0, 0)
    assert (scores.recurrences, scores.reopened, scores.undone) == (1, 0, 0)
    assert (scores.precision, scores.recall) == (1.0, 1.0)
    assert scores.prequential == pytest.approx(10 / 11)
    assert scores.accuracy == scores.finished == 1.0
    assert (scores.models, scores.parameters) == (2, 7)
    json.dumps(dataclasses.asdict(scores))
    mixed = streams.measure("mixed", data="digits", tasks=2, per_task=200)
    assert mixed.mixed == 1.0
    assert mixed.recall == 1.0


def test_streams_of_small_digits_are_shorter():
    stream = streams.new_stream("short", "digits", 0)
    assert (len(stream.y), stream.batch_size) == (5 * 400, 50)
    assert streams.new_stream("abrupt", "digits", 0, 2, 300).n_batches == 6


@pytest.mark.usefixtures("faked")
def test_tables_of_runs():
    found = streams.run_kind("recurring", data="digits", tasks=2, per_task=400)
    rows = summary.what_happened(found)
    assert [row["batches"] for row in rows] == ["0–3", "4–7", "8–11"]
    assert [row["by"] for row in rows] == ["a new model", "a new model", "model 0"]
    bad = dataclasses.replace(found.scores, seed=1, delays=[3, -1], missed=1, undone=1)
    rows = summary.table([found.scores, bad], summary.noticed)
    assert [row["seed"] for row in rows] == ["0", "1", "all 2"]
    assert [row["missed"] for row in rows] == ["0/2", "1/2", "1/4"]
    assert [row["delay"] for row in rows] == ["0.0 ± 0.0", "3.0", "1.0 ± 1.7"]
    assert rows[1]["models"] == "2 (1 undone)"
    assert rows[2]["re-opened"] == "0/2"
    assert "mixed" not in summary.table([found.scores], summary.answered)[0]
    assert "mixed" in summary.answered([found.scores])


@pytest.mark.usefixtures("faked")
def test_the_command(capsys, tmp_path):
    command = ("stream", "gradual", "--data", "digits", "--per-task", "400", "--seeds", "2")
    code = cli.run([*command, "--workers", "1", "--json", "--out", str(tmp_path)])
    text = capsys.readouterr().out
    assert code == 0
    record = json.loads(text)
    assert record == json.loads((tmp_path / "stream-gradual-digits.json").read_text("utf-8"))
    assert record["command"].startswith("dirad stream --kind gradual --data digits")
    assert [one["seed"] for one in record["runs"]] == [0, 1]
    noticed, answers, happened = record["sections"]
    assert [row["seed"] for row in noticed["rows"]] == ["0", "1", "all 2"]
    assert all(0 < float(row["test, at the end"][:5]) <= 1 for row in answers["rows"])
    assert len(happened["rows"]) == 5
    assert (tmp_path / "stream-gradual-digits-timeline.png").exists()


@pytest.mark.usefixtures("faked")
def test_the_command_for_all_kinds(capsys, tmp_path):
    command = ("stream", "--kind", "all", "--data", "digits", "--tasks", "3", "--per-task", "200")
    code = cli.run([*command, "--workers", "1", "--quiet", "--out", str(tmp_path)])
    assert (code, capsys.readouterr().out.strip()) == (0, str(tmp_path))
    record = json.loads((tmp_path / "stream-all-digits.json").read_text("utf-8"))
    assert [row["kind"] for row in record["sections"][0]["rows"]] == list(KINDS)
    assert len(list(tmp_path.glob("*-timeline.png"))) == len(KINDS)


def test_bad_arguments_of_the_command(capsys):
    for arguments, says in (
        (("--tasks", "6"), "--tasks"),
        (("--data", "letters"), "--data"),
        (("sudden",), "sudden"),
    ):
        assert cli.run(["stream", *arguments]) == 2
        assert says in capsys.readouterr().err
    assert cli.run(["stream", "--help"]) == 0
    assert "dirad stream gradual" in capsys.readouterr().out


def test_the_live_view_names_what_passes():
    stream = kinds.mixed(DATA, tasks=2, per_task=100, batch_size=20)
    moments = follow(Fake(), stream)
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(view_of(stream, moments))
    text = console.export_text()
    assert "mixed: batch 30 of 30, 2 models" in text
    assert "0000011111····" in text
    a, b = stream.classes[moments[-1].task]
    assert f"{a} and {b}" in text
    assert "none" in text


def test_the_timeline_shows_every_kind_of_moment(tmp_path):
    mixed = [(0.5, 0.5, 0.0, 0.0)] * 2
    moments = told(["0", "0", "1", "1", *mixed], "0011·2", "nlnkmn")
    events = [
        *opened(0, 2, 5),
        ModelEvent(2, "stable", 0),
        ModelEvent(6, "removed", 2),
        ModelEvent(4, "merged", 0, {"model": 1}),
    ]
    figure = draw_timeline(moments, [[3, 4], [5, 6], [0, 1], [2, 7]], events)
    figure.savefig(tmp_path / "timeline.png")
    assert len(figure.axes) == 4  # no probability was computed
    assert {t.get_text() for t in figure.axes[0].texts} >= {"3 and 4", "5 and 6"}
    with_p = [dataclasses.replace(m, p=0.5) for m in moments]
    assert len(draw_timeline(with_p, [[0]] * 4, events).axes) == 5
