"""The paper's system: while a model adapts it takes every batch.

When all are stable, the batch goes to the validated model with the least share of invalid samples;
if none is validated, a new task has begun and a new model is opened.
"""

import numpy as np
from numpy.typing import NDArray

from dirad.preval.events import KNOWN, LEARNING, NEW, NO_CHANCE, evidence_of
from dirad.preval.stream_model import StreamModel
from dirad.preval.system import System


class StreamSystem(System[StreamModel]):
    """Models that take a step on every batch and keep none."""

    def _new_model(self, number: int, seed: int) -> StreamModel:
        return StreamModel(number, self.n_inputs, self.n_classes, self.settings, seed)

    def learn(self, X: NDArray, y: NDArray[np.int64], *, until_stable: bool = False) -> int:
        size = self.settings.l0.batch_size
        start = 0
        while start + size <= len(X):
            start += size * self._follow(X[start:], y[start:])
            if until_stable and self.adapting is None:
                break
        return start

    def _follow(self, X: NDArray, y: NDArray[np.int64]) -> int:
        """Take as many batches as one model's phase needs, or one; return how many."""
        size = self.settings.l0.batch_size
        model, kind = self.adapting, LEARNING
        if model is None:
            model, kind = self._choose(X[:size]), NEW
        if model is None:
            self._report(KNOWN, self.latest.number, NO_CHANCE)
            self._count(y[:size])
            return 1
        before = model.phase
        used = model.learn(X, y, self.threads)
        for i in range(used):
            self._report(kind if i == 0 else LEARNING, model.number, NO_CHANCE)
        self._record_phase(model, before)
        self._count(y[: used * size])
        return used

    def _choose(self, batch: NDArray) -> StreamModel | None:
        """Return a new model where no stable one knows the batch, else None: it is processed."""
        verdicts = self.judge(batch)
        known = [v for v in verdicts if v.validated]
        if not known:
            return self.open_model(evidence_of(verdicts))
        best = min(known, key=lambda v: v.value)  # of equals the oldest
        if best.model != self._latest:
            self._record("chosen", best.model, evidence_of(verdicts))
        self._latest = best.model
        return None

    def finish(self, X: NDArray, y: NDArray[np.int64]) -> None:
        if len(X):
            model = self.adapting or self._choose(X)
            if model is not None:
                model.keep(X, y)
            self._count(y)
        while (model := self.adapting) is not None:
            before = model.phase
            model.finish(self.threads)
            self._record_phase(model, before)
