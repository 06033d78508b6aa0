"""A stream's learner: the same records lead to the same state, whatever happened in between."""

import numpy as np
import pytest

from dirad import PREVALClassifier
from dirad.serve import records
from dirad.serve.answers import Answers
from dirad.serve.children import Child, ChildDied
from dirad.serve.errors import Refused
from dirad.serve.learner import Progress, StreamLearner
from dirad.serve.reading import Body, Reader
from dirad.serve.rendering import render
from dirad.serve.specification import Specification
from dirad.storage.model_file import packed, read_bytes

CLASSES = Specification.from_json({"kind": "classifier", "columns": ["u", "v"]})
NUMBERS = Specification.from_json({"kind": "regressor", "columns": ["u", "v"]})


def rows(n, shift=0.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) + shift
    return X, (X[:, 0] > X[:, 1]).astype(int)


def stream_of(regressor=False):
    """Records of all kinds: samples with and without labels, late labels, an end, a removal."""
    found = []
    for i, (n, shift) in enumerate([(150, 0), (1033, 0), (1, 0), (420, 8), (230, 8), (90, 0)]):
        X, y = rows(n, shift, i)
        y = X.sum(axis=1) if regressor else y
        labels = [None if k % 5 == 0 else v for k, v in enumerate(y.tolist())]
        found.append(records.samples(X, labels if i != 2 else None))
    label = 1.5 if regressor else 1
    found.insert(4, records.late_labels([1300, 1305], [label, label]))
    return [*found, records.finish()]


def carried_out(learner, found, first=0):
    events = []
    for i, record in enumerate(found):
        events += learner.carry_out(first + i + 1, record.kind, record.payload)
    return events


@pytest.mark.parametrize("specification", [CLASSES, NUMBERS], ids=["classes", "numbers"])
def test_state_is_the_same_after_restarts(specification):
    found = stream_of(specification is NUMBERS)
    whole = StreamLearner(specification)
    events = carried_out(whole, found)
    assert [event["number"] for event in events] == list(range(len(events)))
    assert any(event["alarm"] for event in events)
    for stop in (1, 3, 5, len(found) - 1):
        first = StreamLearner(specification)
        carried_out(first, found[:stop])
        second = StreamLearner(specification, first.state())
        assert second.progress.seq == stop
        carried_out(second, found[stop:], stop)
        assert second.state() == whole.state()


def test_a_stream_with_gaps_and_categories_is_shown_by_the_names_of_its_inputs():
    fluid = {"name": "fluid", "kind": "category", "categories": ["oil", "water"], "other": True}
    columns = ["flow", {"name": "heat", "gaps": True}, fluid]
    described = Specification.from_json({"kind": "detector", "columns": columns})
    learner, rng = StreamLearner(described), np.random.default_rng(0)
    for part in range(6):
        X = np.column_stack([rng.normal(size=(500, 2)), np.eye(3)[rng.integers(0, 2, 500)]])
        if part > 3:
            X[rng.random(500) < 0.5, 1] = np.nan
        record = records.samples(X, None)
        events = learner.carry_out(part + 1, record.kind, record.payload)
        assert any(event["alarm"] for event in events) == (part == 4)
    state = learner.state()
    assert state is not None
    answers = Answers(described, state)
    assert any("heat is missing" in one["text"] for one in answers.timeline())
    assert len(answers.models(networks=True)) == 2
    names = list(described.encoder.feature_names)
    page = render({"do": "report", "title": "T", "names": names}, state)[1]
    assert b"heat is missing" in page


def test_only_light_questions_are_answered_while_others_wait():
    learner = StreamLearner(CLASSES)
    carried_out(learner, stream_of())
    state = learner.state()
    assert state is not None
    answers = Answers(CLASSES, state)

    def is_light(content, kind="application/json"):
        return Body(1, CLASSES, kind, content, 1000).is_light(answers)

    assert is_light(b'{"rows": [[0.5, -1.25]]}')
    assert is_light(b"u,v\n0.5,-1.25\n", "text/csv")
    assert not is_light(b"PAR1", "application/vnd.apache.parquet")
    assert not is_light(b'{"rows": [[0.5, -1.25]], "explain": true}')
    assert not is_light(b'{"rows": [[0.5, -1.25]], "\\u0065xplain": true}')
    assert not is_light(b'{"rows": [' + b"[1,2]," * 1300 + b"[1,2]]}")
    vars(answers)["n_parameters"] = 10**6  # of many models, or wide ones
    assert not is_light(b'{"rows": [[0.5, -1.25]]}')


def test_a_reading_process_that_ends_is_no_fault_of_the_client(monkeypatch):
    def died(*_):
        raise ChildDied("it ended")

    monkeypatch.setattr(Child, "ask", died)
    monkeypatch.setattr(Child, "start", lambda _: None)
    reader = Reader()
    text = b'{"rows": [' + b"[1.0, 2.0]," * 1000 + b"[1.0, 2.0]]}"
    for kind, status in (("application/json", 503), ("application/vnd.apache.parquet", 400)):
        with pytest.raises(Refused) as refused:
            reader.samples(Body(1, CLASSES, kind, text, 10_000), None)
        assert refused.value.status == status


def test_it_is_the_estimator_and_nothing_else():
    found = stream_of()
    learner = StreamLearner(CLASSES)
    carried_out(learner, found[:2])
    model = PREVALClassifier(random_state=0, n_jobs=1)
    for record in found[:2]:
        head, body = records.unpacked(record.payload)
        model.partial_fit(records.rows_of(head, body), head["labels"])
    own = read_bytes(learner.state() or b"")
    X, _ = rows(50)
    assert own.model.predict_proba(X).tolist() == model.predict_proba(X).tolist()
    assert packed(own.model) == packed(model)


def test_refused_rows_are_numbered_and_change_nothing():
    learner = StreamLearner(CLASSES)
    X, y = rows(400)
    carried_out(learner, [records.samples(X, y.tolist())])
    before = packed(learner.model)
    bad = records.samples(np.array([[1e300, 0.0]]), [1])
    events = learner.carry_out(2, bad.kind, bad.payload)
    assert [(event["kind"], event["row"]) for event in events] == [("refused", 400)]
    assert packed(learner.model) == before
    carried_out(learner, [records.samples(X[:3], None)], first=2)
    assert learner.progress.rows == 404
    assert learner.progress.sample_number(400) is None
    assert learner.progress.sample_number(401) == 400
    carried_out(learner, [records.late_labels([401], [0])], first=3)
    assert learner.model._stream.waiting[1][0] >= 0  # the label reached the row after the bad one


def test_labels_of_very_many_classes_are_refused():
    learner = StreamLearner(CLASSES)
    X, _ = rows(300)
    carried_out(learner, [records.samples(X, None)])
    wide = records.samples(np.repeat(X, 40, axis=0), list(range(12_000)))
    assert learner.carry_out(2, wide.kind, wide.payload)[0]["kind"] == "refused"


def test_answers_name_inputs_and_classes():
    learner = StreamLearner(CLASSES)
    X, y = rows(600)
    names = np.array(["off", "on"])[y].tolist()
    carried_out(learner, [records.samples(X, names)])
    answers = Answers(CLASSES, learner.state() or b"")
    found = answers.predict(X[:5])
    assert set(found) >= {"predictions", "probabilities", "classes", "models", "novelty", "known"}
    assert found["classes"] == ["off", "on"]
    assert np.allclose(np.sum(found["probabilities"], axis=1), 1)
    far = answers.predict(X + 30, explain=True)["explanation"]
    assert far["kind"] == "new inputs"
    assert {one["name"] for one in far["inputs"]} <= {"u", "v"}
    drawn = answers.models(networks=True)[0]["network"]
    assert {node["name"] for node in drawn["nodes"]} >= {"u", "v"}
    recognized, score = answers.recognized(X, names)
    assert recognized["models"] == [0] * 600
    assert score is not None
    assert score.labelled == 600
    assert score.total > 550


def test_refused_rows_are_remembered_in_few_numbers(monkeypatch):
    """Runs of them are joined, and of old ones only the number is kept."""
    monkeypatch.setattr("dirad.serve.learner.MOST_RANGES", 2)
    progress = Progress()
    for i, is_refused in enumerate([0, 1, 1, 0, 1, 0, 0, 1, 0]):
        changes = progress.refusing(10) if is_refused else {}
        progress = progress.after(seq=i + 1, rows=progress.rows + 10, **changes)
    assert progress.refused == ((40, 49), (70, 79))  # those before were the rows 10 to 29
    assert progress.n_refused == 40
    assert [progress.sample_number(row) for row in (5, 15, 35, 45, 55, 89)] == [
        None, None, 15, None, 25, 49,
    ]  # fmt: skip
    assert Progress.from_json(progress.to_json()) == progress
    assert progress.refusing(0) == {}
