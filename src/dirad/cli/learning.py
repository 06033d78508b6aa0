"""Commands that learn from data files and answer: fit, learn, predict."""

import errno
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import numpy as np
from cyclopts import Parameter
from cyclopts.validators import Number
from numpy.typing import NDArray
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from dirad.atomic import claimed, destination
from dirad.cli.app import (
    TALKATIVE,
    Flag,
    NaturalInt,
    Output,
    PositiveInt,
    Preset,
    Stopped,
    Usage,
    app,
    raw_stdout,
    stderr,
    warm_up,
)
from dirad.cli.printing import Findings

if TYPE_CHECKING:
    from dirad.storage import ModelFile
    from dirad.tables import Encoder, Table

STEPS = 500  # between two moments at which a fit can be stopped
FALSE_ALARMS = 0.05  # share of known rows that are called unknown
ROWS = 2000  # of a file that are answered at a time
MEANING = {
    "mixed": "mixed: rows of several tasks in a batch, known or new, taken apart.",
    "learning": "learning: of the first rows nobody can tell yet.",
}
KEPT = "L0: the network grown for the answers; numbers kept: all but samples not learned yet"
CHECKPOINT = ".checkpoint"  # behind the name of a model file
PARQUET = (".parquet", ".pq")

Task = Literal["auto", "classification", "regression"]
Share = Annotated[float, Parameter(validator=Number(gte=0, lt=1))]
Seconds = Annotated[float, Parameter(validator=Number(gte=0))]
Names = Annotated[list[str] | None, Parameter(negative="", consume_multiple=False)]
DataFile = Annotated[Path, Parameter(help="CSV, TSV, Parquet, NPZ or IDX; .gz too.")]
ModelPath = Annotated[Path, Parameter(help="A model file.")]
OutFile = Annotated[Path, Parameter(name=["--output", "-o"])]
MaybeOut = Annotated[Path | None, Parameter(name=["--output", "-o"])]


@Parameter(name="*")
@dataclass(frozen=True)
class Reading:
    """How a data file is read; by default that is found out."""

    format: Annotated[
        Literal["csv", "tsv", "parquet", "npz", "idx"] | None,
        Parameter(help="Of the data file [default: by its name, or its first bytes]."),
    ] = None
    delimiter: Annotated[str | None, Parameter(help="Of a text file [default: found out].")] = None
    header: Annotated[
        bool | None, Parameter(help="Whether its first line names columns [default: found out].")
    ] = None
    labels: Annotated[
        Path | None, Parameter(help="Of IDX images: the file of labels [default: by its name].")
    ] = None


FOUND_OUT = Reading()


@app.command
def fit(
    data: DataFile,
    *,
    target: str,
    output: OutFile = Path("model.dirad"),
    task: Task = "auto",
    continual: Flag = False,
    batch_size: PositiveInt | None = None,
    begin: PositiveInt | None = None,
    preset: Preset = "default",
    max_edges: PositiveInt | None = None,
    test: Share | None = None,
    drop: Names = None,
    category: Names = None,
    impute: Literal["median"] | None = None,
    seed: NaturalInt = 0,
    finish: Flag = False,
    resume: Flag = False,
    checkpoint_every: Seconds = 10.0,
    reading: Reading = FOUND_OUT,
    talk: Output = TALKATIVE,
) -> None:
    """Grow a network for a column of a data file, and write it as a model file.

    Text columns become one input per category; columns are found by name afterwards. A part of the
    rows, `--test`, is kept aside to tell how good the network is; it is never fitted to (categories
    and, with `--impute`, medians are those of all rows).

    With `--continual` the rows are taken as a stream, in their order: tasks that change unannounced
    are noticed, and each gets a model of its own. `dirad learn` goes on with more files.

    Stopped by Ctrl-C, or killed, a fit goes on with `--resume`, to the same network; what there is
    by then is a model, in a file named `.checkpoint`.

    ```
    dirad fit flowers.csv --target species
    dirad fit houses.parquet --target price --max-edges 30 -o price.dirad
    dirad fit train-images-idx3-ubyte.gz --target label     # the labels lie beside it
    dirad fit people.csv --target income --drop id --drop name --impute median
    dirad fit day1.csv --target fault --continual -o plant.dirad
    ```

    Parameters
    ----------
    target
        The column to predict.
    output
        The model file to write.
    task
        auto: classes if the column holds text, truth values or few whole numbers.
    continual
        Learn the rows as a stream whose rules may change.
    batch_size
        With --continual: rows that are judged, and learned, together [default: 200].
    begin
        With --continual: rows of a new task before it can be told from another [default: 200].
    preset
        Our own settings or the paper's.
    max_edges
        Most edges of the network [default: as many as pay].
    test
        Share of the rows kept aside; 0 for none [default: 0.2].
    drop
        A column that is no input; may be given several times.
    category
        A column of numbers that are codes; may be given several times.
    impute
        Fill missing values by the median or the most frequent category; else they are refused.
    seed
        Of all randomness: the same seed and data give the same network.
    finish
        With --continual: bring the models to their end now; then they can be exported.
    resume
        Go on from the checkpoint of the same command.
    checkpoint_every
        Seconds between two checkpoints.
    """
    from dirad.tables import Encoder

    if finish and not continual:
        raise Usage("--finish is for --continual: one network is always finished")
    for option, given in (("--batch-size", batch_size), ("--begin", begin)):
        if given is not None and not continual:
            raise Usage(f"{option} is for --continual: one network sees all rows at once")
    if continual:
        _check_continual(task, preset, max_edges, test)
    if target in (drop or ()):
        raise Usage(f"--drop {target}: this is the target")
    check_place(output, data, reading.labels)
    table = opened(data, reading)
    for option, names in (("--target", [target]), ("--drop", drop), ("--category", category)):
        _need(table, option, names or ())
    encoder = Encoder.fit(
        table, target, task=task, impute=impute, drop=drop or (), categories=category or ()
    )
    if continual and encoder.target.task == "regression":
        raise Usage(f"--continual learns classes, and {target!r} holds numbers: see --task")
    share = 0.2 if test is None else test
    with _claimed(output) as unchanged:
        terms = {} if continual else {"--test": share}
        job = Job(
            table, encoder, output, unchanged, _origin(table, seed), terms, checkpoint_every, talk
        )
        model = _checkpoint(job).model if resume else None
        if continual:
            warm_up(talk, preset)
            sizes = {"batch_size": batch_size, "begin": begin}
            _fit_stream(job, model, dict(preset=preset, random_state=seed, **sizes), finish)
        else:
            _fit_network(job, model, preset, max_edges, share, seed)


def _check_continual(task: str, preset: str, max_edges: int | None, test: float | None) -> None:
    """Refuse what a stream cannot have."""
    from dirad.preval.settings import PRESETS

    if task == "regression":
        raise Usage("--task regression: --continual learns classes")
    if preset == "paper":
        raise Usage(
            "--preset paper: its networks have an output for every class from the start, which a "
            "stream of files cannot know; PREVALClassifier, in Python, takes them as `classes`"
        )
    if max_edges is not None:
        limits = PRESETS[preset]
        raise Usage(
            "--max-edges: the networks of --continual have limits of their own "
            f"({limits.l0.max_edges} edges of L0, {limits.l1.max_edges} of each pathway of L1); "
            "PREVALClassifier, in Python, takes others as `l0` and `l1`"
        )
    if test is not None:
        raise Usage(
            "--test: a stream keeps no rows aside; each batch is answered before it is learned, "
            "and that accuracy is told"
        )


class Job(NamedTuple):
    """What a fit is about."""

    table: "Table"
    encoder: "Encoder"
    output: Path
    unchanged: Callable[[], bool]  # is the output still what it was?
    origin: dict[str, Any]  # provenance
    terms: dict[str, Any]  # what a checkpoint must agree on beside its data, columns and parameters
    every: float  # seconds between two checkpoints
    talk: Output

    @property
    def checkpoint(self) -> Path:
        """Where the model stands while it is on its way."""
        return checkpoint_of(self.output)

    def keep(self, model: Any, **more: Any) -> None:
        """Write the model as it stands into its checkpoint."""
        from dirad.storage import save

        origin = self.origin | self.terms | more
        save(model, self.checkpoint, encoder=self.encoder.to_json(), provenance=origin)

    def done(self, model: Any, **more: Any) -> None:
        """Write the finished model; its checkpoint goes."""
        _write(model, self.output, self.unchanged, self.encoder.to_json(), self.origin | more)

    def stop(self, model: Any, where: str, **more: Any) -> Stopped:
        """Keep the model as it stands; return what is said of it."""
        self.keep(model, **more)
        return Stopped(f"stopped {where}; {self.checkpoint} is the model so far, --resume goes on")


def checkpoint_of(output: Path) -> Path:
    """Return where a model stands while it is on its way to a file."""
    return output.with_name(output.name + CHECKPOINT)


@contextmanager
def _claimed(output: Path) -> Iterator[Callable[[], bool]]:
    """Keep other processes from a model file and its checkpoint; yield whether it is unchanged."""
    with claimed(output) as unchanged, claimed(checkpoint_of(output)):
        yield unchanged


def _write(
    model: Any,
    output: Path,
    unchanged: Callable[[], bool],
    encoder: Mapping[str, Any] | None,
    origin: Mapping[str, Any],
) -> None:
    """Write a finished model; its checkpoint goes, unless another program changed the file."""
    from dirad.storage import save

    checkpoint = checkpoint_of(output)
    if unchanged():
        save(model, output, encoder=encoder, provenance=origin)
        checkpoint.unlink(missing_ok=True)
        return
    save(model, checkpoint, encoder=encoder, provenance=origin)
    why = f"another program changed this file, which is left as it is; {checkpoint} is the model"
    raise OSError(errno.ESTALE, why, str(output))


def _fit_network(
    job: Job, model: Any, preset: str, max_edges: int | None, test: float, seed: int
) -> None:
    """Fit one network, with checkpoints."""
    from dirad import DIRADClassifier, DIRADRegressor
    from dirad.tables import TableError

    X, y = job.encoder.read(job.table)
    X_test, y_test = X[:0], y[:0]
    classes = job.encoder.target.task == "classification"
    if test:
        from sklearn.model_selection import train_test_split

        alike = y if classes and np.unique(y, return_counts=True)[1].min() > 1 else None
        try:
            parts: Any = train_test_split(X, y, test_size=test, random_state=seed, stratify=alike)
            X, X_test, y, y_test = parts
        except ValueError as error:
            raise Usage(f"--test {test}: {error}") from None
    if classes and len(np.unique(y)) < 2:
        raise TableError(
            f"{job.table.path}, column {job.encoder.target.name!r}: the {len(y)} rows to fit are "
            f"all {y.tolist()[0]!r}, so that there is nothing to tell apart"
        )
    warm_up(job.talk, preset)
    kind = DIRADClassifier if classes else DIRADRegressor
    fresh = kind(preset=preset, max_edges=max_edges, random_state=seed)
    if model is None:
        model = fresh.fit(X, y, steps=STEPS)
    _check_same(job, model, fresh)
    saved = time.monotonic()
    with _interruptions() as stopped, _bar(job.talk, "growing", "steps") as bar:
        while not model.is_stable_:
            steps = model.params_.max_steps + model.params_.settle_steps
            bar(model.n_steps_, steps, f"growing: {model.n_edges_} edges")
            if stopped:
                raise job.stop(model, f"at step {model.n_steps_}")
            if time.monotonic() >= saved + job.every:
                job.keep(model)
                saved = time.monotonic()
            model.resume(X, y, steps=STEPS)
    found = scores(model, X_test, y_test)
    ranges = {"low": X.min(axis=0).tolist(), "high": X.max(axis=0).tolist()}
    job.done(model, **{"rows": len(X), "test rows": len(X_test)}, **found, **ranges)
    about = {
        "model": str(job.output),
        "target": job.encoder.target.name,
        "task": job.encoder.target.task,
        "rows": len(X),
        "inputs": X.shape[1],
        "edges": model.n_edges_,
        "hidden nodes": model.n_hidden_,
        "parameters": model.n_parameters_,
        "steps": model.n_steps_,
    }
    if found:
        about |= {"test rows": len(X_test)} | found
    findings = Findings(job.talk)
    note = ""
    if classes and len(np.unique(y)) > 2 and np.asarray(y.tolist()).dtype.kind in "if":
        note = "The numbers are taken for classes; --task regression takes them as numbers."
    findings.facts("What was grown", about, note)
    findings.print()


def scores(model: Any, X: NDArray, y: NDArray, prefix: str = "test ") -> dict[str, float]:
    """Return how good a model is on rows it never saw, with what a guess would give."""
    from dirad import DIRADRegressor

    if not len(X):
        return {}
    if isinstance(model, DIRADRegressor):
        error = model.predict(X) - y
        return {
            f"{prefix}R²": float(model.score(X, y)) if len(X) > 1 else float("nan"),
            f"{prefix}RMSE": float(np.sqrt(np.mean(error**2))),
        }
    most = float(np.unique(y, return_counts=True)[1].max() / len(y))
    return {f"{prefix}accuracy": float(model.score(X, y)), "share of the largest class": most}


# ------------------------------------------------------------------ streams


def _fit_stream(job: Job, model: Any, options: dict[str, Any], finish: bool) -> None:
    """Let a continual learner see the rows of a first file."""
    from dirad import PREVALClassifier

    fresh, taken = PREVALClassifier(**options), 0
    if model is not None:
        _check_same(job, model, fresh)
        taken = model.n_samples_seen_
    _learn(job, model or fresh, taken, since=None, finish=finish)


@app.command
def learn(
    model: ModelPath,
    data: Annotated[Path | None, Parameter(help="CSV, TSV, Parquet, NPZ or IDX; .gz too.")] = None,
    *,
    output: MaybeOut = None,
    finish: Flag = False,
    resume: Flag = False,
    checkpoint_every: Seconds = 10.0,
    unseen: Literal["refuse", "zero"] = "refuse",
    reading: Reading = FOUND_OUT,
    talk: Output = TALKATIVE,
) -> None:
    """Go on learning: show a continual model more rows, and say what it recognized.

    The rows are a stream, in their order. Labels may be missing. Batches that a model knows are
    given to it; what none knows opens a new one. Nothing that was learned is overwritten.

    ```
    dirad fit day1.csv --target fault --continual -o plant.dirad
    dirad learn plant.dirad day2.csv
    dirad learn plant.dirad day3.csv -o other.dirad
    dirad learn plant.dirad --finish     # no more rows: all models are brought to an end
    ```

    Parameters
    ----------
    output
        The model file to write [default: the same again].
    finish
        Bring models that still adapt to their end now; then no sample is kept any more.
    resume
        Go on after the row at which the same command was stopped.
    checkpoint_every
        Seconds between two checkpoints.
    unseen
        What to do with a category that the first file did not show.
    """
    from dirad.tables import digest

    if output is not None:
        check_place(output)
    output = output or model
    _check_not_read(output, data)
    with _claimed(output) as unchanged:
        found = _continual_model(model)
        encoder = encoder_of(found, model)
        if data is None:
            if not finish:
                raise Usage("there is nothing to learn: name a data file, or --finish")
            warm_up(talk, found.model.preset)
            _finish(found, output, unchanged, talk)
            return
        table = opened(data, reading)
        _tell_ignored(encoder, table, talk)
        origin = _origin(table, found.provenance.get("seed"), found.provenance.get("data"))
        terms = {"model file": digest(model), "--unseen": unseen}
        job = Job(table, encoder, output, unchanged, origin, terms, checkpoint_every, talk)
        classifier, taken = found.model, 0
        if resume:
            stopped = _checkpoint(job)
            _check_same(job, stopped.model, classifier)
            classifier, taken = stopped.model, _stopped_at(stopped, job.checkpoint)
            job = job._replace(encoder=encoder_of(stopped, job.checkpoint))  # with its new classes
        warm_up(talk, classifier.preset)
        _learn(job, classifier, taken, since=_last(classifier), finish=finish, unseen=unseen)


def _continual_model(path: Path) -> "ModelFile":
    """Return a model file that can go on learning."""
    from dirad.storage import read

    found = read(path)
    if type(found.model).__name__ != "PREVALClassifier":
        raise Usage(f"{path} is one network, which is finished: dirad fit --continual makes others")
    return found


def _stopped_at(found: "ModelFile", path: Path) -> int:
    """Return how many rows of its file a checkpoint has seen."""
    from dirad.storage import ModelError

    row = found.provenance.get("row")
    if type(row) is not int or not 0 <= row <= found.model.n_samples_seen_:
        raise ModelError(f"{path}: it does not say at which row it was stopped")
    return row


def _finish(found: "ModelFile", output: Path, unchanged: Callable[[], bool], talk: Output) -> None:
    """Bring the models of a system to their end, with the samples that they hold."""
    since = _last(found.model)
    found.model.finish()
    _write(found.model, output, unchanged, found.encoder, found.provenance)
    findings = Findings(talk)
    events = [str(event) for event in _events_after(found.model, since)]
    findings.table("Models", model_rows(found.model), "; ".join([KEPT, *events]))
    findings.print()


def _learn(
    job: Job, model: Any, taken: int, *, since: Any, finish: bool, unseen: str = "refuse"
) -> None:
    """Show the rows of a table after the first `taken` ones, with checkpoints."""
    from dirad.preval.settings import PRESETS

    labelled = job.encoder.target.name in job.table.names
    size = model.batch_size or PRESETS[model.preset].l0.batch_size
    story = Story(model, size, taken)
    row = 0
    saved = time.monotonic()
    encoder = job.encoder
    with _interruptions() as stopped, _bar(job.talk, "learning", "rows") as bar:
        for chunk in job.table.chunks(size):
            row += len(chunk)
            skip = min(max(taken - (row - len(chunk)), 0), len(chunk))
            if skip == len(chunk):
                continue
            X, y = encoder.transform(chunk, unseen)[skip:], None
            if labelled:
                y = encoder.targets(chunk, unlabelled=True, new_classes=True)[skip:]
                encoder = encoder.with_classes(label for label in y.tolist() if label is not None)
            # Up to the end of the batch that waits, and from there on: each row is answered by
            # what was learned before it.
            missing = size - story.waiting
            for start, part in ((0, slice(0, missing)), (missing, slice(missing, None))):
                if len(X[part]):
                    with encoder.out_of_range_named([chunk], first=skip + start):
                        story.tell(X[part], None if y is None else y[part])
            job = job._replace(encoder=encoder)
            bar(row, job.table.n_rows, f"learning: {len(model.models_)} models")
            if stopped:
                raise job.stop(model, f"after row {row}", row=row)
            if time.monotonic() >= saved + job.every:
                job.keep(model, row=row)
                saved = time.monotonic()
    if finish:
        story.finish()
    job.done(model)
    findings = Findings(job.talk)
    _tell_what_happened(findings, story, since, job.output)
    findings.print()


class Story:
    """A continual learner that is shown rows: what it says of them, before and after."""

    def __init__(self, model: Any, size: int, taken: int) -> None:
        self.model = model
        self.size = size  # of a batch
        self.began = taken  # rows of the file, shown before
        self.rows = taken  # shown by now
        self.first = taken - self.waiting  # of the batch at hand; of an earlier file if negative
        self.spans: list[tuple[int, int, Any]] = []  # first row, last row, what was said of them
        self.right = self.asked = 0
        self.told = self.batches  # of which the reports were taken down

    @property
    def batches(self) -> int:
        """Batches that were learned."""
        reports = self.model.reports_ if hasattr(self.model, "_system") else []
        return reports[-1].batch + 1 if reports else 0

    @property
    def waiting(self) -> int:
        """Rows that do not fill a batch yet."""
        return len(self.model._waiting[0]) if hasattr(self.model, "_system") else 0

    def tell(self, X: NDArray, y: NDArray | None) -> None:
        """Ask about rows, and then show them. They are of one batch."""
        if getattr(self.model, "models_", None):
            right, asked = _right(self.model, X, y)
            self.right, self.asked = self.right + right, self.asked + asked
        self.model.partial_fit(X, y)
        self.rows += len(X)
        self._note()

    def finish(self) -> None:
        """Bring all models to their end."""
        self.model.finish()
        self._note()

    def _note(self) -> None:
        """Take down what was said since the last time."""
        for report in self.model.reports_:
            if report.batch >= self.told:
                self.spans.append((max(self.first, 0), self.rows - 1, report))
                self.first = self.rows
        self.told = self.batches


def _last(model: Any) -> Any:
    """Return the last event of a continual learner, None where there is none."""
    return model.events_[-1] if model.events_ else None


def _events_after(model: Any, last: Any) -> list[Any]:
    """Return the events after one; of very many the oldest are gone, and it may be among them."""
    events = model.events_
    places = [i for i, event in enumerate(events) if event is last]
    return events[places[0] + 1 :] if places else events


def _right(model: Any, X: NDArray, y: Any) -> tuple[int, int]:
    """Return how many labelled rows are answered rightly before they are learned, of how many."""
    if y is None or not len(model.classes_):
        return 0, 0
    known = np.array([label is not None for label in y.tolist()], bool)
    if not known.any():
        return 0, 0
    answers = model.predict(X[known]).tolist()
    return sum(a == b for a, b in zip(answers, y[known].tolist(), strict=True)), int(known.sum())


def _tell_what_happened(findings: Findings, story: Story, since: Any, output: Path) -> None:
    """Say which rows were recognized as what, and what became of the models."""
    parts: list[list[Any]] = []  # first row, last row, batches, kind, model
    for first, last, report in story.spans:
        if parts and parts[-1][3:] == [report.kind, report.model]:
            parts[-1][1:3] = [last, parts[-1][2] + 1]
        else:
            parts.append([first, last, 1, report.kind, report.model])
    rows = [
        {"rows": f"{first:,}–{last:,}", "batches": batches, "taken for": kind, "model": number}
        for first, last, batches, kind, number in parts
    ]
    meaning = [MEANING[kind] for kind in MEANING if any(part[3] == kind for part in parts)]
    findings.table("What was recognized", rows, " ".join([f"Batches of {story.size}.", *meaning]))
    if story.waiting:
        note = "More rows will complete their batch; --finish learns them as they are."
        findings.facts("Not learned yet", {"rows that wait for a batch": story.waiting}, note)
    events = [str(event) for event in _events_after(story.model, since)]
    findings.record["Events"] = events
    note = "; ".join([KEPT, *events[-6:]])
    findings.table("Models", model_rows(story.model), f"Written to {output}. {note}")
    if story.asked:
        answers = {"rows with labels": story.asked, "accuracy": story.right / story.asked}
        note = "Each batch is answered first and learned then."
        if story.began:
            note += f" Of the rows from {story.began:,} on, at which it was resumed."
        findings.facts("Answers before learning", answers, note)


def model_rows(model: Any) -> list[dict[str, Any]]:
    """Return a row per model of a system."""
    return [
        {
            "model": one.number,
            "phase": "stable" if one.phase == "stable" else "learning",
            "classes": ", ".join(str(model._labels[code]) for code in one.classes),
            "edges of L0": one.network.n_edges,
            "numbers kept": one.n_parameters,
        }
        for one in model.models_
    ]


# ------------------------------------------------------------------ answers


@app.command
def predict(
    model: ModelPath,
    data: DataFile,
    *,
    output: MaybeOut = None,
    proba: Flag = False,
    novelty: Flag = False,
    escape_formulas: Flag = False,
    unseen: Literal["refuse", "zero"] = "refuse",
    reading: Reading = FOUND_OUT,
    talk: Output = TALKATIVE,
) -> None:
    """Answer every row of a data file, and write the answers as CSV or Parquet.

    The file is streamed: it may be larger than memory. Columns are found by name, others are
    ignored; if the target is among them, the score is told.

    ```
    dirad predict model.dirad new.csv > answers.csv
    dirad predict model.dirad new.parquet -o answers.parquet --proba
    dirad predict plant.dirad today.csv --novelty    # which model answers, and how new a row is
    ```

    Parameters
    ----------
    output
        The file to write, .csv, .tsv or .parquet [default: CSV to standard output].
    proba
        Write the probability of each class too.
    novelty
        Of a continual model: write which model answers, how new the row is to it, in deviations
        of what is usual, and whether it is known (of known rows 5 % are called unknown).
    escape_formulas
        Put an apostrophe before text that a spreadsheet would take for a formula, since it begins
        with = + - @ or a tab: for answers of models or data that you do not trust, in CSV or TSV.
    unseen
        What to do with a category that training did not show.
    """
    from dirad.storage import read
    from dirad.tables import TableWriter

    found = read(model)
    encoder = encoder_of(found, model)
    continual = hasattr(found.model, "novelty")
    check_begun(found, model)
    if novelty and not continual:
        raise Usage(f"--novelty needs a continual model, and {model} is one network")
    if proba and not hasattr(found.model, "predict_proba"):
        raise Usage(f"--proba needs classes, and {model} predicts numbers")
    if output is None and talk.json:
        raise Usage("--json prints the score alone, so that the answers need a file: --output")
    if output is not None:
        check_place(output, data, model)
    if escape_formulas and output is not None and output.suffix.lower() in PARQUET:
        raise Usage(
            f"--escape-formulas is for CSV and TSV: {output} keeps text apart from formulas"
        )
    table = opened(data, reading)
    _tell_ignored(encoder, table, talk)
    labelled = encoder.target.name in table.names
    sums = np.zeros(4)  # rows, right or squared errors, Σy, Σy²
    done = 0
    with (
        TableWriter(output or raw_stdout(), escape_formulas=escape_formulas) as writer,
        _bar(talk, "answering", "rows") as bar,
    ):
        for chunk in table.chunks(ROWS):
            X = encoder.transform(chunk, unseen)
            answers = found.model.predict(X)
            columns: dict[str, Any] = {"prediction": answers}
            if proba:
                chances = found.model.predict_proba(X)
                for name, column in zip(found.model.classes_.tolist(), chances.T, strict=True):
                    columns[f"p({name})"] = column
            if novelty:
                columns |= {"model": found.model.route(X), "novelty": found.model.novelty(X)}
                columns["known"] = found.model.is_known(X, FALSE_ALARMS)
            writer.write(columns)
            if labelled:
                y = encoder.targets(chunk, unlabelled=True, new_classes=True)
                sums += _sums(answers, y, encoder.target.task == "regression")
            done += len(chunk)
            bar(done, table.n_rows, "answering")
    about: dict[str, Any] = {"rows": done}
    if sums[0]:
        about |= _summary(sums, encoder.target.task == "regression")
    if output is not None:
        findings = Findings(talk)
        findings.facts("Answers", {"file": str(output)} | about)
        findings.print()
    elif sums[0]:
        score = ", ".join(f"{name} {value:.4g}" for name, value in about.items())
        stderr(talk).print(score, highlight=False, markup=False)


def _sums(answers: NDArray, y: NDArray, numbers: bool) -> NDArray[np.float64]:
    if numbers:
        given = ~np.isnan(y)
        answers, y = answers[given], y[given]
        return np.array([len(y), np.sum((answers - y) ** 2), y.sum(), np.sum(y**2)], float)
    pairs = zip(answers.tolist(), y.tolist(), strict=True)
    known = [a == b for a, b in pairs if b is not None]
    return np.array([len(known), sum(known), 0, 0], float)


def _summary(sums: NDArray, numbers: bool) -> dict[str, float]:
    n, found, total, squares = sums.tolist()
    if not numbers:
        return {"accuracy": found / n}
    spread = squares - total**2 / n
    result = {"RMSE": (found / n) ** 0.5}
    return result if spread <= 0 else {"R²": 1.0 - found / spread} | result


# ------------------------------------------------------------------ what they share


def opened(data: Path, reading: Reading) -> "Table":
    """Return a data file as a table."""
    from dirad.tables import open_table

    return open_table(data, **vars(reading))


def _origin(table: "Table", seed: Any, before: Any = None) -> dict[str, Any]:
    """Return where a model comes from: its seed, and all files that it was shown."""
    from dirad.tables import digest

    files = table.files or (table.path,)
    shown = [{"file": path.name, "sha256": digest(path)} for path in files]
    return {"seed": seed, "data": [*(before if isinstance(before, list) else ()), *shown]}


def encoder_of(found: "ModelFile", path: Path) -> "Encoder":
    """Return how a model's data files are read, if that fits the model."""
    from dirad.storage import ModelError
    from dirad.tables import Encoder

    if found.encoder is None:
        raise Usage(
            f"{path} was made in Python, not from a data file, so that its columns are not known: "
            f"dirad.load({str(path)!r}) gives the model back there"
        )
    try:
        encoder = Encoder.from_json(found.encoder)
    except OverflowError as error:
        raise ModelError(f"{path}: not a sound encoder: a number is too large") from error
    except ValueError as error:
        raise ModelError(f"{path}: {error}") from error
    problem = _misfit(encoder, found.model)
    if problem:
        raise ModelError(f"{path}: its columns do not fit its model ({problem})")
    return encoder


def _misfit(encoder: "Encoder", model: Any) -> str:
    """Say why an encoder cannot be that of a model; nothing where it can."""
    names, target = encoder.feature_names, encoder.target
    if len(names) != model.n_features_in_:
        return f"{len(names)} names for {model.n_features_in_} inputs"
    if (target.task == "regression") == hasattr(model, "classes_"):
        return f"{target.task}, by a {type(model).__name__}"
    kind = {"number": int, "boolean": bool, "category": str}[target.kind]
    if any(type(label) is not kind for label in getattr(model, "classes_", np.zeros(0)).tolist()):
        return f"other classes than {target.kind}"
    return ""


def check_begun(found: "ModelFile", path: Path) -> None:
    """Refuse a continual model that has not learned anything yet."""
    model = found.model
    if not getattr(model, "models_", (model,)):
        raise Usage(
            f"{path} has no model yet: {len(model._waiting[0])} rows wait for a batch of "
            f"{model._settings.l0.batch_size}; dirad learn {path} --finish learns them"
        )


def _tell_ignored(encoder: "Encoder", table: "Table", talk: Output) -> None:
    ignored = encoder.ignored(table)
    if ignored:
        names = ", ".join(ignored[:5]) + (" and others" if len(ignored) > 5 else "")
        text = f"ignored columns of {table.path}: {names}"
        stderr(talk).print(text, highlight=False, markup=False)


def check_place(output: Path, *read: Path | None) -> None:
    """Refuse a file that could not be written, or that is read, before anything is computed."""
    try:
        destination(output)
    except OSError as error:
        raise Usage(f"--output {output}: {error.strerror}") from None
    _check_not_read(output, *read)


def _check_not_read(output: Path, *read: Path | None) -> None:
    for path in read:
        if path is not None and output.exists() and path.exists() and output.samefile(path):
            raise Usage(f"--output {output}: this is the file that is read; name another")


def _need(table: "Table", option: str, names: Sequence[str]) -> None:
    """Refuse an option that names a column which is not there."""
    from dirad.tables import TableError

    for name in names:
        try:
            table.require(name)
        except TableError as error:
            raise Usage(f"{option}: {error}") from None


def _check_same(job: Job, model: Any, fresh: Any) -> None:
    """Refuse a checkpoint of another command."""
    if type(model) is not type(fresh) or model.get_params() != fresh.get_params():
        raise Usage(f"--resume: {job.checkpoint} is of a fit with other options")


def _checkpoint(job: Job) -> "ModelFile":
    """Return what the same command left when it was stopped."""
    from dirad.storage import read

    if not job.checkpoint.exists():
        why = "what was stopped before its first step begins again without --resume"
        if job.output.exists():
            why = f"{job.output} is finished; without --resume it begins anew"
        raise Usage(f"--resume: there is no {job.checkpoint}; {why}")
    found = read(job.checkpoint)
    if found.provenance.get("data") != job.origin["data"]:
        raise Usage(f"--resume: {job.checkpoint} is of other data")
    other = _other_columns(encoder_of(found, job.checkpoint), job.encoder)
    for name, value in job.terms.items():
        # What was refused so far may be taken from here on: there was none of it.
        if found.provenance.get(name, value) != value and (name, value) != ("--unseen", "zero"):
            other = other or f"another {name}"
    if other:
        raise Usage(f"--resume: {job.checkpoint} is of a command with {other}")
    return found


def _other_columns(old: "Encoder", new: "Encoder") -> str:
    """Say in what two encoders of one file differ, classes apart; nothing where they agree."""
    if old.target.name != new.target.name:
        return f"another --target, {old.target.name!r}"
    if old.target.task != new.target.task:
        return f"another --task, {old.target.task}"
    names = [[field.name for field in encoder.inputs] for encoder in (old, new)]
    if names[0] != names[1]:
        return "other columns (--drop, --header, --delimiter)"
    kinds = [
        [encoder.target.kind, *((field.kind, field.categories) for field in encoder.inputs)]
        for encoder in (old, new)
    ]
    if kinds[0] != kinds[1]:
        return "another --category"
    return "" if old.inputs == new.inputs else "another --impute"


@contextmanager
def _interruptions() -> Iterator[Sequence[int]]:
    """Yield a list that is empty until the user presses Ctrl-C; a second time stops at once."""
    caught: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        if caught:
            raise KeyboardInterrupt
        caught.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _bar(talk: Output, text: str, unit: str) -> Iterator[Any]:
    """Show a bar with the time left; yield the function that moves it."""
    console = stderr(talk)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,} " + unit),
        TimeElapsedColumn(),
        TextColumn("gone,"),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=console,
        disable=talk.quiet or not console.is_terminal,
        transient=True,
    ) as bar:
        task = bar.add_task(text, total=None)
        yield lambda done, total, said: bar.update(
            task, completed=done, total=total, description=said
        )
