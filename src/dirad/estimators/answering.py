"""How a fitted network answers, given checked inputs. It needs neither scikit-learn nor Numba."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.network import Network
from dirad.encoding import Encoding
from dirad.inference import respond

SHRINK_BITS = 32  # powers of two by which an input that makes an answer overflow is made smaller


class ClassAnswers(NamedTuple):
    """The answers of a network whose outputs are class probabilities."""

    network: Network
    classes_: NDArray
    encoding: Encoding | None = None  # of the columns of X as inputs of the network

    def predict_proba(self, X: NDArray) -> NDArray[np.float64]:
        """Return the probability of each class, one row per sample."""
        outputs = finite_outputs(self.network, encoded(self.encoding, X))
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
    encoding: Encoding | None = None  # of the columns of X as inputs of the network

    def predict(self, X: NDArray) -> NDArray[np.float64]:
        """Return the predicted target of each sample."""
        with np.errstate(over="ignore", invalid="ignore"):
            outputs = respond(self.network, encoded(self.encoding, X))
            answers = outputs * self.scale + self.offset
        lost = ~np.isfinite(answers).all(axis=1)
        if lost.any():
            raise ValueError(f"X, row {int(np.argmax(lost))}: the answer is beyond float64")
        return answers[:, 0] if self.single_column else answers


def class_answers(estimator: Any) -> ClassAnswers:
    """Return how a fitted DIRADClassifier answers."""
    encoding = getattr(estimator, "encoding_", None)  # pickles of earlier versions have none
    return ClassAnswers(estimator.network_, estimator.classes_, encoding)


def value_answers(estimator: Any) -> ValueAnswers:
    """Return how a fitted DIRADRegressor answers."""
    encoding = getattr(estimator, "encoding_", None)
    scale, offset = estimator.target_scale_, estimator.target_offset_
    return ValueAnswers(estimator.network_, scale, offset, estimator._single_column, encoding)


def answers_of(estimator: Any) -> ClassAnswers | ValueAnswers:
    """Return how a fitted DIRAD estimator answers."""
    return (class_answers if hasattr(estimator, "classes_") else value_answers)(estimator)


def encoded(encoding: Encoding | None, X: NDArray) -> NDArray[np.float64]:
    """Return the inputs of a network; without an encoding they are the columns of X."""
    return X if encoding is None else encoding.encode(X)


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
