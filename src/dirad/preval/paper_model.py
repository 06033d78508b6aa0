"""The paper's model: all outputs from the start, one step per batch, only the last batch is kept.

`connectivity` says which nodes may predict which, `validation` what counts as known; `paper` holds
the flow of batches among models.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.network import LOGISTIC, Network
from dirad.growth.adapt import Adaptation, WorkspacePool, new_data
from dirad.growth.state import new_state
from dirad.history import History
from dirad.immutable import shared
from dirad.inference import evaluate, respond
from dirad.preval.events import Verdict
from dirad.preval.expert import GROWING_L0, GROWING_L1, PHASE_STABLE, model_text
from dirad.preval.l1 import L1Training, new_l1
from dirad.preval.predictor import Predictor, fit_state_scaling
from dirad.preval.program import BY_CONFLICTS, RESIDUALS, ExpertParts, expert_program
from dirad.preval.settings import Settings
from dirad.preval.validation import (
    ErrorStats,
    confident,
    conflict_ratio,
    conflicted,
    error_stats,
    invalid,
    largest_difference,
    max_invalid_share,
    prediction_error,
)
from dirad.program import OUTPUTS, Program

STEPS_AT_ONCE = 100  # of training, when a model is finished at once


class PaperScores(NamedTuple):
    """What a finished model computes for some samples."""

    score: NDArray[np.float64]  # N_conf / N_CP: the sample goes to the model with the lowest
    outputs: NDArray[np.float64]  # (samples, classes)


@dataclass(frozen=True, eq=False)
class PaperExpert:
    """A finished model: L0, L1 for its confidently predicted nodes, and their error statistics."""

    number: int
    seed: int
    settings: Settings
    network: Network  # L0
    classes: tuple[int, ...]
    history: History  # of L0
    l1: Predictor
    error_stats: ErrorStats
    temperature: float  # by which probabilities are calibrated

    phase = PHASE_STABLE
    is_calibrated = True

    def __deepcopy__(self, memo: dict[Any, Any]) -> "PaperExpert":
        return shared(self, memo)

    def __repr__(self) -> str:
        return model_text(self)

    def network_inputs(self, X: NDArray) -> NDArray:
        """Return inputs as the networks see them: unchanged."""
        return X

    def l0_outputs(self, X: NDArray) -> NDArray[np.float64]:
        """Return L0's outputs: (samples, classes)."""
        return respond(self.network, X)

    def errors(self, X: NDArray) -> NDArray[np.float64]:
        """Return the prediction errors E of the confident nodes: (samples, nodes)."""
        return prediction_error(self.l1.residuals(X), self.settings.error)

    def evaluate(self, X: NDArray) -> PaperScores:
        """Return conflict ratios and class probabilities, in one pass through both networks."""
        found = evaluate(self.program, X)
        errors = prediction_error(found[RESIDUALS], self.settings.error)
        ratio = conflict_ratio(errors, self.error_stats, self.settings.T_conf)
        return PaperScores(ratio, found[OUTPUTS])

    @property
    def parts(self) -> ExpertParts:
        """What the program of the model is made of."""
        limits = self.error_stats.limits(self.settings.T_conf)
        return ExpertParts(
            l0=self.network,
            first_output=0,
            l1=self.l1,
            score=BY_CONFLICTS,
            limits=largest_difference(limits, self.settings.error),
            temperature=self.temperature,
        )

    @cached_property
    def program(self) -> Program:
        """The program that computes prediction errors and class probabilities."""
        return expert_program(self.parts, details=True).only([OUTPUTS, RESIDUALS])

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "program"}

    def verdict(self, conflict_ratio: NDArray[np.float64]) -> Verdict:
        """Return whether a batch with these conflict ratios is validated."""
        share = float((conflict_ratio >= self.settings.T_SV).mean())
        return Verdict(
            self.number, share, max_invalid_share(self.error_stats, self.settings.epsilon_IS)
        )

    def knows(self, X: NDArray) -> NDArray[np.bool_]:
        """Return which samples the paper's rule validates."""
        errors = self.errors(X)
        return ~invalid(errors, self.error_stats, self.settings.T_conf, self.settings.T_SV)

    def predicted_inputs(self, X: NDArray) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return which inputs L1 predicts, and their predicted values: (samples, these inputs)."""
        chosen = self.l1.is_input
        return self.l1.nodes[chosen], self.l1.predictions(X)[:, chosen]

    def conflicted(self, X: NDArray) -> NDArray[np.bool_]:
        """Return which of L0's nodes are conflicted, per sample: (samples, nodes of L0)."""
        result = np.zeros((len(X), self.network.n_inputs + len(self.network.units)), bool)
        found = conflicted(self.errors(X), self.error_stats, self.settings.T_conf)
        result[:, self.l1.nodes] = found
        return result

    @property
    def n_parameters(self) -> int:
        """Edges, biases and Ks of L0 and L1, and the statistics of validation."""
        stats = 2 * len(self.error_stats.mean) + 2
        return self.network.n_parameters + self.l1.n_parameters + stats


@dataclass(eq=False)
class PaperLearner:
    """A model in training: L0 first, and then L1."""

    number: int
    seed: int
    settings: Settings
    classes: list[int]
    l0: Adaptation
    last: tuple[NDArray, NDArray[np.int64]]  # the last batch
    history: History = field(default_factory=History)  # of L0
    temperature: float = 1.0
    l1: L1Training | None = None  # once L0 is stable

    error_stats = None  # only experts have them
    is_calibrated = False

    def __repr__(self) -> str:
        return model_text(self)

    @property
    def phase(self) -> str:
        """What is trained: L0 or L1."""
        return GROWING_L0 if self.l1 is None else GROWING_L1

    @property
    def network(self) -> Network:
        """L0 as it is now."""
        return self.l0.state.network

    def learn(
        self, X: NDArray, y: NDArray[np.int64], threads: int = 1
    ) -> tuple[int, PaperExpert | None]:
        """Take a step per batch, in order, until the phase is over.

        Returns how many batches were used, and the expert if training is over.
        """
        size = self.settings.l0.batch_size
        whole = slice(len(X) // size * size)
        X, y = X[whole], y[whole]
        used = self._advance_l0(X, y) if self.l1 is None else self.l1.step_per_batch(X, threads)
        last = slice((used - 1) * size, used * size)
        self.last = X[last].copy(), y[last].copy()
        if self.l1 is not None and self.l1.stable:
            return used, self._expert(self.l1)
        if self.l1 is None and self.l0.stable:
            self.l1 = self._begin_l1()
        return used, None

    def _advance_l0(self, X: NDArray, y: NDArray[np.int64]) -> int:
        before = self.l0.state.step
        targets = np.eye(len(self.classes))[y]
        data = new_data(X, targets, self.settings.l0, first=before)
        until = before + len(X) // self.settings.l0.batch_size
        self.history.extend(self.l0.advance(data, until, WorkspacePool(self.settings.l0, len(X))))
        return self.l0.state.step - before

    def _begin_l1(self) -> L1Training:
        X, y = self.last
        self.temperature = best_temperature(self.l0_outputs(X), y)
        states = fit_state_scaling(self.network, X, standardize=self.settings.standardize)
        return new_l1(states, X, self.settings, self.seed)

    def _expert(self, l1: L1Training) -> PaperExpert:
        """Choose confidently predicted nodes and compute μ, σ and R_IS, all on the last batch."""
        settings = self.settings
        errors = prediction_error(l1.residuals(self.last[0]), settings.error)
        chosen = confident(errors, settings.T_CP)
        stats = error_stats(errors[:, chosen], settings.T_conf, settings.T_SV)
        return PaperExpert(
            self.number,
            self.seed,
            settings,
            self.network,
            tuple(self.classes),
            self.history,
            l1.finished(chosen),
            stats,
            self.temperature,
        )

    def keep_if_empty(self, X: NDArray, y: NDArray[np.int64]) -> None:
        """Keep samples that do not fill a batch, if there are no others."""
        if not len(self.last[0]):
            self.last = X.copy(), y.copy()

    def finish_phase(self, threads: int = 1) -> PaperExpert | None:
        """Train until the phase is over, on the last batch again and again."""
        phase = self.phase
        expert = None
        while self.phase == phase and expert is None:
            # A batch that is too short is filled up with its own samples.
            whole = np.resize(np.arange(len(self.last[0])), self.settings.l0.batch_size)
            repeated = np.tile(whole, STEPS_AT_ONCE)
            _, expert = self.learn(self.last[0][repeated], self.last[1][repeated], threads)
        return expert

    def network_inputs(self, X: NDArray) -> NDArray:
        """Return inputs as the networks see them: unchanged."""
        return X

    def l0_outputs(self, X: NDArray) -> NDArray[np.float64]:
        """Return L0's outputs: (samples, classes)."""
        return respond(self.network, X)

    def probabilities(self, X: NDArray) -> NDArray[np.float64]:
        """Return L0's outputs as probabilities: calibrated, and normalized to add up to 1."""
        return normalized(with_temperature(self.l0_outputs(X), self.temperature))

    @property
    def n_parameters(self) -> int:
        """Edges, biases and Ks of L0 and L1."""
        return self.network.n_parameters + (0 if self.l1 is None else self.l1.n_parameters)


def new_paper_learner(
    number: int, n_inputs: int, n_classes: int, settings: Settings, seed: int
) -> PaperLearner:
    """Return a model that has seen nothing yet, with an output for every class."""
    state = new_state(n_inputs, n_classes, transfer=LOGISTIC, seed=seed)
    nothing = np.zeros((0, n_inputs)), np.zeros(0, np.int64)
    l0 = Adaptation(state, settings.l0)
    return PaperLearner(number, seed, settings, list(range(n_classes)), l0, nothing)


def with_temperature(outputs: NDArray, temperature: float) -> NDArray[np.float64]:
    """Return logistic outputs with their activations divided by a temperature."""
    inside = np.clip(outputs, 1e-12, 1.0 - 1e-12)
    return 1.0 / (1.0 + ((1.0 - inside) / inside) ** (1.0 / temperature))


def normalized(outputs: NDArray) -> NDArray[np.float64]:
    """Return outputs that add up to 1."""
    return outputs / np.maximum(outputs.sum(axis=1, keepdims=True), 1e-300)


def best_temperature(outputs: NDArray, columns: NDArray[np.int64]) -> float:
    """Return the temperature that makes the right columns most probable."""
    from scipy.optimize import minimize_scalar  # imported late: only training needs it

    def cost(log_temperature: float) -> float:
        warm = with_temperature(outputs, float(np.exp(log_temperature)))
        share = warm[np.arange(len(warm)), columns] / np.maximum(warm.sum(axis=1), 1e-300)
        return float(-np.mean(np.log(np.maximum(share, 1e-12))))

    found = minimize_scalar(cost, bounds=(-3.0, 3.0), method="bounded")
    return float(np.exp(found.x))  # type: ignore[attr-defined]
