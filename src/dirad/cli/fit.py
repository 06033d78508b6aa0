"""The command `dirad fit`: grow a network, or start a continual model, from a data file."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from cyclopts import Parameter
from cyclopts.validators import Number

from dirad.cli.app import (
    TALKATIVE,
    Flag,
    NaturalInt,
    Output,
    PositiveInt,
    Preset,
    Usage,
    app,
    spinner,
    warm_up,
)
from dirad.cli.checkpoint import Job, claimed_output, provenance_of
from dirad.cli.files import check_output, open_data, ordered, scores
from dirad.cli.for_bytes import check_max_bytes, compact_scores, grown_for_bytes
from dirad.cli.learn import learn_rows
from dirad.cli.options import (
    DETECTED,
    NO_RESUME,
    Checkpoints,
    ColumnNames,
    DataFile,
    OutputFile,
    Reading,
)
from dirad.cli.printing import Findings, progress

if TYPE_CHECKING:
    from dirad.tables import Encoder, Table

STEPS = 500  # steps of growth between two pauses, in which a fit can be stopped
TEST_SHARE = 0.2


@Parameter(name="*")
@dataclass(frozen=True)
class Columns:
    """Which column to predict, and how the others are used."""

    target: str
    """The column to predict."""
    task: Literal["auto", "classification", "regression"] = "auto"
    """auto: classification if the target holds text, true and false, or few distinct whole numbers;
    otherwise regression."""
    drop: ColumnNames = None
    """A column that is not an input; can be repeated."""
    category: ColumnNames = None
    """A column whose numbers are codes; can be repeated."""
    impute: Literal["median"] | None = None
    """Replace missing values by the median, or by the most frequent category [default: the network
    learns what a missing value means; --preset paper refuses them]."""


@Parameter(name="*")
@dataclass(frozen=True)
class Growth:
    """How the network is grown and tested."""

    preset: Preset = "default"
    """The default settings, or those of the paper."""
    max_edges: PositiveInt | None = None
    """Largest number of edges [default: as many as improve the network]."""
    max_bytes: PositiveInt | None = None
    """Grow for so many bytes of flash, model and code, on a microcontroller; the model file also
    holds the network in these bytes, for `dirad export --to c --bytes`."""
    committee: PositiveInt = 1
    """Networks that are grown and averaged: larger, and more accurate where data are noisy."""
    structure: Literal["auto", "compact", "wide"] = "auto"
    """A compact network, a wide one (larger, often better on noisy tables); auto compares both."""
    test: Annotated[float | None, Parameter(validator=Number(gte=0, lt=1))] = None
    """Share of the rows that are only used for testing; 0 for none [default: 0.2]."""
    seed: NaturalInt = 0
    """Random seed: the same seed and data give the same network."""


@Parameter(name="*")
@dataclass(frozen=True)
class Stream:
    """How rows are learned as a stream."""

    continual: Flag = False
    """Learn the rows as a stream whose tasks may change."""
    batch_size: PositiveInt | None = None
    """With --continual: rows that are learned together [default: 200]."""
    begin: PositiveInt | None = None
    """With --continual: rows of a new task before it can be recognized [default: 200]."""
    finish: Flag = False
    """With --continual: finish all models now, so that they can be exported."""
    gaps: Flag = False
    """With --continual: values may be missing later, also if none is in this file [default: if the
    file has a text column or a missing value, any column may have missing values later]."""
    time: str | None = None
    """With --continual: a column that orders the rows, and is not an input. It holds numbers or ISO
    8601 date-times, and none may be missing. Rows that are not in order of time are sorted in
    memory; in a file of more than 5 million values they are an error. Rows of the same time keep
    their order."""


GROW_BY_DEFAULT = Growth()
NO_STREAM = Stream()


@app.command
def fit(
    data: DataFile,
    *,
    columns: Columns,
    output: Annotated[OutputFile, Parameter(help="The model file to write.")] = Path("model.dirad"),
    growth: Growth = GROW_BY_DEFAULT,
    stream: Stream = NO_STREAM,
    checkpoints: Checkpoints = NO_RESUME,
    reading: Reading = DETECTED,
    talk: Output = TALKATIVE,
) -> None:
    """Grow a network that predicts a column of a data file, and save it as a model file.

    Each category of a text column becomes an input. Values may be missing. `dirad predict` finds
    the columns by name later. A share of the rows (`--test`) is set aside to measure how good the
    network is; the network is never fitted to them (but categories, and medians of `--impute`, come
    from all rows).

    With `--continual` the rows are learned in order, as a stream: changes of the task are detected
    without being announced, and each task gets its own model. `dirad learn` continues with more
    files. `--time` names a column that orders the rows; otherwise they are in order already.

    A fit that was stopped by Ctrl-C, or killed, continues with `--resume` and gives the same
    network. The model so far is in a file whose name ends in `.checkpoint`.

    ```
    dirad fit flowers.csv --target species
    dirad fit houses.parquet --target price --max-edges 30 -o price.dirad
    dirad fit train-images-idx3-ubyte.gz --target label     # finds the file of labels beside it
    dirad fit people.csv --target income --drop id --drop name
    dirad fit day1.csv --target fault --continual -o plant.dirad
    dirad fit day1.csv --target fault --continual --time recorded -o plant.dirad
    ```
    """
    _check_options(columns, growth, stream, resume=checkpoints.resume)
    check_output(output, data, reading.labels)
    table = open_data(data, reading)
    encoder = _encoder(table, columns, growth.preset != "paper", stream)
    table = ordered(table, encoder, talk)
    with claimed_output(output) as is_unchanged:
        test = TEST_SHARE if growth.test is None else growth.test
        conditions = {} if stream.continual else {"--test": test}
        provenance, every = provenance_of(table, growth.seed), checkpoints.checkpoint_every
        job = Job(table, encoder, output, is_unchanged, provenance, conditions, every, talk)
        model = job.read_checkpoint().model if checkpoints.resume else None
        if stream.continual:
            _fit_stream(job, model, growth, stream)
        else:
            _fit_network(job, model, growth, test)


def _check_options(columns: Columns, growth: Growth, stream: Stream, *, resume: bool) -> None:
    """Refuse options that contradict each other."""
    if columns.target in (columns.drop or ()):
        raise Usage(f"--drop {columns.target}: this is the target")
    if stream.time is not None and stream.time == columns.target:
        raise Usage(f"--time {stream.time}: this is the target")
    if stream.time is not None and stream.time in (columns.category or ()):
        raise Usage(f"--category {stream.time}: this is the column of --time, not an input")
    if stream.continual:
        _check_continual_options(growth)
    elif growth.max_bytes is not None:
        check_max_bytes(growth.max_edges, growth.preset, growth.committee, growth.structure)
        if resume:
            raise Usage("--resume: a fit with --max-bytes writes no checkpoints; fit without it")
    elif stream.finish:
        raise Usage("--finish needs --continual: a single network is always finished")
    elif stream.gaps:
        raise Usage("--gaps needs --continual: a single network sees all rows at once")
    elif stream.time is not None:
        raise Usage(
            "--time needs --continual: a single network does not depend on the order of rows; "
            "--drop leaves the column out"
        )
    elif stream.batch_size is not None or stream.begin is not None:
        option = "--begin" if stream.batch_size is None else "--batch-size"
        raise Usage(f"{option} needs --continual: a single network sees all rows at once")


def _check_continual_options(growth: Growth) -> None:
    """Refuse options that make no sense for a stream."""
    from dirad.preval.settings import PRESETS

    if growth.preset == "paper":
        raise Usage(
            "--preset paper: its networks need an output for every class from the start, and the "
            "classes of a stream are not known in advance; in Python, PREVALClassifier takes them "
            "as `classes`"
        )
    if growth.max_edges is not None:
        limits = PRESETS[growth.preset]
        raise Usage(
            "--max-edges: the networks of --continual have their own limits "
            f"({limits.l0.max_edges} edges for L0, {limits.l1.max_edges} for each pathway of L1); "
            "in Python, PREVALClassifier takes others as `l0` and `l1`"
        )
    if growth.max_bytes is not None:
        raise Usage("--max-bytes: only a single network can be grown for a number of bytes")
    if growth.committee > 1:
        raise Usage("--committee: --continual grows a network for every task, not several")
    if growth.structure != "auto":
        raise Usage("--structure: the networks of --continual are compact")
    if growth.test is not None:
        raise Usage(
            "--test: a stream sets no rows aside; instead, each batch is predicted before it is "
            "learned, and how good the predictions were is printed"
        )


def _encoder(table: "Table", columns: Columns, accept_missing: bool, stream: Stream) -> "Encoder":
    """Fit the encoder; an error about a column that does not exist names the option."""
    from dirad.tables import Encoder, TableError

    drop, category = columns.drop or [], columns.category or []
    named = {"--target": [columns.target], "--drop": drop, "--category": category}
    named["--time"] = [] if stream.time is None else [stream.time]
    for option, names in named.items():
        for name in names:
            try:
                table.require(name)
            except TableError as error:
                raise Usage(f"{option}: {error}") from None
    return Encoder.fit(
        table,
        columns.target,
        columns.task,
        columns.impute,
        drop,
        categories=category,
        accept_missing=accept_missing,
        time=stream.time,
        stream=stream.continual,
    )


def _fit_stream(job: Job, model: Any, growth: Growth, stream: Stream) -> None:
    """Let a continual model learn the rows of its first file."""
    from dirad import PREVALClassifier, PREVALRegressor

    warm_up(job.talk, growth.preset)
    is_classifier = job.encoder.target.task == "classification"
    kind = PREVALClassifier if is_classifier else PREVALRegressor
    mixed = stream.gaps or job.encoder.is_mixed(job.table)
    fresh = kind(
        random_state=growth.seed,
        batch_size=stream.batch_size,
        begin=stream.begin,
        missing_features=job.encoder.number_features if mixed else "auto",
    )
    n_learned = 0
    if model is not None:
        job.require_same(model, fresh)
        n_learned = model.n_samples_seen_
    learn_rows(job, model or fresh, n_learned, finish=stream.finish)


def _fit_network(job: Job, model: Any, growth: Growth, test: float) -> None:
    """Grow one network, with checkpoints."""
    from dirad import DIRADClassifier, DIRADRegressor
    from dirad.encoding import with_medians
    from dirad.estimators.growing import progress_of

    X, X_test, y, y_test = _split(job, test, growth.seed)
    warm_up(job.talk, growth.preset)
    is_classifier = job.encoder.target.task == "classification"
    kind = DIRADClassifier if is_classifier else DIRADRegressor
    fresh = kind(
        preset=growth.preset,
        max_edges=growth.max_edges,
        committee=growth.committee,
        structure=growth.structure,
        random_state=growth.seed,
    )
    grown = None
    if growth.max_bytes is not None:
        grown = grown_for_bytes(fresh, X, y, growth.max_bytes, growth.seed, job.talk)
        model = grown.model
    elif model is None:
        with spinner(job.talk, "choosing a structure"):
            model = fresh.fit(X, y, steps=STEPS)
    else:
        job.require_same(model, fresh)
    with job.pauses() as pause, progress(job.talk, "growing", "steps") as show:
        while not model.is_stable_:
            place, steps, most = progress_of(model)
            show(steps, most, f"growing: {place}{model.n_edges_} edges")
            pause(model, f"at step {model.n_steps_}")
            model.resume(X, y, steps=STEPS)
    measured = scores(model, X_test, y_test)
    stored, about_bytes = {}, {}
    if grown is not None:
        stored, about_bytes = grown.stored, grown.facts
        measured |= compact_scores(grown.answers, X_test, y_test)
    filled = with_medians(X)
    ranges = {"low": filled.min(axis=0).tolist(), "high": filled.max(axis=0).tolist()}
    known = {"rows": len(X), "test rows": len(X_test)} | measured | ranges | stored
    job.save_model(model, **known)
    if measured:
        measured = {"test rows": len(X_test)} | measured
    note = ""
    if is_classifier and len(np.unique(y)) > 2 and np.asarray(y.tolist()).dtype.kind in "if":
        note = "The target's numbers are treated as classes; --task regression predicts numbers."
    findings = Findings(job.talk)
    findings.facts("What was grown", _facts(job, model, len(X)) | measured | about_bytes, note)
    findings.print()


def _split(job: Job, test: float, seed: int) -> tuple[Any, Any, Any, Any]:
    """Return inputs to fit and to test, and their targets: X, X_test, y, y_test."""
    from dirad.tables import TableError

    X, y = job.encoder.read(job.table)
    X_test, y_test = X[:0], y[:0]
    is_classifier = job.encoder.target.task == "classification"
    if test:
        from sklearn.model_selection import train_test_split

        can_stratify = is_classifier and np.unique(y, return_counts=True)[1].min() > 1
        strata = y if can_stratify else None
        try:
            parts: Any = train_test_split(X, y, test_size=test, random_state=seed, stratify=strata)
        except ValueError as error:
            raise Usage(f"--test {test}: {error}") from None
        X, X_test, y, y_test = parts
    if is_classifier and len(np.unique(y)) < 2:
        raise TableError(
            f"{job.table.path}, column {job.encoder.target.name!r}: the {len(y)} rows to fit all "
            f"have the class {y.tolist()[0]!r}, so there is nothing to learn"
        )
    return X, X_test, y, y_test


def _facts(job: Job, model: Any, n_rows: int) -> dict[str, Any]:
    """Return what was fitted, and how large it is."""
    return {
        "model": str(job.output),
        "target": job.encoder.target.name,
        "task": job.encoder.target.task,
        "rows": n_rows,
        "inputs": model.n_features_in_,
        "edges": model.n_edges_,
        "hidden nodes": model.n_hidden_,
        "parameters": model.n_parameters_,
        "steps": model.n_steps_,
    }
