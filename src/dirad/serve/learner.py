"""The learner of one stream: it carries out the records of the journal, one after the other.

What it becomes depends on the specification and the records alone, so that a replay of the journal
leads to the same state, bit for bit.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dirad.estimators.stream_columns import input_names
from dirad.preval.events import InputChange, ModelEvent
from dirad.serve import records
from dirad.serve.specification import Specification
from dirad.storage.model_file import ModelFile, packed, read_bytes

MAX_CLASSES = 10_000
MOST_RANGES = 1000  # of refused rows, that are remembered one by one
REFUSED = "refused"  # the kind of event for rows that the learner could not take


@dataclass(frozen=True)
class Progress:
    """How far a learner has come; stored with its state."""

    seq: int = 0  # the last record that was carried out
    rows: int = 0  # rows of the stream by then, refused ones included
    events: int = 0  # events by then
    late: int = 0  # labels that came too late to be used
    refused: tuple[tuple[int, int], ...] = ()  # first and last row of each run of refused rows
    old_refused: int = 0  # rows refused before those, which are remembered as a number alone
    old_end: int = 0  # the row after the last of them

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "refused": [list(pair) for pair in self.refused]}

    @classmethod
    def from_json(cls, obj: dict[str, Any]) -> "Progress":
        return cls(**{**obj, "refused": tuple((first, last) for first, last in obj["refused"])})

    def after(self, **changes: Any) -> "Progress":
        """Return the progress with some of its numbers changed."""
        return Progress(**{**vars(self), **changes})

    def refusing(self, rows: int) -> dict[str, Any]:
        """Return what changes when the next rows are refused."""
        if not rows:
            return {}
        first, last, runs = self.rows, self.rows + rows - 1, self.refused
        if runs and runs[-1][1] + 1 == first:
            first, runs = runs[-1][0], runs[:-1]
        runs = (*runs, (first, last))
        if len(runs) <= MOST_RANGES:
            return {"refused": runs}
        (start, end), *rest = runs
        old = {"old_refused": self.old_refused + end - start + 1, "old_end": end + 1}
        return {"refused": tuple(rest)} | old

    @property
    def n_refused(self) -> int:
        """How many rows were refused."""
        return self.old_refused + sum(last - first + 1 for first, last in self.refused)

    def sample_number(self, row: int) -> int | None:
        """Return the learner's own number of a row, None if it was refused or is too old."""
        if row < self.old_end:
            return None
        before = self.old_refused
        for first, last in self.refused:
            if first <= row <= last:
                return None
            if last < row:
                before += last - first + 1
        return row - before


class StreamLearner:
    """An estimator that learns the records of one stream."""

    def __init__(self, specification: Specification, state: bytes | None = None) -> None:
        self.specification = specification
        self.model, self.progress = specification.new_learner(), Progress()
        if state is not None:
            found = read_bytes(state)
            self.model, self.progress = found.model, progress_of(found)
        self._stored = self._system  # the models as they were when the state was last stored

    @property
    def is_news(self) -> bool:
        """Whether the models have changed since `state` was last called."""
        return self._system is not self._stored

    @property
    def _system(self) -> Any:
        stream = vars(self.model).get("_stream")
        return None if stream is None else stream.system

    def state(self) -> bytes | None:
        """Return the complete state, None as long as there is nothing to store."""
        self._stored = self._system
        if self._system is None:
            return None
        labels = list(getattr(self.model._stream, "labels", ()))
        encoder = self.specification.model_encoder(labels)
        return packed(self.model, encoder, {"stream": self.progress.to_json()})

    def carry_out(self, seq: int, kind: str, payload: bytes) -> list[dict[str, Any]]:
        """Carry out a record, and return the events that it led to, as JSON.

        A record that the estimator refuses changes nothing but the numbers of rows.
        """
        head, body = records.unpacked(payload)
        rows = head["shape"][0] if kind == records.SAMPLES else 0
        before = self._mark()
        changes: dict[str, Any] = {"seq": seq, "rows": self.progress.rows + rows}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # late labels are counted instead
                changes |= self._apply(kind, head, body)
            found = self._events_since(before)
        except ValueError as error:
            found = [{"kind": REFUSED, "row": self.progress.rows, "text": str(error)[:500]}]
            changes |= self.progress.refusing(rows)
        first = self.progress.events
        self.progress = self.progress.after(**changes, events=first + len(found))
        return [{"number": first + i, **event} for i, event in enumerate(found)]

    def skip(self, seq: int, rows: int) -> None:
        """Leave out a record that could never be carried out."""
        changes = self.progress.refusing(rows)
        self.progress = self.progress.after(seq=seq, rows=self.progress.rows + rows, **changes)

    def _apply(self, kind: str, head: dict[str, Any], body: bytes) -> dict[str, Any]:
        if kind == records.SAMPLES:
            labels = head["labels"]
            self._check_classes(labels or ())
            self.model.partial_fit(records.rows_of(head, body), labels)
        elif kind == records.LABELS:
            return {"late": self.progress.late + self._label(head["numbers"], head["labels"])}
        elif kind == records.FINISH:
            if self._system is not None:
                self.model.finish()
        else:
            self.model.remove(head["model"])
        return {}

    def _check_classes(self, labels: Sequence[Any]) -> None:
        """Refuse labels of so many classes that they cannot be classes."""
        if self.specification.kind == "regressor":
            return
        known = set(() if self._system is None else self.model._stream.labels)
        if len(known.union(label for label in labels if label is not None)) > MAX_CLASSES:
            raise ValueError(f"more than {MAX_CLASSES:,} classes: are the labels numbers or ids?")

    def _label(self, rows: list[int], labels: list[Any]) -> int:
        """Take late labels; return how many came too late."""
        numbers = [self.progress.sample_number(row) for row in rows]
        there = [i for i, number in enumerate(numbers) if number is not None]
        if not there:
            return len(rows)
        self._check_classes(labels)
        self.model.label([numbers[i] for i in there], [labels[i] for i in there])
        return len(rows) - len(there) + self.model.n_late_labels_

    def _mark(self) -> tuple[int, int, ModelEvent | None]:
        """Return batches, samples and the last event so far."""
        system = self._system
        if system is None:
            return 0, 0, None
        journal = system.journal
        return journal.batches, journal.samples, journal.events[-1] if journal.events else None

    def _events_since(self, mark: tuple[int, int, ModelEvent | None]) -> list[dict[str, Any]]:
        """Return the events after a mark, with the row of the stream that each belongs to."""
        batches, samples, last = mark
        events = [] if self._system is None else self._system.journal.events
        place = next((i for i in reversed(range(len(events))) if events[i] is last), -1)
        size = self._system.settings.l0.batch_size if self._system is not None else 0
        names, refused = self.specification.encoder.feature_names, self.progress.n_refused
        if events:
            names = input_names(self.model._stream, names)
        return [
            event_json(event, samples + (event.batch - batches) * size + refused, names)
            for event in events[place + 1 :]
        ]


def progress_of(file: ModelFile) -> Progress:
    """Return how far the learner of a stored state had come."""
    return Progress.from_json(file.provenance["stream"])


def event_json(event: ModelEvent, row: int, names: Sequence[str]) -> dict[str, Any]:
    """Return an event as JSON: what happened, at which row, why, and a sentence about it.

    An alarm is a model that was opened because no earlier one knew the samples.
    """
    evidence = event.evidence
    changed = [InputChange(*one) for one in evidence.get("inputs", ())]
    found: dict[str, Any] = {
        "kind": event.kind,
        "model": event.model,
        "batch": event.batch,
        "row": row,
        "alarm": event.kind == "opened" and event.batch > 0,
        "text": event.text(names),
    }
    if "cause" in evidence:
        found["cause"] = evidence["cause"]
    if changed:
        found["inputs"] = [
            {"name": str(names[one.input])}
            | {key: finite(value) for key, value in one._asdict().items() if key != "input"}
            for one in changed
        ]
    return found


def finite(value: Any) -> Any:
    """Return a number that JSON has, None for any other.

    >>> finite(2.5), finite(float("nan"))
    (2.5, None)
    """
    value = float(value)
    return value if math.isfinite(value) else None
