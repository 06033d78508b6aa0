"""PEC (Zając, Tuytelaars & van de Ven, 2024): the class whose student errs least answers.

One random network, the teacher, never changes. Each class has a small network, the student, that
learns to give the teacher's outputs on samples of its class, by a step of Adam for each sample.

As in the authors' settings for MNIST: two layers with layer normalization and GELU between them,
10 hidden units of a student and 5,000 of the teacher, 99 outputs, Adam with a rate that falls
linearly from 0.01 to 0, batches of one. The rate falls over `expected` samples of a class, which
the method must be told; all students start alike.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dirad.demo.baselines import adam
from experiments.baselines.perceptron import zeros_with_views

RATE = 0.01
HIDDEN, TEACHER_HIDDEN, OUTPUTS = 10, 5000, 99
LEAST_RATE = 0.01  # as a share of the first: for samples beyond those that were expected
EPSILON = 1e-5  # added to a variance in layer normalization


class Net(NamedTuple):
    """Linear, layer normalization, GELU, linear; one array holds all, the views share it."""

    values: NDArray[np.float32]
    first: NDArray[np.float32]  # (inputs, hidden)
    first_bias: NDArray[np.float32]
    gain: NDArray[np.float32]  # of layer normalization
    shift: NDArray[np.float32]
    second: NDArray[np.float32]  # (hidden, outputs)
    second_bias: NDArray[np.float32]


def blank(n_inputs: int, n_hidden: int, n_outputs: int) -> Net:
    """Return a network of zeros."""
    shapes = [(n_inputs, n_hidden), *[(n_hidden,)] * 3, (n_hidden, n_outputs), (n_outputs,)]
    values, views = zeros_with_views(shapes)
    return Net(values, *views)


def random_net(n_inputs: int, n_hidden: int, n_outputs: int, rng: np.random.Generator) -> Net:
    """Return a network with uniform weights and biases in ±1/√(number of inputs), as PyTorch's."""
    net = blank(n_inputs, n_hidden, n_outputs)
    for weights, biases in ((net.first, net.first_bias), (net.second, net.second_bias)):
        bound = 1 / np.sqrt(len(weights))
        weights[:] = rng.uniform(-bound, bound, weights.shape)
        biases[:] = rng.uniform(-bound, bound, biases.shape)
    net.gain[:] = 1.0
    return net


def normalized(net: Net, X: NDArray) -> tuple[NDArray, NDArray]:
    """Return the hidden sums, each sample's at mean 0 and variance 1, and the deviations."""
    sums = X @ net.first + net.first_bias
    sums -= sums.mean(axis=1, keepdims=True)
    deviation = np.sqrt((sums**2).mean(axis=1, keepdims=True) + np.float32(EPSILON))
    return sums / deviation, deviation


def outputs(net: Net, X: NDArray) -> NDArray:
    """Return the outputs for samples: (samples, outputs)."""
    inner = normalized(net, X)[0] * net.gain + net.shift
    return (inner * ndtr(inner)) @ net.second + net.second_bias


def backward(net: Net, X: NDArray, targets: NDArray, gradient: Net) -> None:
    """Write the gradient of the mean squared error over samples and outputs."""
    white, deviation = normalized(net, X)
    inner = white * net.gain + net.shift
    below = ndtr(inner)  # Φ
    hidden = inner * below
    d = (2 / targets.size) * (hidden @ net.second + net.second_bias - targets)
    gradient.second[:] = hidden.T @ d
    gradient.second_bias[:] = d.sum(axis=0)
    density = np.exp(-0.5 * inner**2) / np.sqrt(2 * np.pi)
    d_inner = (d @ net.second.T) * (below + inner * density)
    gradient.gain[:] = (d_inner * white).sum(axis=0)
    gradient.shift[:] = d_inner.sum(axis=0)
    d_white = d_inner * net.gain
    centred = d_white - d_white.mean(axis=1, keepdims=True)
    d_sums = (centred - white * (d_white * white).mean(axis=1, keepdims=True)) / deviation
    gradient.first[:] = X.T @ d_sums
    gradient.first_bias[:] = d_sums.sum(axis=0)


class PEC:
    """A student per class."""

    def __init__(
        self,
        n_inputs: int,
        expected: int,
        rate: float = RATE,
        n_hidden: int = HIDDEN,
        teacher_hidden: int = TEACHER_HIDDEN,
        seed: int = 0,
    ) -> None:
        rng = np.random.default_rng(seed)
        self.teacher = random_net(n_inputs, teacher_hidden, OUTPUTS, rng)
        self.start = random_net(n_inputs, n_hidden, OUTPUTS, rng)
        self.gradient = blank(n_inputs, n_hidden, OUTPUTS)
        self.expected = expected  # samples of a class
        self.rate = rate
        self.students: dict[int, _Student] = {}

    def learn(self, X: NDArray, y: NDArray) -> None:
        X = X.astype(np.float32)
        targets = outputs(self.teacher, X)
        for label in np.unique(y).tolist():
            if label not in self.students:
                self.students[label] = _Student(self.start)
            for row in np.flatnonzero(y == label):
                self._step(self.students[label], X[row, None], targets[row, None])

    def _step(self, student: "_Student", X: NDArray, target: NDArray) -> None:
        left = max(1.0 - student.steps / self.expected, LEAST_RATE)
        student.steps += 1
        backward(student.net, X, target, self.gradient)
        student.net.values[:] -= adam(
            self.gradient.values, student.moments, student.steps, self.rate * left
        )

    def end(self) -> None:
        """The stream is over: forget what only training needs."""
        for student in self.students.values():
            student.moments = student.moments[:, :0]

    def predict(self, X: NDArray) -> NDArray:
        X = X.astype(np.float32)
        targets = outputs(self.teacher, X)
        errors = [
            ((outputs(student.net, X) - targets) ** 2).mean(axis=1)
            for student in self.students.values()
        ]
        return np.array(list(self.students))[np.argmin(errors, axis=0)]

    @property
    def n_stored(self) -> int:
        """Teacher, students, and of each the steps and moments of Adam until the stream ends."""
        return self.n_reproducible + sum(
            one.net.values.size + one.moments.size + 1 for one in self.students.values()
        )

    @property
    def n_reproducible(self) -> int:
        """Of these, the teacher, which a seed gives again."""
        return self.teacher.values.size

    @property
    def n_samples_stored(self) -> int:
        return 0


class _Student:
    """The student of one class, and the state of its training."""

    def __init__(self, start: Net) -> None:
        n_inputs, n_hidden = start.first.shape
        self.net = blank(n_inputs, n_hidden, OUTPUTS)
        self.net.values[:] = start.values
        self.moments = np.zeros((2, start.values.size), np.float32)
        self.steps = 0
