"""The results of the comparison as tables."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import numpy as np
from scipy.stats import rankdata

from dirad.report.tables import Section
from dirad.streams.averages import mean, standard_error
from experiments.tabular.catalogue import BY_NAME, Task
from experiments.tabular.methods import BOOSTING, METHODS
from experiments.tabular.run import Run

Row = dict[str, Any]
NAN = float("nan")
BYTES = 4  # of a stored number

SUMMARY_NOTE = (
    "Mean rank: by the mean score of the folds, over all data sets and by task; 1 is best. A "
    "method that was not run on a data set has no rank there, and the others are ranked without "
    "it. Near the best: data sets on which the mean score is at most one standard error of the "
    "best method's below it. Numbers stored: weights, thresholds and values, and the indices that "
    "say what belongs together. Bytes: of DIRAD the constants of its exported C, of others four "
    "per stored number. Seconds of the processor, one thread: fitting with the chosen settings; "
    "predicting 1,000 rows in one call. Sizes, seconds and their ratios to boosting are medians "
    "over data sets. EBM: explainable boosting. Tree: one that stores no more numbers than DIRAD "
    "on the same fold."
)
SCORE_NOTE = "Mean over the outer folds ± its standard error. The best of a row has an asterisk."
LOSS_NOTE = (
    "In nats per row, mean over the outer folds ± its standard error; the best has an asterisk. "
    "Probabilities of 0 count as 2·10⁻¹⁶: a leaf of a single class is punished for its certainty."
)


def of(runs: Sequence[Run], data: str, method: str) -> list[Run]:
    """Return the folds of a method on a data set."""
    return [one for one in runs if one.data == data and one.method == method]


def data_of(runs: Sequence[Run], task: Task | None = None) -> list[str]:
    """Return the data sets of a task, or of both, in the order of the list."""
    present = {one.data for one in runs}
    return [name for name in BY_NAME if name in present and task in (None, BY_NAME[name].task)]


def methods_of(runs: Sequence[Run], data: str | None = None) -> list[str]:
    """Return the methods, or those that were run on a data set, in the order of their list."""
    present = {one.method for one in runs if data in (None, one.data)}
    return [method for method in METHODS if method in present]


def data_with(runs: Sequence[Run], method: str, task: Task | None = None) -> list[str]:
    """Return the data sets on which a method was run."""
    return [name for name in data_of(runs, task) if method in methods_of(runs, name)]


def mean_scores(runs: Sequence[Run], data: str) -> dict[str, float]:
    """Return the mean score of each method that was run on a data set."""
    return {
        method: mean(one.score for one in of(runs, data, method))
        for method in methods_of(runs, data)
    }


def ranks(runs: Sequence[Run], data: str) -> dict[str, float]:
    """Return the rank of each method on a data set; equal scores share their mean rank."""
    found = mean_scores(runs, data)
    return dict(zip(found, rankdata([-score for score in found.values()]).tolist(), strict=True))


def near_best(runs: Sequence[Run], data: str) -> set[str]:
    """Return the methods at most one standard error of the best method's below it."""
    found = mean_scores(runs, data)
    best = max(found, key=lambda method: found[method])
    error = standard_error(one.score for one in of(runs, data, best))
    limit = found[best] - (0.0 if np.isnan(error) else error)
    return {method for method, score in found.items() if score >= limit}


def score_table(runs: Sequence[Run], task: Task) -> Section:
    """Return accuracy or R² of every method on every data set."""
    title = "Accuracy" if task == "classification" else "R²"
    rows = [_row(runs, name, lambda one: one.score, 1) for name in data_of(runs, task)]
    return Section(title, rows, SCORE_NOTE)


def loss_table(runs: Sequence[Run]) -> Section:
    """Return the log loss of every method on every data set of classification."""
    names = data_of(runs, "classification")
    rows = [_row(runs, name, lambda one: one.log_loss, -1) for name in names]
    return Section("Log loss", rows, LOSS_NOTE)


def _row(runs: Sequence[Run], data: str, value: Callable[[Run], float], sign: int) -> Row:
    """Return means and standard errors of all methods; the one best by `sign` is marked."""
    present = methods_of(runs, data)
    found = {method: [value(one) for one in of(runs, data, method)] for method in present}
    best = max(sign * mean(values) for values in found.values())
    texts = {
        method: _text(values) + ("*" if sign * mean(values) == best else "")
        for method, values in found.items()
    }
    return {"data": data} | {method: texts.get(method, "–") for method in methods_of(runs)}


def _text(values: Sequence[float]) -> str:
    error = standard_error(values)
    return f"{mean(values):.4f}" + ("" if np.isnan(error) else f" ± {error:.4f}")


def summary_table(runs: Sequence[Run]) -> Section:
    """Return ranks, sizes and times of each method over all data sets."""
    rank = {name: ranks(runs, name) for name in data_of(runs)}
    near = {name: near_best(runs, name) for name in data_of(runs)}
    rows: list[Row] = []
    for method in methods_of(runs):
        names = data_with(runs, method)
        row: Row = {"method": method}
        row["mean rank"] = f"{mean(rank[name][method] for name in names):.2f}"
        for task in ("classification", "regression"):
            if data_of(runs, task):
                some = data_with(runs, method, task)
                row[f"of {task}"] = (
                    f"{mean(rank[name][method] for name in some):.2f}" if some else "–"
                )
        rows.append(
            row
            | {
                "near the best": f"{sum(method in near[name] for name in names)} of {len(names)}",
                "numbers stored": f"{_median(runs, names, method, _stored):,.0f}",
                "ratio of numbers": _ratio(runs, names, method, _stored),
                "bytes": f"{_median(runs, names, method, _bytes):,.0f}",
                "seconds of fitting": f"{_median(runs, names, method, _fitting):.3g}",
                "ratio of seconds": _ratio(runs, names, method, _fitting),
                "predicting 1,000 rows": f"{_median(runs, names, method, _predicting):.2g}",
            }
        )
    return Section("All data sets", rows, SUMMARY_NOTE)


def _stored(one: Run) -> float:
    return one.stored


def _bytes(one: Run) -> float:
    return BYTES * one.stored if np.isnan(one.c_bytes) else one.c_bytes


def _fitting(one: Run) -> float:
    return one.seconds["fitting"]


def _predicting(one: Run) -> float:
    return 1000 * one.seconds["predicting"]


def _median(
    runs: Sequence[Run], names: Sequence[str], method: str, value: Callable[[Run], float]
) -> float:
    return median(mean(value(one) for one in of(runs, name, method)) for name in names)


def _ratio(
    runs: Sequence[Run], names: Sequence[str], method: str, value: Callable[[Run], float]
) -> str:
    """Return the median ratio to boosting, or a dash if boosting was not run."""
    found = [
        mean(value(one) for one in of(runs, name, method))
        / mean(value(one) for one in of(runs, name, BOOSTING))
        for name in names
        if BOOSTING in methods_of(runs, name)
    ]
    return f"{median(found):.3g}" if found else "–"


def settings_table(runs: Sequence[Run]) -> Section:
    """Return the settings of each method, and in how many folds each was chosen."""
    rows = []
    for method in methods_of(runs):
        chosen = Counter(one.settings for one in runs if one.method == method)
        for settings in METHODS[method].settings:
            text = ", ".join(f"{name} {value}" for name, value in settings.items())
            rows.append(
                {
                    "method": method,
                    "settings": text or "as they are",
                    "chosen": f"{chosen[json.dumps(settings)]} of {chosen.total()}",
                }
            )
    note = "Tuned by three inner folds of each training part, with the same folds for all methods."
    return Section("Settings", rows, note)


def data_table(names: Sequence[str]) -> Section:
    """Return the data sets."""
    rows = [
        {
            "data": data.name,
            "rows": f"{data.rows:,}",
            "inputs": data.inputs,
            "categorical": data.categorical,
            "missing cells": f"{data.missing:,}",
            "classes": data.classes or "–",
            "target": data.target,
            "source": data.source,
            "SHA-256 begins": data.checksum[:8],
        }
        for data in (BY_NAME[name] for name in names)
    ]
    return Section(
        "Data sets", rows, "Chosen by a rule, before the comparison ran any method on them."
    )


def sections(runs: Sequence[Run]) -> list[Section]:
    """Return the whole page."""
    found = [
        summary_table(runs),
        score_table(runs, "classification"),
        score_table(runs, "regression"),
        loss_table(runs),
        settings_table(runs),
        data_table(data_of(runs)),
    ]
    return [section for section in found if section.rows]
