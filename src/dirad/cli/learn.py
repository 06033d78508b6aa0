"""The command `dirad learn`: a continual model learns from more rows."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from cyclopts import Parameter
from numpy.typing import NDArray

from dirad.cli.app import TALKATIVE, Flag, Output, Usage, app, warm_up
from dirad.cli.checkpoint import Job, claimed_output, provenance_of, write_model
from dirad.cli.files import (
    check_not_input,
    check_output,
    encoder_of,
    model_rows,
    open_data,
    ordered,
    tell_ignored,
)
from dirad.cli.options import (
    DATA_FILE,
    DETECTED,
    NO_RESUME,
    Checkpoints,
    ModelPath,
    OptionalOutputFile,
    Reading,
    Unseen,
)
from dirad.cli.predict import RunningScore
from dirad.cli.printing import Findings, progress
from dirad.estimators.checks import without_label
from dirad.estimators.stream_columns import input_names

if TYPE_CHECKING:
    from dirad.storage import ModelFile
    from dirad.tables import Chunk, Encoder, Table

MAX_EVENTS = 6  # events that are printed
MEANING = {
    "back": "back: of a known task, another than before.",
    "new inputs": "new inputs: never seen.",
    "shifted inputs": "shifted inputs: other inputs, and the labels agree with the answers.",
    "new rule": "new rule: known inputs with other labels.",
    "mixed": "mixed: rows of several tasks in one batch, known or new; the batch is split.",
    "undecided": "undecided: unusual from some row on; the next batch tells if it was a burst.",
    "learning": "learning: the first rows, too few to compare a batch with.",
}
MODELS_NOTE = (
    "L0: the network that predicts the target; "
    "numbers kept: all but samples that are not learned yet"
)


@app.command
def learn(
    model: ModelPath,
    data: Annotated[Path | None, Parameter(help=DATA_FILE)] = None,
    *,
    output: OptionalOutputFile = None,
    finish: Flag = False,
    time: str | None = None,
    unseen: Unseen = "refuse",
    checkpoints: Checkpoints = NO_RESUME,
    reading: Reading = DETECTED,
    talk: Output = TALKATIVE,
) -> None:
    """Let a continual model learn from more rows, and print what it recognized.

    The rows are a stream and are learned in order. Labels (or numbers, if the target holds numbers)
    may be missing. A batch of a known task goes to the model of that task; a batch that no model
    knows starts a new one. Nothing that was learned before is overwritten.

    If `dirad fit` was told a column of times (`--time`), the rows are learned in its order here
    too, and none may be earlier than the last row learned before.

    ```
    dirad fit day1.csv --target fault --continual -o plant.dirad
    dirad learn plant.dirad day2.csv
    dirad learn plant.dirad day3.csv -o other.dirad
    dirad learn plant.dirad --finish     # no more rows: all models are finished
    ```

    Parameters
    ----------
    output
        The model file to write [default: the model file is replaced].
    finish
        Finish models that are still learning; afterwards no sample is kept.
    time
        The column that orders the rows, and is not an input [default: that of `dirad fit`].
    unseen
        How to treat a category that the first file did not contain, in a model of an earlier dirad:
        refuse it, or encode it as 0. Other models take it as such: "(other)".
    """
    from dirad.tables import digest

    if output is not None:
        check_output(output)
    output = output or model
    check_not_input(output, data)
    with claimed_output(output) as is_unchanged:
        found = _continual_model(model)
        encoder = encoder_of(found, model)
        if data is None:
            if not finish:
                raise Usage("there is nothing to learn: give a data file, or --finish")
            _finish(found, output, is_unchanged, talk)
            return
        table = open_data(data, reading)
        if time is not None:
            encoder = _ordered_by(encoder, time, table)
        tell_ignored(encoder, table, talk)
        table = ordered(table, encoder, talk)
        before = found.provenance
        provenance = provenance_of(table, before.get("seed"), before.get("data"))
        conditions = {"model file": digest(model), "--unseen": unseen}
        every = checkpoints.checkpoint_every
        job = Job(table, encoder, output, is_unchanged, provenance, conditions, every, talk)
        learner, n_learned = found.model, 0
        if checkpoints.resume:
            learner, n_learned = _resumed(job, learner)
        warm_up(talk, learner.preset)
        last = _last_event(learner)
        learn_rows(job, learner, n_learned, finish=finish, unseen=unseen, last_event=last)


def _continual_model(path: Path) -> "ModelFile":
    """Return a model file that can learn more."""
    from dirad.storage import read

    found = read(path)
    if not hasattr(found.model, "partial_fit"):
        raise Usage(
            f"{path} is a single network, which is finished; dirad fit --continual starts a model "
            "that can learn more"
        )
    return found


def _ordered_by(encoder: "Encoder", name: str, table: "Table") -> "Encoder":
    """Return an encoder that finds the time of a row in this column."""
    from dirad.tables import TableError, Time

    if any(field.name == name for field in (*encoder.inputs, encoder.target)):
        role = "the target" if name == encoder.target.name else "an input"
        raise Usage(f"--time {name}: the model has this column as {role}")
    try:
        table.require(name)
    except TableError as error:
        raise Usage(f"--time: {error}") from None
    known = encoder.time
    return replace(
        encoder, time=Time.fit(table, name) if known is None else replace(known, name=name)
    )


def _resumed(job: Job, before: Any) -> tuple[Any, int]:
    """Return the model of a checkpoint, and how many rows of the file it has learned."""
    from dirad.storage import ModelError

    found = job.read_checkpoint()
    job.require_same(found.model, before)
    row = found.provenance.get("row")
    if type(row) is not int or not 0 <= row <= found.model.n_samples_seen_:
        raise ModelError(f"{job.checkpoint}: it does not say at which row it was stopped")
    job.encoder = encoder_of(found, job.checkpoint)  # with classes that were new
    return found.model, row


def _finish(
    found: "ModelFile", output: Path, is_unchanged: Callable[[], bool], talk: Output
) -> None:
    """Finish all models with the samples that they hold."""
    warm_up(talk, found.model.preset)
    last = _last_event(found.model)
    found.model.finish()
    write_model(found.model, output, is_unchanged, found.encoder, found.provenance)
    findings = Findings(talk)
    events = [str(event) for event in _events_after(found.model, last)]
    findings.table("Models", model_rows(found.model), "; ".join([MODELS_NOTE, *events]))
    findings.print()


def learn_rows(
    job: Job,
    model: Any,
    n_learned: int,
    *,
    finish: bool,
    unseen: str = "refuse",
    last_event: Any = None,
) -> None:
    """Learn the rows of a table after the first `n_learned` ones, with checkpoints.

    Events after `last_event` are printed at the end; by default all.
    """
    from dirad.preval.settings import PRESETS

    size = model.batch_size or PRESETS[model.preset].l0.batch_size
    stream = StreamRecord(model, size, n_learned)
    row = 0
    with job.pauses() as pause, progress(job.talk, "learning", "rows") as show:
        for chunk in job.table.chunks(size):
            row += len(chunk)
            skip = max(n_learned - (row - len(chunk)), 0)
            if skip >= len(chunk):
                continue
            _learn_chunk(job, stream, chunk, skip, unseen)
            show(row, job.table.n_rows, f"learning: {len(model.models_)} models")
            pause(model, f"after row {row}", row=row)
    if finish:
        stream.finish()
    job.save_model(model)
    findings = Findings(job.talk)
    _report(findings, stream, last_event, job)
    findings.print()


def _learn_chunk(job: Job, stream: "StreamRecord", chunk: "Chunk", skip: int, unseen: str) -> None:
    """Learn a chunk without its first `skip` rows."""
    time, times = job.encoder.time, []
    if time is not None:
        times = time.moments(chunk)[skip:]
        time.require_later(chunk, skip, times[0])
    X, y = job.encoder.transform(chunk, unseen)[skip:], None
    if job.encoder.target.name in job.table.names:
        y = job.encoder.targets(chunk, unlabelled=True, new_classes=True)[skip:]
        if job.encoder.target.task == "classification":
            labels = [label for label in y.tolist() if label is not None]
            job.encoder = job.encoder.with_classes(labels)
    # The chunk is split where a batch is complete, so that each row is predicted by a model that
    # has learned all batches before it.
    missing = stream.size - stream.waiting
    for start, part in ((0, slice(0, missing)), (missing, slice(missing, None))):
        if len(X[part]):
            with job.encoder.out_of_range_named([chunk], first=skip + start):
                stream.learn(X[part], None if y is None else y[part], times[part])
    if times:
        job.encoder = job.encoder.learned_until(times[-1])


class Span(NamedTuple):
    """The rows of a batch, and what they were recognized as."""

    first: int
    last: int
    begun: Any  # time of the first row; None without a column of times
    ended: Any  # and of the last
    report: Any


class StreamRecord:
    """A continual model that learns rows, and a record of what it recognized."""

    def __init__(self, model: Any, size: int, n_learned: int) -> None:
        self.model = model
        self.size = size  # rows of a batch
        self.start = n_learned  # rows of the file that were learned earlier
        self.rows = n_learned  # rows of the file that are learned by now
        self.first = n_learned - self.waiting  # of this batch; negative: in an earlier file
        self.spans: list[Span] = []
        self.begun: Any = None  # time of the first row of this batch
        self.ended: Any = None  # time of the last row learned
        self.is_classifier = hasattr(type(model), "classes_")
        self.score = RunningScore(not self.is_classifier)  # of rows before they were learned
        self.n_recorded = self.n_batches  # batches whose reports are recorded

    @property
    def n_batches(self) -> int:
        """Batches that were learned."""
        reports = self.model.reports_ if hasattr(self.model, "_stream") else []
        return reports[-1].batch + 1 if reports else 0

    @property
    def waiting(self) -> int:
        """Rows that do not fill a batch yet."""
        return len(self.model._state.waiting[0]) if hasattr(self.model, "_stream") else 0

    def learn(self, X: NDArray, y: NDArray | None, times: Sequence[Any] = ()) -> None:
        """Predict rows of one batch, and learn them afterwards."""
        if times:
            self.begun = times[0] if self.begun is None else self.begun
            self.ended = times[-1]
        if getattr(self.model, "models_", None) and y is not None and self._can_predict:
            self._score(X, y)
        self.model.partial_fit(X, y)
        self.rows += len(X)
        self._record()

    def finish(self) -> None:
        """Finish all models."""
        self.model.finish()
        self._record()

    @property
    def _can_predict(self) -> bool:
        """Was any label or number seen yet?"""
        if self.is_classifier:
            return len(self.model.classes_) > 0
        return self.model._state.system.n_classes > 0

    def _score(self, X: NDArray, y: NDArray) -> None:
        """Predict the labelled rows, and compare the predictions with the labels."""
        labelled = ~without_label(y)
        if labelled.any():
            self.score.add(self.model.predict(X[labelled]), y[labelled])

    def _record(self) -> None:
        """Record the reports of new batches."""
        for report in self.model.reports_:
            if report.batch >= self.n_recorded:
                first, last = max(self.first, 0), self.rows - 1
                self.spans.append(Span(first, last, self.begun, self.ended, report))
                self.first, self.begun = self.rows, None
        self.n_recorded = self.n_batches


def _last_event(model: Any) -> Any:
    """Return the last event of a continual model, None if there is none."""
    return model.events_[-1] if model.events_ else None


def _events_after(model: Any, last: Any) -> list[Any]:
    """Return the events after one; if it is gone, as very old events are, return all."""
    events = model.events_
    places = [i for i, event in enumerate(events) if event is last]
    return events[places[0] + 1 :] if places else events


def _report(findings: Findings, stream: StreamRecord, last_event: Any, job: Job) -> None:
    """Say which rows were recognized as what, and what became of the models."""
    names = input_names(stream.model._state, job.encoder.feature_names)
    rows = _recognized(stream, names)
    kinds = {span.report.verdict for span in stream.spans}
    meaning = [MEANING[kind] for kind in MEANING if kind in kinds]
    findings.table("What was recognized", rows, " ".join([f"Batches of {stream.size}.", *meaning]))
    if stream.waiting:
        note = "More rows will complete their batch; --finish learns them as they are."
        findings.facts("Not learned yet", {"rows that wait for a batch": stream.waiting}, note)
    events = [event.text(names) for event in _events_after(stream.model, last_event)]
    findings.record["Events"] = events
    note = "; ".join([MODELS_NOTE, *events[-MAX_EVENTS:]])
    findings.table("Models", model_rows(stream.model), f"Written to {job.output}. {note}")
    if stream.score.n:
        note = "Each batch is predicted first and learned afterwards."
        if stream.start:
            note += f" Only rows from {stream.start:,} on, where the command was resumed."
        answers = {"rows with labels": stream.score.n} | stream.score.result()
        findings.facts("Answers before learning", answers, note)


def _recognized(stream: StreamRecord, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return a table row for each run of batches with the same verdict."""
    rows = []
    verdicts = groupby(stream.spans, key=lambda span: _said(span.report))
    for (said, number), group in verdicts:
        run = list(group)
        row: dict[str, Any] = {"rows": f"{run[0].first:,}–{run[-1].last:,}"}
        if run[0].begun is not None:
            row |= {"from": str(run[0].begun), "until": str(run[-1].ended)}
        row |= {"batches": len(run), "taken for": said, "model": number}
        rows.append(row | {"because": "".join(run[0].report.reasons(names)[:1])})
    if not any(row["because"] for row in rows):
        rows = [{name: row[name] for name in row if name != "because"} for row in rows]
    return rows


def _said(report: Any) -> tuple[str, int]:
    """Return what a batch was taken for, and the model that took it; "known" names the model."""
    text = report.verdict if report.kind == "known" else report._replace(inputs=()).text()
    return text, report.model
