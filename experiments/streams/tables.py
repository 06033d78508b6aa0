"""The results of test-then-train as tables."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dirad.report.tables import Section
from dirad.streams.averages import mean, spread
from experiments.streams.data import NAMES, WIND, load
from experiments.streams.ours import PREVAL
from experiments.streams.peers import FOREST, METHODS, TREE
from experiments.streams.run import BATCH_SIZE, Run, score

Row = dict[str, Any]

SCORE_NOTE = (
    f"Test-then-train in batches of {BATCH_SIZE}: a batch is predicted, then learned; the first is "
    "only learned. Accuracy, or root mean squared error (kW) where targets are numbers (wind). "
    "Mean ± standard deviation over seeds. The best of a stream has an asterisk."
)
DETAIL_NOTE = (
    "Kappa temporal: 0 is as good as predicting each label by the one before it, 1 is perfect. "
    "That prediction sees the label of the sample before; all learners see labels only when a "
    "batch is over. Where labels repeat, few can reach it. Alarms: batches that ours called new or "
    "mixed. Kilobytes: of the pickled learner, with all that it needs to go on; of models: of the "
    "numbers in our models, 8 bytes each. Time: of the processor, to predict and learn a sample; "
    f"ratio: to that of the {FOREST}. A busy machine lengthens it: let nothing else run beside."
)
COURSE_NOTE = "Accuracy, or RMSE, in each tenth of the stream, mean over seeds."
DATA_NOTE = (
    "No change: the score of predicting every sample by the target of the one before it, which "
    "tells how often labels repeat. Learners do not see that target, see above."
)


def of(runs: Sequence[Run], stream: str, method: str) -> list[Run]:
    """Return the seeds of a method on a stream."""
    return [one for one in runs if one.stream == stream and one.method == method]


def streams_of(runs: Sequence[Run]) -> list[str]:
    """Return the streams in the order of their list."""
    present = {one.stream for one in runs}
    return [name for name in NAMES if name in present]


def methods_of(runs: Sequence[Run]) -> list[str]:
    """Return the methods in the order of their list, ours last."""
    present = {one.method for one in runs}
    return [name for name in (*METHODS, PREVAL) if name in present]


def score_table(runs: Sequence[Run]) -> Section:
    """Return the score of every method on every stream."""
    rows: list[Row] = []
    best = {stream: best_score(runs, stream) for stream in streams_of(runs)}
    for method in methods_of(runs):
        row: Row = {"method": method}
        for stream in streams_of(runs):
            scores = [one.score for one in of(runs, stream, method)]
            star = "*" if scores and mean(scores) == best[stream] else ""
            row[stream] = spread(scores, _digits(stream), "–") + star
        rows.append(row)
    return Section("Scores", rows, SCORE_NOTE)


def best_score(runs: Sequence[Run], stream: str) -> float:
    """Return the highest mean accuracy, or the lowest mean error."""
    means = [
        mean(one.score for one in of(runs, stream, method))
        for method in methods_of(runs)
        if of(runs, stream, method)
    ]
    return min(means) if stream == WIND else max(means)


def detail_table(runs: Sequence[Run]) -> Section:
    """Return everything else about every method on every stream."""
    rows: list[Row] = []
    for stream in streams_of(runs):
        for method in methods_of(runs):
            own = of(runs, stream, method)
            if not own:
                continue
            rows.append(
                {
                    "stream": stream,
                    "method": method,
                    "score": spread((one.score for one in own), _digits(stream)),
                    "Kappa temporal": spread((one.kappa for one in own), 3, "–").replace("-", "−"),
                    "alarms": _count(own, lambda one: one.alarms),
                    "models opened": _count(own, lambda one: one.opened),
                    "models left": _count(own, lambda one: one.models),
                    "kilobytes": f"{mean(one.pickled for one in own) / 1000:,.1f}",
                    "of models": _count(own, lambda one: (one.model_bytes or 0) / 1000),
                    "ms per sample": f"{_milliseconds(own):.4f}",
                    "ratio": _ratio(own, of(runs, stream, FOREST)),
                }
            )
    return Section("Details", rows, DETAIL_NOTE)


def course_table(runs: Sequence[Run]) -> Section:
    """Return the score in each tenth of a stream."""
    rows: list[Row] = []
    for stream in streams_of(runs):
        for method in methods_of(runs):
            own = of(runs, stream, method)
            if own:
                parts = zip(*(one.course for one in own), strict=True)
                row = {
                    f"{i}": f"{mean(part):.{_digits(stream) - 1}f}"
                    for i, part in enumerate(parts, 1)
                }
                rows.append({"stream": stream, "method": method} | row)
    return Section("In the course of a stream", rows, COURSE_NOTE)


def verdict_table(runs: Sequence[Run]) -> Section:
    """Return how far ours is above the two adaptive learners of river, stream by stream."""
    rows: list[Row] = []
    for stream in streams_of(runs):
        own = of(runs, stream, PREVAL)
        row: Row = {"stream": stream}
        for method in (TREE, FOREST):
            other = of(runs, stream, method)
            if own and other:
                gain = mean(one.score for one in own) - mean(one.score for one in other)
                better = gain < 0 if stream == WIND else gain > 0
                row[f"ours − {method}"] = f"{gain:+.{_digits(stream)}f}".replace("-", "−")
                row[f"better than {method}"] = better
        if len(row) > 1:
            rows.append(row)
    return Section("Ours beside the adaptive learners", rows)


def data_table(streams: Sequence[str], limit: int) -> Section:
    """Return the streams."""
    rows: list[Row] = []
    for name in streams:
        data = load(name, limit)
        previous = score(data.y[BATCH_SIZE:], data.y[BATCH_SIZE - 1 : -1])
        rows.append(
            {
                "stream": name,
                "samples": f"{len(data.y):,}",
                "inputs": len(data.columns),
                "classes": len(np.unique(data.y)) if data.is_classification else None,
                "no change, sample by sample": f"{previous:.{_digits(name)}f}",
                "order": data.order,
            }
        )
    return Section("Streams", rows, DATA_NOTE)


def _digits(stream: str) -> int:
    """Return how many decimals a score has: kilowatts need fewer than shares."""
    return 2 if stream == WIND else 4


def _count(own: Sequence[Run], value: Callable[[Run], float | None]) -> str:
    """Return a mean that only our learner has."""
    if own[0].models is None:
        return "–"
    return f"{mean(value(one) or 0 for one in own):,.1f}"


def _milliseconds(own: Sequence[Run]) -> float:
    return 1000 * mean(one.seconds / one.samples for one in own)


def _ratio(own: Sequence[Run], forest: Sequence[Run]) -> str:
    return f"{_milliseconds(own) / _milliseconds(forest):.2g}" if forest else "–"


def sections(runs: Sequence[Run], limit: int) -> list[Section]:
    """Return the whole page."""
    found = [
        score_table(runs),
        verdict_table(runs),
        detail_table(runs),
        course_table(runs),
        data_table(streams_of(runs), limit),
    ]
    return [section for section in found if section.rows]
