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
    fit_autoencoder,
    fit_mixture,
    fit_prototypes,
)

MEMORY = 10_000  # samples that replay and GDumb keep: as many as our buffer holds
SMALL_MEMORY = 500


def settings_for(scenario: Scenario, preset: str = "default", **changes: Any) -> Settings:
    """Return our settings for a scenario."""
    chosen = PRESETS[preset].replace(**changes)
    if preset == "default":
        l0 = chosen.l0.replace(batch_size=scenario.batch_size)
        if scenario.split.begin is not None:  # tasks are short: said in the table
            chosen = chosen.replace(begin=min(chosen.begin, scenario.split.begin))
        return chosen.replace(l0=l0)
    size = min(scenario.batch_size, chosen.l0.batch_size)
    return chosen.replace(
        l0=chosen.l0.replace(batch_size=size), l1=chosen.l1.replace(batch_size=size), T_CP=0.05
    )


class Ours:
    """A system of models; told nothing but samples and labels."""

    def __init__(self, scenario: Scenario, n_inputs: int, seed: int, settings: Settings) -> None:
        self.system = new_system(n_inputs, scenario.n_classes, settings, seed=seed, threads=1)
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
        return self.system.answer(X.astype(np.float64)).outputs.argmax(axis=1)

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
        return np.min([self.gaussian(label).neg_log_density(X) for label in self.classes], axis=0)


class Perceptron(FineTuned):
    """The fine-tuned perceptron, with a novelty of its own."""

    def novelty(self, X: NDArray) -> NDArray[np.float64]:
        """Return one less the largest probability (Hendrycks & Gimpel, 2017)."""
        return 1.0 - self.net.probabilities(X).max(axis=1)


class ToldEWC(EWC):
    """EWC that is told where each task ends."""

    def __init__(self, scenario: Scenario, n_inputs: int, seed: int) -> None:
        super().__init__(n_inputs, scenario.n_classes, seed=seed)
        self.every = scenario.per_task // scenario.batch_size
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


def adwin_on_errors(scenario: Scenario, n_inputs: int, seed: int) -> Watched:
    """ADWIN on the errors of the fine-tuned perceptron, before it learns each batch."""
    learner = FineTuned(n_inputs, scenario.n_classes, scenario.constants.online, seed)
    return Watched(lambda X, y: (learner.predict(X) != y).astype(float), learner)


def gaussian_per_task(scenario: Scenario, n_inputs: int, seed: int) -> TaskGaussianRouter:
    """Return the peer that detects tasks; it has an opinion after half a short task."""
    warm_up = min(1000, scenario.per_task // 2)
    return TaskGaussianRouter(n_inputs, scenario.constants.task, warm_up=warm_up)


def fecam(scenario: Scenario, n_inputs: int, seed: int) -> FeCAM:
    """Return FeCAM with the constants of a data set."""
    chosen = scenario.constants
    return FeCAM(n_inputs, chosen.fecam_shrinkage, chosen.fecam_power)


def pec(scenario: Scenario, n_inputs: int, seed: int) -> PEC:
    """Return PEC, which is told about how many samples of a class the stream shows."""
    expected = scenario.per_task // scenario.classes_per_task
    return PEC(n_inputs, expected, scenario.constants.pec_rate, seed=seed)


def ranpac(n_features: int, scenario: Scenario, n_inputs: int, seed: int) -> RanPAC:
    """Return RanPAC with the constants of a data set."""
    return RanPAC(n_inputs, n_features, scenario.constants.ranpac_ridge, seed=seed)


def randumb(n_features: int, scenario: Scenario, n_inputs: int, seed: int) -> RanDumb:
    """Return RanDumb with the constants of a data set."""
    return RanDumb(n_inputs, n_features, width=scenario.constants.randumb_width, seed=seed)


def factor_analysers(scenario: Scenario, n_inputs: int, seed: int) -> ModelPerClass:
    """Return a mixture of factor analysers of each class."""
    fit = partial(fit_mixture, least_noise=scenario.constants.least_noise)
    return ModelPerClass(n_inputs, fit, seed=seed)


def autoencoders(scenario: Scenario, n_inputs: int, seed: int) -> ModelPerClass:
    """Return a variational autoencoder of each class."""
    fit = partial(fit_autoencoder, variance=scenario.constants.vae_variance)
    return ModelPerClass(n_inputs, fit, seed=seed)


def prototypes(scenario: Scenario, n_inputs: int, seed: int) -> ModelPerClass:
    """Return k-means prototypes of each class, as many as take our bytes."""
    ours = scenario.split.our_bytes
    assert ours is not None  # see `plan.methods_on`
    n = max(1, ours // (scenario.n_classes * NUMBER * n_inputs))
    return ModelPerClass(n_inputs, partial(fit_prototypes, n_prototypes=n), seed=seed)


def replay(memory: int, scenario: Scenario, n_inputs: int, seed: int) -> Replay:
    """Return replay from a memory of so many samples."""
    return Replay(n_inputs, scenario.n_classes, memory, scenario.constants.online, seed)


def gdumb(memory: int, scenario: Scenario, n_inputs: int, seed: int) -> GDumb:
    """Return GDumb with a memory of so many samples."""
    return GDumb(n_inputs, scenario.n_classes, memory, scenario.constants.gdumb, seed)


Builder = Callable[[Scenario, int, int], Any]  # scenario, inputs, seed

METHODS: dict[str, Builder] = {
    "ours (default)": lambda s, n, seed: Ours(s, n, seed, settings_for(s)),
    "ours (paper)": lambda s, n, seed: Ours(s, n, seed, settings_for(s, "paper")),
    "Gaussian per task": gaussian_per_task,
    "QDA: Gaussian per class": lambda s, n, seed: QDA(n, s.constants.qda),
    "streaming LDA": lambda s, n, seed: StreamingLDA(n, s.constants.lda),
    "nearest class mean": lambda s, n, seed: NearestMean(n),
    "random features + ridge": lambda s, n, seed: RandomFeatures(
        n, penalty=s.constants.features_ridge, seed=seed
    ),
    "RanPAC, 1,000 features": partial(ranpac, 1000),
    "RanPAC, 5,000 features": partial(ranpac, 5000),
    "RanDumb, 1,000 features": partial(randumb, 1000),
    "RanDumb, 5,000 features": partial(randumb, 5000),
    "FeCAM": fecam,
    "PEC": pec,
    "factor analysers per class": factor_analysers,
    "VAE per class": autoencoders,
    "k-means prototypes per class": prototypes,
    "fine-tuned MLP": lambda s, n, seed: Perceptron(n, s.n_classes, s.constants.online, seed),
    "EWC, told": ToldEWC,
    "replay, 10,000 samples": partial(replay, MEMORY),
    "replay, 500 samples": partial(replay, SMALL_MEMORY),
    "GDumb, 10,000 samples": partial(gdumb, MEMORY),
    "GDumb, 500 samples": partial(gdumb, SMALL_MEMORY),
    "Hoeffding tree": lambda s, n, seed: HoeffdingTree(),
    "joint training, MLP": lambda s, n, seed: Joint(n, s.n_classes, s.constants.joint, seed),
    "ADWIN on errors": adwin_on_errors,
    "ADWIN on inputs": lambda s, n, seed: Watched(lambda X, y: X.mean(axis=1)),
}
# Some 70 · 10¹² operations and 5 GB a stream: half an hour on one core. Only in the part `wide`.
WIDE: dict[str, Builder] = {
    "RanPAC, 25,000 features": partial(ranpac, 25_000),
    "RanDumb, 25,000 features": partial(randumb, 25_000),
}
DRIVEN = "EWC, driven by our detection"  # runs beside ours, whose reports it follows
NEEDS_RIVER = ("Hoeffding tree", "ADWIN on errors", "ADWIN on inputs")
DETECTS = ("ours (default)", "ours (paper)", "Gaussian per task", "ADWIN on errors",
           "ADWIN on inputs")  # fmt: skip
