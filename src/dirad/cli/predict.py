"""The command `dirad predict`: predict every row of a data file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from cyclopts import Parameter
from numpy.typing import NDArray

from dirad.cli.app import TALKATIVE, Flag, Output, Usage, app, raw_stdout
from dirad.cli.files import check_output, encoder_of, open_data, require_begun, tell_ignored
from dirad.cli.options import (
    DETECTED,
    DataFile,
    ModelPath,
    OptionalOutputFile,
    Reading,
    Unseen,
)
from dirad.cli.printing import Findings, notice, progress

ROWS = 2000  # rows of a file that are predicted at a time
FALSE_ALARMS = 0.05  # share of known rows that are called unknown
PARQUET = (".parquet", ".pq")


@Parameter(name="*")
@dataclass(frozen=True)
class Extra:
    """What to write besides the predictions, and how."""

    proba: Flag = False
    """Also write the probability of each class."""
    novelty: Flag = False
    """For a continual model: also write which of its models answers, how new the row is to it (in
    standard deviations from rows that it knows), and whether the row is known. 5 % of the rows of
    known tasks are called unknown."""
    escape_formulas: Flag = False
    """In CSV and TSV: put an apostrophe before text that starts with = + - @ or a tab, because a
    spreadsheet would run it as a formula. Use it for models or data that you do not trust."""


NO_EXTRA = Extra()


@app.command
def predict(
    model: ModelPath,
    data: DataFile,
    *,
    output: OptionalOutputFile = None,
    extra: Extra = NO_EXTRA,
    unseen: Unseen = "refuse",
    reading: Reading = DETECTED,
    talk: Output = TALKATIVE,
) -> None:
    """Predict every row of a data file, and write the predictions as CSV or Parquet.

    The file may be larger than memory. Columns are found by name, and other columns are ignored. If
    the file contains the target, the accuracy (or R² and RMSE) is printed too.

    ```
    dirad predict model.dirad new.csv > answers.csv
    dirad predict model.dirad new.parquet -o answers.parquet --proba
    dirad predict plant.dirad today.csv --novelty    # which model answers, and how new a row is
    ```

    Parameters
    ----------
    output
        The file to write: .csv, .tsv or .parquet [default: CSV to standard output].
    unseen
        How to treat a category that training did not contain: refuse it, or encode it as 0.
    """
    from dirad.storage import read
    from dirad.tables import TableWriter

    found = read(model)
    encoder = encoder_of(found, model)
    require_begun(found, model)
    answers = found.fitted.answers
    _check_model(answers, model, extra)
    _check_output(output, (data, model), extra, talk)
    table = open_data(data, reading)
    tell_ignored(encoder, table, talk)
    score = RunningScore(encoder.target.task == "regression")
    has_targets = encoder.target.name in table.names
    n_rows = 0
    with (
        TableWriter(output or raw_stdout(), escape_formulas=extra.escape_formulas) as writer,
        progress(talk, "predicting", "rows") as show,
    ):
        for chunk in table.chunks(ROWS):
            X = encoder.transform(chunk, unseen)
            columns = _predictions(answers, X, extra)
            writer.write(columns)
            if has_targets:
                y = encoder.targets(chunk, unlabelled=True, new_classes=True)
                score.add(columns["prediction"], y)
            n_rows += len(chunk)
            show(n_rows, table.n_rows, "predicting")
    _print(output, {"rows": n_rows} | score.result(), talk)


def _check_model(model: Any, path: Path, extra: Extra) -> None:
    """Refuse columns that this model cannot give."""
    if extra.novelty and not hasattr(model, "novelty"):
        raise Usage(f"--novelty needs a continual model, and {path} is a single network")
    if extra.proba and not hasattr(model, "predict_proba"):
        raise Usage(f"--proba needs classes, and {path} predicts numbers")


def _check_output(
    output: Path | None, inputs: tuple[Path, ...], extra: Extra, talk: Output
) -> None:
    """Refuse options that do not fit where the predictions are written."""
    if output is None:
        if talk.json:
            raise Usage("--json prints only the score, so the predictions need a file: --output")
        return
    check_output(output, *inputs)
    if extra.escape_formulas and output.suffix.lower() in PARQUET:
        raise Usage(
            f"--escape-formulas is for CSV and TSV: in {output}, text is never taken for a formula"
        )


def _predictions(model: Any, X: NDArray, extra: Extra) -> dict[str, Any]:
    """Return the columns to write for these inputs."""
    columns = {"prediction": model.predict(X)}
    if extra.proba:
        for name, p in zip(model.classes_.tolist(), model.predict_proba(X).T, strict=True):
            columns[f"p({name})"] = p
    if extra.novelty:
        columns |= {"model": model.route(X), "novelty": model.novelty(X)}
        columns["known"] = model.is_known(X, FALSE_ALARMS)
    return columns


def _print(output: Path | None, facts: dict[str, Any], talk: Output) -> None:
    """Print the score; if standard output holds the predictions, to standard error."""
    if output is not None:
        findings = Findings(talk)
        findings.facts("Answers", {"file": str(output)} | facts)
        findings.print()
    elif len(facts) > 1:
        notice(talk, ", ".join(f"{name} {value:.4g}" for name, value in facts.items()))


class RunningScore:
    """The accuracy, or R² and RMSE, of predictions that arrive chunk by chunk."""

    def __init__(self, regression: bool) -> None:
        self.regression = regression
        self.n = 0  # rows with a target
        self.n_right = 0
        self.squared_error = self.sum_y = self.sum_y2 = 0.0

    def add(self, predictions: NDArray, y: NDArray) -> None:
        """Include some rows; a missing target (None or NaN) does not count."""
        if self.regression:
            given = ~np.isnan(y)
            predictions, y = predictions[given], y[given]
            self.n += len(y)
            self.squared_error += float(np.sum((predictions - y) ** 2))
            self.sum_y += float(y.sum())
            self.sum_y2 += float(np.sum(y**2))
            return
        pairs = zip(predictions.tolist(), y.tolist(), strict=True)
        right = [predicted == label for predicted, label in pairs if label is not None]
        self.n += len(right)
        self.n_right += sum(right)

    def result(self) -> dict[str, float]:
        """Return the score; empty if no row had a target."""
        if self.n == 0:
            return {}
        if not self.regression:
            return {"accuracy": self.n_right / self.n}
        rmse = {"RMSE": (self.squared_error / self.n) ** 0.5}
        spread = self.sum_y2 - self.sum_y**2 / self.n
        return rmse if spread <= 0 else {"R²": 1.0 - self.squared_error / spread} | rmse
