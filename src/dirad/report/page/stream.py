"""A stream as data for the page: the timeline, and which model predicts which samples."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dirad.plot.data import moments_of, routing
from dirad.preval.events import MIXED, NEW, InputChange, reasons
from dirad.report.page.numbers import short

if TYPE_CHECKING:
    from dirad.estimators import PREVALClassifier

MAX_CHANGES = 3  # of inputs, that the page names
MAX_ROWS = 1000  # of a table of changes


def timeline_data(
    estimator: "PREVALClassifier", names: Sequence[str] | None = None
) -> dict[str, Any] | None:
    """Return the model, verdict and p-value of each batch, the reasons, and all events.

    `names` are those of the inputs.
    """
    if not estimator.reports_:
        return None
    moments, reports = moments_of(estimator), estimator.reports_
    said = [(i, one.reasons(names)[:MAX_CHANGES]) for i, one in enumerate(reports)]
    return {
        "model": [m.model for m in moments],
        "verdict": [one.verdict for one in reports],
        "why": {i: "; ".join(found) for i, found in said if found},
        "stable": [int(m.phase == "stable") for m in moments],
        "p": short(np.array([m.p for m in moments]), 3),
        "events": [[event.batch, event.kind, event.model] for event in estimator.events_],
    }


def change_rows(
    estimator: "PREVALClassifier", names: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """Return the batches in which something changed, as rows of a table; the last ones of many."""
    changed = [one for one in estimator.reports_ if one.cause or one.kind in (MIXED, NEW)]
    return [
        {
            "batch": one.batch,
            "verdict": one._replace(inputs=()).text(),
            "why": "; ".join(one.reasons(names)[:MAX_CHANGES]),
        }
        for one in changed[-MAX_ROWS:]
    ]


def event_rows(
    estimator: "PREVALClassifier", names: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """Return the events as rows of a table."""
    return [
        {
            "batch": event.batch,
            "model": event.model,
            "kind": event.kind,
            "why": _why(event.evidence, names),
        }
        for event in estimator.events_
    ]


def _why(evidence: dict[str, Any], names: Sequence[str] | None) -> str:
    """Return the evidence of an event as text; `names` are those of the inputs."""
    if "p" in evidence:
        pairs = zip(evidence["model"], evidence["p"], strict=True)
        parts = [f"model {model}: p = {p:.2g}" for model, p in pairs]
        if "cause" in evidence:
            changes = [InputChange(*one) for one in evidence["inputs"][:MAX_CHANGES]]
            cause = evidence["cause"]
            parts = [cause, *reasons(cause, changes, names), *parts]
        return "; ".join(parts)
    if "value" in evidence:
        rows = zip(evidence["model"], evidence["value"], evidence["limit"], strict=True)
        return "; ".join(f"model {m}: {value:.2g}, limit {limit:.2g}" for m, value, limit in rows)
    known = {"edges": "edges", "hidden": "hidden nodes", "L1_edges": "edges in L1"}
    parts = [f"{evidence[key]} {name}" for key, name in known.items() if key in evidence]
    if "reason" in evidence:
        parts.append(str(evidence["reason"]))
    if "model" in evidence:
        parts.append(f"with model {evidence['model']}")
    return ", ".join(parts)


def matrix_table(
    caption: str, values: NDArray[np.float64], rows: list[Any], columns: list[Any]
) -> dict[str, Any]:
    """Return shares as a table; NaN stays blank."""
    return {
        "caption": caption,
        "columns": [str(column) for column in columns],
        "rows": [
            {"name": str(name), "values": short(line, 3)}
            for name, line in zip(rows, values, strict=True)
        ],
    }


def routing_table(
    estimator: "PREVALClassifier", X: NDArray, groups: ArrayLike, what: str
) -> dict[str, Any]:
    """Return the share of each true task's (or class's) samples that goes to each model."""
    shares, names, models = routing(groups, estimator._answers.route(X))
    caption = f"Routing: share of each true {what} (row) that goes to each model (column)"
    return matrix_table(caption, shares, names, [f"model {number}" for number in models])
