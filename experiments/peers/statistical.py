"""Peers without gradients: means, scatters and closed forms. None is told where a task ends."""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve
from sklearn.linear_model import LogisticRegression

EARLY = 0.5  # of the warm-up: before, a Gaussian's density says little


class Moments:
    """Count, mean and scatter of samples, one batch at a time (Chan, Golub & LeVeque, 1979)."""

    def __init__(self, n_inputs: int) -> None:
        self.n = 0
        self.mean = np.zeros(n_inputs)
        self.scatter = np.zeros((n_inputs, n_inputs))

    def add(self, X: NDArray) -> None:
        """Take more samples."""
        if not len(X):
            return
        mean, n = X.mean(axis=0), len(X)
        shift, total = mean - self.mean, self.n + n
        centred = X - mean
        self.scatter += centred.T @ centred + np.outer(shift, shift) * (self.n * n / total)
        self.mean = self.mean + shift * (n / total)
        self.n = total

    def covariance(self, shrinkage: float) -> NDArray[np.float64]:
        """Return the covariance, with `shrinkage` added to every variance."""
        return self.scatter / max(self.n - 1, 1) + shrinkage * np.eye(len(self.mean))

    @property
    def n_stored(self) -> int:
        """Mean, the half of a symmetric matrix, and the count."""
        k = len(self.mean)
        return k + k * (k + 1) // 2 + 1


class Gaussian:
    """A Gaussian with its covariance factored."""

    def __init__(self, moments: Moments, shrinkage: float) -> None:
        self.mean = moments.mean
        values, vectors = np.linalg.eigh(moments.covariance(shrinkage))
        self.whitening = vectors / np.sqrt(np.maximum(values, 1e-12))
        self.log_volume = float(np.sum(np.log(np.maximum(values, 1e-12))))

    def neg_log_density(self, X: NDArray) -> NDArray[np.float64]:
        """Return −2 · log-density up to a constant."""
        white = (X - self.mean) @ self.whitening
        return np.sum(white**2, axis=1) + self.log_volume


class NearestMean:
    """The class whose mean is nearest."""

    def __init__(self, n_inputs: int) -> None:
        self.n_inputs = n_inputs
        self.sums: dict[int, NDArray] = {}
        self.counts: dict[int, int] = {}

    def learn(self, X: NDArray, y: NDArray) -> None:
        for label in np.unique(y).tolist():
            some = X[y == label]
            self.sums[label] = self.sums.get(label, np.zeros(self.n_inputs)) + some.sum(axis=0)
            self.counts[label] = self.counts.get(label, 0) + len(some)

    def predict(self, X: NDArray) -> NDArray:
        labels = list(self.sums)
        means = np.array([self.sums[label] / self.counts[label] for label in labels])
        distance = (means**2).sum(axis=1) - 2 * X @ means.T
        return np.array(labels)[distance.argmin(axis=1)]

    @property
    def n_stored(self) -> int:
        return len(self.sums) * (self.n_inputs + 1)

    @property
    def n_samples_stored(self) -> int:
        return 0


class _ClassMoments:
    """Mean and scatter of every class."""

    def __init__(self, n_inputs: int, shrinkage: float) -> None:
        self.n_inputs = n_inputs
        self.shrinkage = shrinkage
        self.classes: dict[int, Moments] = {}

    def learn(self, X: NDArray, y: NDArray) -> None:
        for label in np.unique(y).tolist():
            self.classes.setdefault(label, Moments(self.n_inputs)).add(X[y == label])

    @property
    def n_samples_stored(self) -> int:
        return 0


class ClassGaussians(_ClassMoments):
    """One Gaussian per class: quadratic discriminant analysis with εI added."""

    def __init__(self, n_inputs: int, shrinkage: float = 0.05) -> None:
        super().__init__(n_inputs, shrinkage)
        self._factored: dict[int, tuple[int, Gaussian]] = {}  # with the samples of the class then

    def gaussian(self, label: int) -> Gaussian:
        """Return the Gaussian of a class; it is factored once for the samples so far."""
        n, known = self._factored.get(label, (-1, None))
        if known is None or n != self.classes[label].n:
            known = Gaussian(self.classes[label], self.shrinkage)
            self._factored[label] = self.classes[label].n, known
        return known

    def predict(self, X: NDArray) -> NDArray:
        labels = list(self.classes)
        found = [self.gaussian(label).neg_log_density(X) for label in labels]
        return np.array(labels)[np.argmin(found, axis=0)]

    @property
    def n_stored(self) -> int:
        return sum(moments.n_stored for moments in self.classes.values())


class StreamingLDA(_ClassMoments):
    """One mean per class and a shared covariance (Hayes & Kanan, 2020, "Deep SLDA")."""

    def __init__(self, n_inputs: int, shrinkage: float = 0.01) -> None:
        super().__init__(n_inputs, shrinkage)

    def predict(self, X: NDArray) -> NDArray:
        labels = list(self.classes)
        scatter = sum((m.scatter for m in self.classes.values()), np.zeros((self.n_inputs,) * 2))
        n = sum(m.n for m in self.classes.values())
        shared = scatter / max(n - len(labels), 1) + self.shrinkage * np.eye(self.n_inputs)
        means = np.array([self.classes[label].mean for label in labels])
        weights = solve(shared, means.T, assume_a="pos")
        scores = X @ weights - 0.5 * np.sum(means.T * weights, axis=0)
        return np.array(labels)[scores.argmax(axis=1)]

    @property
    def n_stored(self) -> int:
        k = self.n_inputs  # the scatters add up: one is kept
        return len(self.classes) * (k + 1) + k * (k + 1) // 2


class RandomFeatures:
    """Random ReLU features and ridge regression, updated in closed form (as in RanPAC, 2023)."""

    def __init__(
        self, n_inputs: int, n_features: int = 1000, penalty: float = 1.0, seed: int = 0
    ) -> None:
        rng = np.random.default_rng(seed)
        self.weights = rng.normal(0, 1 / np.sqrt(n_inputs), (n_inputs, n_features))
        self.biases = rng.normal(0, 0.1, n_features)
        self.penalty = penalty
        self.gram = np.zeros((n_features, n_features))
        self.targets: dict[int, NDArray] = {}

    def features(self, X: NDArray) -> NDArray[np.float64]:
        """Return the random features of samples."""
        return np.maximum(X @ self.weights + self.biases, 0.0)

    def learn(self, X: NDArray, y: NDArray) -> None:
        H = self.features(X)
        self.gram += H.T @ H
        for label in np.unique(y).tolist():
            known = self.targets.get(label, np.zeros(len(self.gram)))
            self.targets[label] = known + H[y == label].sum(axis=0)

    def predict(self, X: NDArray) -> NDArray:
        labels = list(self.targets)
        right = np.array([self.targets[label] for label in labels]).T
        penalized = self.gram + self.penalty * np.eye(len(self.gram))
        weights = solve(penalized, right, assume_a="pos")
        return np.array(labels)[(self.features(X) @ weights).argmax(axis=1)]

    @property
    def n_stored(self) -> int:
        k = len(self.gram)
        return self.n_reproducible + k * (k + 1) // 2 + k * len(self.targets)

    @property
    def n_reproducible(self) -> int:
        return self.weights.size + self.biases.size

    @property
    def n_samples_stored(self) -> int:
        return 0


class TaskGaussians:
    """One Gaussian per discovered task; a batch too unlikely under all of them opens a new one.

    Within a task a logistic regression answers, fitted on the task's first samples, which are kept
    until there are `fitted_on` of them and then forgotten.
    """

    def __init__(
        self,
        n_inputs: int,
        shrinkage: float = 0.05,
        alarm: float = 6.0,
        warm_up: int = 1000,
        fitted_on: int = 4000,
    ) -> None:
        self.n_inputs = n_inputs
        self.shrinkage = shrinkage
        self.alarm = alarm  # standard deviations of a batch's mean above earlier batch means
        self.warm_up = warm_up  # samples of a task before it can raise an alarm
        self.fitted_on = fitted_on
        self.tasks: list[_Task] = []
        self.at = -1  # the task at hand
        self.opened: list[int] = []  # batches at which a task was opened
        self.batches = 0

    def learn(self, X: NDArray, y: NDArray) -> None:
        self._choose(X)
        early = EARLY * self.warm_up
        self.tasks[self.at].add(X, y, self.fitted_on, self.shrinkage, early)
        self.batches += 1

    def _choose(self, X: NDArray) -> None:
        """Stay with the task at hand, return to an old one, or open a new one."""
        if self.tasks and self.tasks[self.at].moments.n < self.warm_up:
            return
        ready = [i for i, task in enumerate(self.tasks) if task.moments.n >= self.warm_up]
        levels = {i: self.tasks[i].level(X, self.shrinkage) for i in ready}
        usual = [i for i in ready if levels[i] <= self.alarm]
        if usual:
            self.at = min(usual, key=lambda i: levels[i])
            return
        self.tasks.append(_Task(self.n_inputs))
        self.at = len(self.tasks) - 1
        self.opened.append(self.batches)

    def route(self, X: NDArray) -> NDArray[np.int64]:
        """Return the task that each sample is most likely of."""
        found = [task.gaussian(self.shrinkage).neg_log_density(X) for task in self.tasks]
        return np.argmin(found, axis=0)

    def predict(self, X: NDArray) -> NDArray:
        route = self.route(X)
        result = np.zeros(len(X), np.int64)
        for number in np.unique(route):
            result[route == number] = self.tasks[number].predict(X[route == number])
        return result

    @property
    def n_stored(self) -> int:
        return sum(task.n_stored for task in self.tasks)

    @property
    def n_integers(self) -> int:
        return sum(task.X.size for task in self.tasks)

    @property
    def n_samples_stored(self) -> int:
        return sum(len(task.X) for task in self.tasks)


class _Task:
    """One task of `TaskGaussians`."""

    def __init__(self, n_inputs: int) -> None:
        self.moments = Moments(n_inputs)
        self.batch_means: list[
            float
        ] = []  # of the negative log-density, before each batch was learned
        self.X, self.y = np.zeros((0, n_inputs)), np.zeros(0, np.int64)
        self.first = -1  # label of the first sample: the answer while there is no other class
        self.answer: LogisticRegression | None = None
        self._gaussian: tuple[int, Gaussian] | None = None

    def gaussian(self, shrinkage: float) -> Gaussian:
        if self._gaussian is None or self._gaussian[0] != self.moments.n:
            self._gaussian = self.moments.n, Gaussian(self.moments, shrinkage)
        return self._gaussian[1]

    def add(self, X: NDArray, y: NDArray, fitted_on: int, shrinkage: float, early: float) -> None:
        if self.moments.n >= early:
            value = float(self.gaussian(shrinkage).neg_log_density(X).mean())
            self.batch_means = [*self.batch_means[-49:], value]
        if self.moments.n == 0:
            self.first = int(y[0])
        self.moments.add(X)
        room = fitted_on - self.moments.n + len(X)
        if room > 0:
            self.X, self.y = np.concatenate([self.X, X[:room]]), np.concatenate([self.y, y[:room]])
            self.answer = None
        elif len(self.X):
            self._fit()
            self.X, self.y = self.X[:0], self.y[:0]

    def level(self, X: NDArray, shrinkage: float) -> float:
        """Return how many deviations a batch lies above the batches of this task."""
        value = float(self.gaussian(shrinkage).neg_log_density(X).mean())
        known = np.array(self.batch_means) if self.batch_means else np.array([value])
        # The first few batches tell little of the spread, the dimension bounds it from below.
        spread = max(known.std(), np.sqrt(2 * X.shape[1] / len(X)))
        return (value - known.mean()) / spread

    def _fit(self) -> None:
        if len(np.unique(self.y)) > 1:
            self.answer = LogisticRegression(max_iter=300).fit(self.X, self.y)

    def predict(self, X: NDArray) -> NDArray:
        if self.answer is None and len(self.X):
            self._fit()
        if self.answer is None:
            return np.full(len(X), self.first)
        return np.asarray(self.answer.predict(X))

    @property
    def n_stored(self) -> int:
        total = self.moments.n_stored + self.X.size
        return total + (self.first >= 0 if self.answer is None else self.answer.coef_.size)
