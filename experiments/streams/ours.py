"""Our learner, and what it says of itself when a stream is over."""

from typing import Any

import dirad
from dirad.estimators import PREVALClassifier
from dirad.estimators.progress import load_kernels
from dirad.preval.events import MIXED, NEW
from experiments.streams.peers import Learner, Method

PREVAL = "PREVAL"
BYTES = 8  # of a stored number


REGRESSOR: Any = getattr(dirad, "PREVALRegressor", None)  # None: the package has none


def _classifier(seed: int) -> Learner:
    load_kernels(verbose=False)  # else the first batch would be charged with it
    return PREVALClassifier(random_state=seed, n_jobs=1)


def _regressor(seed: int) -> Learner:
    load_kernels(verbose=False)
    return REGRESSOR(random_state=seed, n_jobs=1)


METHOD = Method(_classifier, _regressor if REGRESSOR is not None else None)


def describe(learner: Any) -> dict[str, int]:
    """Return how many alarms there were, how many models were opened and are left, and bytes."""
    return {
        "alarms": sum(report.kind in (NEW, MIXED) for report in learner.reports_),
        "opened": sum(event.kind == "opened" for event in learner.events_),
        "models": len(learner.models_),
        "model_bytes": BYTES * learner.n_parameters_,
    }
