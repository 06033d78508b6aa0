"""Every verdict says which kind of change a batch shows, and which inputs contradict most."""

import itertools

import numpy as np
import pytest

import dirad
from dirad import PREVALClassifier
from dirad.plot.data import Moment, moments_of
from dirad.plot.reasons import LETTERS_PER_INCH, ROWS, WIDTH, placed_reasons
from dirad.preval.cause import kind_of_change
from dirad.preval.events import MIXED, InputChange, Report
from dirad.report.page.stream import change_rows, timeline_data
from dirad.storage.codecs import ArrayStore
from dirad.storage.errors import ModelError
from dirad.storage.journal import Reports

NAMES = ["load", "pressure", "speed", "temperature"]
SIZE = 200


def known(rng, n):
    X = rng.normal(size=(n, 4))
    return X, (X[:, 0] + X[:, 1] > 0).astype(int)


def shifted(rng, n):
    X, y = known(rng, n)
    return X + 4.0 * (np.arange(4) == 3), y


def other_rule(rng, n):
    X, _ = known(rng, n)
    return X, (X[:, 2] - X[:, 0] > 0).astype(int)


def never_seen(rng, n):
    X, y = known(rng, n)
    return X + 9.0, y + 2


def both(rng, n):
    (X, y), (Z, z) = known(rng, n), never_seen(rng, n)
    first = rng.random(n) < 0.5
    return np.where(first[:, None], X, Z), np.where(first, y, z)


def partly_new(rng, n):
    X, y = known(rng, n)
    new = rng.random(n) < 0.4
    return np.where(new[:, None], X - 12.0, X), np.where(new, 7, y)


PARTS = [(known, 6), (shifted, 3), (known, 2), (never_seen, 3), (both, 1), (known, 1)]
PARTS += [(other_rule, 3), (known, 1), (partly_new, 1)]


@pytest.fixture(scope="module")
def stream():
    rng, found = np.random.default_rng(0), []
    clf = PREVALClassifier(random_state=0, buffer_size=600, steps_per_batch=100)
    for part, n in PARTS:
        clf.partial_fit(*part(rng, n * SIZE))
        found.append(clf.reports_[-n:])
    return clf, found


def test_each_kind_of_change_is_named(stream):
    _, parts = stream
    first = [part[0].verdict for part in parts[1:]]
    expected = ["shifted inputs", "back", "new inputs", "mixed", "known", "new rule", "back"]
    assert first == [*expected, "mixed"]
    assert [one.verdict for one in parts[2]] == ["back", "known"]
    said = [str(part[0]).split(" (")[0] for part in parts]
    assert said[2:3] + said[5:6] == ["back to 0", "known: 0"]
    assert said[4].startswith("mixed: 0")
    assert said[4].endswith(" and 2")
    assert said[8].startswith("mixed: 0")
    assert said[8].endswith(" and new inputs")


def test_a_report_names_the_inputs_in_their_units(stream):
    _, parts = stream
    moved = parts[1][0]
    assert moved.inputs[0].input == 3
    assert moved.inputs[0].found - moved.inputs[0].usual == pytest.approx(4.0, abs=0.5)
    assert moved.text(NAMES).startswith("shifted inputs (temperature: 4")
    rule = parts[6][0]
    assert "load: its effect differs by" in rule.text(NAMES)
    assert not any(one.inputs for one in parts[2])


def test_an_event_and_its_report_say_the_same(stream):
    clf, parts = stream
    opened = [event for event in clf.events_ if event.kind == "opened"][1:]
    by_batch = {one.batch: one for part in parts for one in part}
    for event in opened:
        report = by_batch[event.batch]
        assert event.evidence["cause"] == report.cause
        assert event.evidence["inputs"] == [list(one) for one in report.inputs]


def test_explain_says_of_which_task_a_batch_is(stream):
    clf, _ = stream
    rng = np.random.default_rng(1)
    clf = PREVALClassifier(random_state=0).set_params(**clf.get_params())._take(clf)
    latest = clf.reports_[-1].model
    assert clf.explain(*known(rng, SIZE)).text() == "back to 0"
    assert clf.explain(*both(rng, SIZE)).models[::2] == (0, 2)
    found = clf.explain(*partly_new(rng, SIZE))
    assert found.kind == "mixed"
    clf.partial_fit(*known(rng, SIZE))
    assert clf.explain(*known(rng, SIZE)).text() == "known: 0"
    assert latest != 0


def test_the_kind_by_two_tests():
    usual, none, nan = np.ones(3, bool), np.zeros(3, bool), float("nan")
    assert kind_of_change(0.2, 0.1, 1e-4, usual) == "new rule"  # the end of a batch
    assert kind_of_change(0.1, 0.2, 1e-4, none) == "shifted inputs"
    assert kind_of_change(1e-6, 1e-9, 1e-4, usual) == "new inputs"
    assert kind_of_change(0.1, nan, 1e-4, none) == "new inputs"


def test_reports_are_saved_with_their_reasons(stream, tmp_path):
    clf, _ = stream
    dirad.save(clf, tmp_path / "m.dirad")
    assert repr(dirad.load(tmp_path / "m.dirad").reports_) == repr(clf.reports_)


def test_reports_of_older_files_have_no_reasons():
    store = ArrayStore()
    change = InputChange(1, 0.0, 1.0, 1.0, 1.0, float("inf"))
    value = [Report(4, MIXED, 2, 0.5, "new rule", (change,), (0, 1)), Report(5, "known", 0, 0.1)]
    packed = Reports().pack(value, store, "r")
    assert Reports().unpack(packed, store, "r") == value
    said = store.get(packed["said"], "r")
    old = {"said": store.put("old", said[:, :3].copy()), "p": packed["p"]}
    assert Reports().unpack(old, store, "r") == [Report(4, MIXED, 2, 0.5), value[1]]
    odd = said.copy()
    odd[0, 3] = 9
    with pytest.raises(ModelError, match="no such change"):
        Reports().unpack(packed | {"said": store.put("odd", odd)}, store, "r")
    apart = np.array([[7, 0]])
    with pytest.raises(ModelError, match="without a report"):
        Reports().unpack(packed | {"models": store.put("apart", apart)}, store, "r")


@pytest.mark.parametrize("inches", [WIDTH, 4.0])
def test_reasons_in_a_picture_do_not_cover_each_other(inches):
    rng = np.random.default_rng(0)
    why = ["x" * int(rng.integers(5, 60)) if rng.random() < 0.3 else "" for _ in range(60)]
    moments = [
        Moment((1.0,), "new", i % 2, "", 0.0, cause="new rule", why=w) for i, w in enumerate(why)
    ]
    found, left_out = placed_reasons(moments, inches)
    assert len(found) + left_out == sum(map(bool, why))
    assert len(found) >= ROWS
    per_batch = LETTERS_PER_INCH * inches / len(moments)
    spans = {row: [] for row in range(ROWS)}
    for one in found:
        width = len(one.text) / per_batch
        begin = one.batch - width if one.on_left else one.batch
        assert begin >= 0
        assert begin + width <= len(moments)
        spans[one.row].append((begin, begin + width))
    for row in spans.values():
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(sorted(row)))


def test_the_timeline_and_the_page_show_kinds_and_reasons(stream):
    clf, parts = stream
    figure = dirad.plot.TimelineDisplay.from_estimator(clf).figure_
    lanes = [label.get_text() for axes in figure.axes for label in axes.get_yticklabels()]
    assert {"back", "new inputs", "shifted inputs", "new rule", "mixed"} <= set(lanes)
    assert "undecided" not in lanes
    written = [text.get_text().strip() for axes in figure.axes for text in axes.texts]
    assert moments_of(clf)[6].why in written
    data = timeline_data(clf, NAMES)
    assert data["verdict"][6] == "shifted inputs"
    assert "temperature: " in data["why"][6]
    rows = change_rows(clf, NAMES)
    assert rows[0]["verdict"] == "shifted inputs"
    assert rows[0]["why"].startswith("temperature")
    assert len(rows) == sum(one.verdict != "known" for part in parts[1:] for one in part)
