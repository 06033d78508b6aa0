"""The activity stream without labels: do models stand for activities?

People and activities recur, so that few models are enough. A window belongs to the model that it is
routed to, and the normalized mutual information of models and true activities says how well they
agree. It is 1 where each determines the other, and 0 where they are independent.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.preprocessing import StandardScaler

from dirad.estimators import PREVALClassifier
from dirad.report.tables import Section
from dirad.streams.averages import mean, spread
from dirad.streams.regimes import RegimeTracker
from experiments.metrics import mutual_information
from experiments.streams.data import ACTIVITY, load
from experiments.streams.ours import PREVAL

BATCH_SIZES = (200, 20)  # an activity lasts about a dozen windows: large batches mix several
CLUSTERING, TRACKER = "k-means", "RegimeTracker"
NOTE = (
    "Normalized mutual information (NMI) with the true activity, of the model that a window is "
    "routed to: at once, after its batch was learned; and at the end of the stream, when all "
    "windows are routed again. No labels are given. RegimeTracker assigns each "
    "window as it comes, is told neither the number of activities nor where they change, and draws "
    "nothing at random; models are its regimes; its constants were chosen on the first 15 of the "
    "30 people, with their labels. k-means is not a learner of streams: it sees all standardized "
    "windows at once and is told the number of activities."
)


@dataclass(frozen=True)
class Run:
    """What came of one learner."""

    method: str
    batch_size: int  # 1: window by window; 0: all windows at once
    seed: int
    windows: int
    activities: int
    at_once: float  # NMI of routes when the batch had just been learned; NaN without batches
    at_end: float  # NMI of the routes by the final models
    opened: int
    models: int
    seconds: float


def run(batch_size: int, seed: int, limit: int) -> Run:
    """Follow the stream without labels, or cluster it if the batch size is 0."""
    data = load(ACTIVITY, limit)
    learn = {0: cluster, 1: track}.get(batch_size, follow)
    return learn(data.X, data.y, batch_size, seed)


def follow(X: NDArray, y: NDArray, batch_size: int, seed: int) -> Run:
    """Let our learner follow the windows in their order."""
    start = time.process_time()
    learner = PREVALClassifier(batch_size=batch_size, random_state=seed, n_jobs=1)
    at_once = []
    for first in range(0, len(X), batch_size):
        batch = X[first : first + batch_size]
        at_once.append(learner.partial_fit(batch).route(batch))
    learner.finish()
    return Run(
        PREVAL,
        batch_size,
        seed,
        len(y),
        len(np.unique(y)),
        mutual_information(y, np.concatenate(at_once)),
        mutual_information(y, learner.route(X)),
        sum(event.kind == "opened" for event in learner.events_),
        len(learner.models_),
        time.process_time() - start,
    )


def track(X: NDArray, y: NDArray, batch_size: int, seed: int) -> Run:
    """Let the tracker of regimes, in which nothing is random, follow the windows one by one."""
    start = time.process_time()
    tracker = RegimeTracker().partial_fit(X)
    return Run(
        TRACKER,
        batch_size,
        seed,
        len(y),
        len(np.unique(y)),
        mutual_information(y, tracker.labels_),
        mutual_information(y, tracker.predict(X)),
        tracker.n_opened_,
        len(tracker.regimes_),
        time.process_time() - start,
    )


def cluster(X: NDArray, y: NDArray, batch_size: int, seed: int) -> Run:
    """Cluster all windows at once by k-means, into as many clusters as there are activities."""
    start = time.process_time()
    n = len(np.unique(y))
    model: Any = KMeans(n, random_state=seed)
    found = mutual_information(y, model.fit_predict(StandardScaler().fit_transform(X)))
    seconds = time.process_time() - start
    return Run(CLUSTERING, batch_size, seed, len(y), n, float("nan"), found, n, n, seconds)


def section(runs: Sequence[Run]) -> Section:
    """Return a row per method and size of batches."""
    rows: list[dict[str, Any]] = []
    for method, batch_size in dict.fromkeys((one.method, one.batch_size) for one in runs):
        own = [one for one in runs if (one.method, one.batch_size) == (method, batch_size)]
        rows.append(
            {
                "method": method,
                "batch": batch_size or None,
                "windows": f"{own[0].windows:,}",
                "NMI at once": spread((one.at_once for one in own), 3, "–"),
                "NMI at the end": spread((one.at_end for one in own), 3),
                "activities": own[0].activities,
                "models opened": f"{mean(one.opened for one in own):.1f}",
                "models left": f"{mean(one.models for one in own):.1f}",
                "ms per window": f"{1000 * mean(one.seconds / one.windows for one in own):.2f}",
            }
        )
    return Section("Activities without labels", rows, NOTE)
