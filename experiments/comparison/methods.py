"""The methods that are compared, all with the same interface.

A method learns batch by batch and predicts. Some also say where a task is new (`opened`), which
model a sample goes to (`route`), or how new a sample is (`novelty`).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dirad.preval.choice import new_system
from dirad.preval.settings import PRESETS, Settings
from experiments.comparison.scenario import Scenario
from experiments.comparison.size import NUMBER
from experiments.peers import (
    EWC,
    PEC,
    AdwinDetector,
    ClassGaussians,
    FeCAM,
    FineTuned,
    Gaussian,
    GDumb,
    HoeffdingTree,
    Joint,
    ModelPerClass,
    NearestMean,
    RandomFeatures,
    RanDumb,
    RanPAC,
    Replay,
    StreamingLDA,
    TaskGaussians,
    fit_mixture,
    fit_prototypes,
)

CLASSES = 10
MEMORY = 10_000  # samples that replay and GDumb keep: as many as our buffer holds
SMALL_MEMORY = 500
# What ours keeps after five tasks, as measured in one order: so much prototypes may take.
OUR_BYTES = {
    "mnist": 1_031_000,
    "mnist-28": 6_538_000,
    "fashion-mnist": 1_607_000,
    "digits": 29_500,
}
SMALL_BEGIN = 100  # samples of a task before ours may call a batch new, on small digits


def settings_for(scenario: Scenario, preset: str = "default", **changes: Any) -> Settings:
    """Return our settings for a scenario."""
    chosen = PRESETS[preset].replace(**changes)
    if preset == "default":
        l0 = chosen.l0.replace(batch_size=scenario.batch_size)
        if scenario.data == "digits":  # of which a task has 230: said in the table
            chosen = chosen.replace(begin=min(chosen.begin, SMALL_BEGIN))
        return chosen.replace(l0=l0)
    size = min(scenario.batch_size, chosen.l0.batch_size)
    return chosen.replace(
        l0=chosen.l0.replace(batch_size=size), l1=chosen.l1.replace(batch_size=size), T_CP=0.05
    )


class Ours:
    """A system of models; told nothing but samples and labels."""

    def __init__(self, scenario: Scenario, n_inputs: int, seed: int, settings: Settings) -> None:
        self.system = new_system(n_inputs, CLASSES, settings, seed=seed, threads=1)
        # The paper's batches are smaller: how many of them make one of the scenario's.
        self.batches = scenario.batch_size / settings.l0.batch_size

    def learn(self, X: NDArray, y: NDArray[np.int64]) -> None:
        """Take one batch."""
        self.system.learn(X.astype(np.float64), y)

    def end(self) -> None:
        """The stream is over."""
        empty = np.zeros((0, self.system.n_inputs))
        self.system.finish(empty, np.zeros(0, np.int64))

    def predict(self, X: NDArray) -> NDArray[np.int64]:
        """Return the class of each sample."""
        return self.system.answer(X.astype(np.float64)).probabilities.argmax(axis=1)

    def route(self, X: NDArray) -> NDArray[np.int64]:
        """Return the model that answers each sample."""
        return self.system.answer(X.astype(np.float64)).route

    def novelty(self, X: NDArray) -> NDArray[np.float64]:
        """Return how new each sample is to all models."""
        return self.system.novelty(X.astype(np.float64))

    @property
    def opened(self) -> list[int]:
        """Batches at which a model was opened."""
        opened = [event.batch for event in self.system.journal.events if event.kind == "opened"]
        return [int(batch / self.batches) for batch in opened]

    @property
    def n_stored(self) -> int:
        """Every number kept when the stream is over."""
        return self.system.n_parameters

    @property
    def n_samples_stored(self) -> int:
        """Samples kept when the stream is over: those of a task are forgotten with its end."""
        return sum(len(getattr(model, "buffer", ())) for model in self.system.models)


class TaskGaussianRouter(TaskGaussians):
    """The peer that detects tasks, with a novelty of its own."""

    def novelty(self, X: NDArray) -> NDArray[np.float64]:
        """Return the negative log-density under the likeliest task."""
        found = [task.gaussian(self.shrinkage).neg_log_density(X) for task in self.tasks]
        return np.min(found, axis=0)


class QDA(ClassGaussians):
    """One Gaussian per class, with a novelty of its own."""

    def novelty(self, X: NDArray) -> NDArray[np.float64]:
        """Return the negative log-density under the likeliest class."""
        every = [
            Gaussian(moments, self.shrinkage).neg_log_density(X)
            for moments in self.classes.values()
        ]
        return np.min(every, axis=0)


class Perceptron(FineTuned):
    """The fine-tuned perceptron, with a novelty of its own."""

    def novelty(self, X: NDArray) -> NDArray[np.float64]:
        """Return one less the largest probability (Hendrycks & Gimpel, 2017)."""
        return 1.0 - self.net.probabilities(X).max(axis=1)


class ToldEWC(EWC):
    """EWC that is told where each task ends."""

    def __init__(self, n_inputs: int, per_task: int, batch_size: int, seed: int) -> None:
        super().__init__(n_inputs, CLASSES, seed=seed)
        self.every = per_task // batch_size
        self.batches = 0

    def learn(self, X: NDArray, y: NDArray) -> None:
        if self.batches and self.batches % self.every == 0:
            self.new_task()
        super().learn(X, y)
        self.batches += 1


class Watched:
    """ADWIN on one number per sample: a peer that detects and does nothing else."""

    def __init__(self, value: Callable[[NDArray, NDArray], NDArray], learner: Any = None) -> None:
        self.value = value
        self.learner = learner
        self.detector = AdwinDetector()
        self.opened: list[int] = []
        self.batches = 0

    def learn(self, X: NDArray, y: NDArray) -> None:
        """Watch one batch."""
        if self.detector.watch(self.value(X, y)) or not self.batches:
            self.opened.append(self.batches)
        if self.learner is not None:
            self.learner.learn(X, y)
        self.batches += 1


def adwin_on_errors(n_inputs: int, seed: int) -> Watched:
    """ADWIN on the errors of the fine-tuned perceptron, before it learns each batch."""
    learner = FineTuned(n_inputs, CLASSES, seed=seed)
    return Watched(lambda X, y: (learner.predict(X) != y).astype(float), learner)


def class_samples(scenario: Scenario) -> int:
    """Return about how many samples of a class a stream of two classes a task shows."""
    return scenario.per_task // 2


def prototypes(scenario: Scenario, n_inputs: int, seed: int) -> ModelPerClass:
    """Return k-means prototypes of each class, as many as take our bytes."""
    n = max(1, OUR_BYTES[scenario.data] // (CLASSES * NUMBER * n_inputs))
    return ModelPerClass(n_inputs, partial(fit_prototypes, n_prototypes=n), seed=seed)


Builder = Callable[[Scenario, int, int], Any]  # scenario, inputs, seed

METHODS: dict[str, Builder] = {
    "ours (default)": lambda s, n, seed: Ours(s, n, seed, settings_for(s)),
    "ours (paper)": lambda s, n, seed: Ours(s, n, seed, settings_for(s, "paper")),
    "Gaussian per task": lambda s, n, seed: TaskGaussianRouter(
        n, warm_up=min(1000, s.per_task // 2)
    ),
    "QDA: Gaussian per class": lambda s, n, seed: QDA(n),
    "streaming LDA": lambda s, n, seed: StreamingLDA(n),
    "nearest class mean": lambda s, n, seed: NearestMean(n),
    "random features + ridge": lambda s, n, seed: RandomFeatures(n, seed=seed),
    "RanPAC, 1,000 features": lambda s, n, seed: RanPAC(n, 1000, seed=seed),
    "RanPAC, 5,000 features": lambda s, n, seed: RanPAC(n, 5000, seed=seed),
    "RanDumb, 1,000 features": lambda s, n, seed: RanDumb(n, 1000, seed=seed),
    "RanDumb, 5,000 features": lambda s, n, seed: RanDumb(n, 5000, seed=seed),
    "FeCAM": lambda s, n, seed: FeCAM(n),
    "PEC": lambda s, n, seed: PEC(n, class_samples(s), seed=seed),
    "factor analysers per class": lambda s, n, seed: ModelPerClass(n, fit_mixture, seed=seed),
    "k-means prototypes per class": prototypes,
    "fine-tuned MLP": lambda s, n, seed: Perceptron(n, CLASSES, seed=seed),
    "EWC, told": lambda s, n, seed: ToldEWC(n, s.per_task, s.batch_size, seed),
    "replay, 10,000 samples": lambda s, n, seed: Replay(n, CLASSES, MEMORY, seed=seed),
    "replay, 500 samples": lambda s, n, seed: Replay(n, CLASSES, SMALL_MEMORY, seed=seed),
    "GDumb, 10,000 samples": lambda s, n, seed: GDumb(n, CLASSES, MEMORY, seed=seed),
    "GDumb, 500 samples": lambda s, n, seed: GDumb(n, CLASSES, SMALL_MEMORY, seed=seed),
    "Hoeffding tree": lambda s, n, seed: HoeffdingTree(),
    "joint training, MLP": lambda s, n, seed: Joint(n, CLASSES, seed=seed),
    "ADWIN on errors": lambda s, n, seed: adwin_on_errors(n, seed),
    "ADWIN on inputs": lambda s, n, seed: Watched(lambda X, y: X.mean(axis=1)),
}
# Some 70 · 10¹² operations and 5 GB a stream: half an hour on one core. Only in the part `wide`.
WIDE: dict[str, Builder] = {
    "RanPAC, 25,000 features": lambda s, n, seed: RanPAC(n, 25_000, seed=seed),
    "RanDumb, 25,000 features": lambda s, n, seed: RanDumb(n, 25_000, seed=seed),
}
DRIVEN = "EWC, driven by our detection"  # runs beside ours, whose reports it follows
NEEDS_RIVER = ("Hoeffding tree", "ADWIN on errors", "ADWIN on inputs")
DETECTS = ("ours (default)", "ours (paper)", "Gaussian per task", "ADWIN on errors",
           "ADWIN on inputs")  # fmt: skip
