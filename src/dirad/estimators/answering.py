"""How fitted models answer, given checked inputs. It needs neither scikit-learn nor Numba."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.network import Network
from dirad.estimators.stream_state import StreamState
from dirad.inference import respond

SHRINK_BITS = 32  # powers of two by which an input that makes an answer overflow is made smaller


class ClassAnswers(NamedTuple):
    """The answers of a network whose outputs are class probabilities."""

    network: Network
    classes_: NDArray

    def predict_proba(self, X: NDArray) -> NDArray[np.float64]:
        """Return the probability of each class, one row per sample."""
        outputs = finite_outputs(self.network, X)
        if outputs.shape[1] == 1:
            return np.hstack([1.0 - outputs, outputs])
        return outputs / np.maximum(outputs.sum(axis=1, keepdims=True), 1e-300)

    def predict(self, X: NDArray) -> NDArray:
        """Return the most probable class of each sample."""
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]


class ValueAnswers(NamedTuple):
    """The answers of a network whose outputs are scaled targets."""

    network: Network
    scale: NDArray[np.float64]  # (targets,)
    offset: NDArray[np.float64]
    single_column: bool  # is the result one-dimensional?

    def predict(self, X: NDArray) -> NDArray[np.float64]:
        """Return the predicted target of each sample."""
        with np.errstate(over="ignore", invalid="ignore"):
            answers = respond(self.network, X) * self.scale + self.offset
        lost = ~np.isfinite(answers).all(axis=1)
        if lost.any():
            raise ValueError(f"X, row {int(np.argmax(lost))}: the answer is beyond float64")
        return answers[:, 0] if self.single_column else answers


class StreamAnswers(NamedTuple):
    """The answers of a system of models."""

    state: StreamState

    @property
    def classes_(self) -> NDArray:
        """All classes seen, sorted."""
        return self.state.classes

    def predict_proba(self, X: NDArray) -> NDArray[np.float64]:
        """Return the probability of each class, in the order of `classes_`."""
        return self.state.probabilities(self._bounded(X))

    def predict(self, X: NDArray) -> NDArray:
        """Return the most probable class of each sample."""
        X = self._bounded(X)
        if not len(self.state.classes):
            raise ValueError("no label was seen yet, so there is no class to predict")
        return self.state.classes[np.argmax(self.state.probabilities(X), axis=1)]

    def route(self, X: NDArray) -> NDArray[np.int64]:
        """Return the number of the model that answers each sample."""
        return self.state.system.answer(self._bounded(X)).route

    def novelty(self, X: NDArray) -> NDArray[np.float64]:
        """Return how novel each sample is to the model that knows it best."""
        return self.state.system.novelty(self._bounded(X))

    def is_known(self, X: NDArray, false_alarms: float) -> NDArray[np.bool_]:
        """Return whether some model knows each sample, at this rate of false alarms."""
        return self.state.system.is_known(self._bounded(X), false_alarms)

    def conflicts(self, X: NDArray) -> NDArray[np.bool_]:
        """Return which inputs contradict the prediction by each sample's model."""
        return self.state.system.conflicts(self._bounded(X))

    def _bounded(self, X: NDArray) -> NDArray:
        system = self.state.system
        if not system.models and system.opened:
            raise ValueError("all models were removed: give more samples")
        if not system.models:
            raise ValueError(
                "there is no model yet: fewer samples than one batch "
                f"({system.settings.l0.batch_size}) were seen; give more, or call finish()"
            )
        return system.bounded(X)


def finite_outputs(network: Network, X: NDArray) -> NDArray[np.float64]:
    """Return the outputs for each row.

    Where inputs are so large that the arithmetic overflows, they are made smaller until it does
    not: the answer is that of a less extreme sample in the same direction.
    """
    outputs = respond(network, X)
    bad = np.flatnonzero(~np.isfinite(outputs).all(axis=1))
    limit = np.abs(X[bad]).max(axis=1, keepdims=True, initial=0.0)
    while len(bad):
        limit = np.ldexp(limit, -SHRINK_BITS)
        outputs[bad] = respond(network, np.clip(X[bad], -limit, limit))
        left = ~np.isfinite(outputs[bad]).all(axis=1) & (limit[:, 0] > 0)
        bad, limit = bad[left], limit[left]
    return outputs
