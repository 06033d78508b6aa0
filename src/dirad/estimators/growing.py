"""DIRAD as scikit-learn estimators: validate, encode, scale; then the network does the rest."""

import inspect
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from dirad.core.describe import summary
from dirad.core.network import LINEAR, LOGISTIC, SOFTMAX, Network
from dirad.core.order import new_plan
from dirad.core.propagate import (
    backward,
    forward,
    load_batch,
    new_answers,
    output_units,
    respond,
)
from dirad.growth.adapt import adapt, new_data
from dirad.growth.state import PHASE, SMOOTHED, State, new_state
from dirad.history import PHASE_NAMES, History
from dirad.params import Params, preset

_CONSTANTS = tuple(field.name for field in fields(Params))
_validate: Any = validate_data  # its declared types are narrower than what it takes


def _accepts_constants(cls: type) -> type:
    """Put every constant of `Params` into the signature of ``cls.__init__``, default None.

    scikit-learn reads an estimator's parameters from that signature. None means: as in the preset.
    """
    init = cls.__init__
    signature = inspect.signature(init)
    own = [p for p in signature.parameters.values() if p.kind != p.VAR_KEYWORD]
    names = {p.name for p in own}
    extra = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)
        for name in _CONSTANTS
        if name not in names
    ]
    init.__signature__ = signature.replace(parameters=own + extra)  # type: ignore[attr-defined]
    return cls


def _set_constants(estimator: BaseEstimator, constants: dict[str, Any]) -> None:
    """Set every constant as an attribute; an unknown name is an error."""
    for name in constants:
        if name not in _CONSTANTS:
            raise TypeError(f"{type(estimator).__name__} has no parameter {name!r}")
    for name in _CONSTANTS:
        if not hasattr(estimator, name):
            setattr(estimator, name, constants.get(name))


def _params(estimator: Any, **forced: Any) -> Params:
    """Return the preset with what the user said, and what the task demands where he did not."""
    said = {name: getattr(estimator, name) for name in _CONSTANTS}
    said = {name: value for name, value in said.items() if value is not None}
    return preset(estimator.preset, **{**forced, **said})


class _Scale:
    """Standardization of the inputs that is folded into the network afterwards."""

    def __init__(self, X: NDArray, enabled: bool) -> None:
        self.mean = X.mean(axis=0) if enabled else np.zeros(X.shape[1])
        spread = X.std(axis=0) if enabled else np.ones(X.shape[1])
        # A constant feature says nothing; rounding must not make it look as if it did.
        self.constant = spread <= 1e-10 * np.maximum(np.abs(self.mean), 1e-300)
        self.spread = np.where(self.constant, 1.0, spread)

    def apply(self, X: NDArray) -> NDArray:
        return (X - self.mean) / self.spread

    def fold(self, network: Network) -> Network:
        """Return a network that gives for X what `network` gives for apply(X)."""
        network = network.copy()
        edges = network.edges
        for e in np.flatnonzero((edges["source"] >= 0) & (edges["source"] < network.n_inputs)):
            source, term = edges["source"][e], edges["term"][e]
            edges["weight"][e] /= self.spread[source]
            network.bias[term // 2, term % 2] -= edges["weight"][e] * self.mean[source]
        return network


def _grow(
    estimator: Any,
    X: NDArray,
    targets: NDArray,
    sample_weight: NDArray,
    transfer: int,
    params: Params,
    stratify: NDArray | None,
) -> None:
    """Grow a network and set the fitted attributes that all estimators share."""
    random_state = check_random_state(estimator.random_state)
    scale = _Scale(X, enabled=estimator.preset != "paper")
    inputs = scale.apply(X)
    held_out = None
    if estimator.validation_fraction:
        if not 0.0 < estimator.validation_fraction < 1.0:
            raise ValueError(
                f"validation_fraction must be in [0, 1), got {estimator.validation_fraction!r}"
            )
        parts: Any = train_test_split(
            inputs,
            targets,
            sample_weight,
            test_size=estimator.validation_fraction,
            random_state=random_state.randint(2**31),
            stratify=stratify,
        )
        inputs, held_inputs, targets, held_targets, sample_weight, _ = parts
        held_out = (held_inputs, held_targets)
    seed = int(random_state.randint(2**31))
    state = new_state(
        X.shape[1], targets.shape[1], transfer=transfer, seed=seed, n_samples=len(inputs)
    )
    state.network.usable[:] = ~scale.constant
    data = new_data(inputs, targets, params, sample_weight)
    watcher = _Watcher(estimator, params, held_out)
    with watcher:
        state, history = adapt(state, data, params, report=watcher.look)
    network = watcher.best_network if watcher.best_network is not None else state.network
    estimator.network_ = scale.fold(network)
    estimator.history_ = history
    estimator.params_ = params
    estimator.n_edges_ = network.n_edges
    estimator.n_hidden_ = network.n_hidden
    estimator.n_parameters_ = estimator.network_.n_parameters
    estimator.n_steps_ = state.step
    estimator.feature_importances_ = _importances(network, inputs)


class _Watcher:
    """Shows progress, and keeps the network that does best on held-out samples."""

    def __init__(
        self, estimator: Any, params: Params, held_out: tuple[NDArray, NDArray] | None
    ) -> None:
        self.params = params
        self.held_out = held_out
        self.best_network: Network | None = None
        self.best_error = np.inf
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total} steps"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=not estimator.verbose,
        )
        self.task = self.progress.add_task("growing", total=params.max_steps)

    def __enter__(self) -> "_Watcher":
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def look(self, state: State) -> None:
        network = state.network
        self.progress.update(
            self.task,
            completed=state.step,
            description=(
                f"{PHASE_NAMES[state.clock[PHASE]]}: error {state.meter[SMOOTHED]:.4f}, "
                f"{network.n_edges} edges, {network.n_hidden} hidden"
            ),
        )
        # Above the limit a network is only on its way: it is not offered as the best.
        if self.held_out is not None and network.n_edges <= self.params.max_edges:
            X, y = self.held_out
            error = float(np.mean((respond(network, X) - y) ** 2))
            if error < self.best_error:
                self.best_error, self.best_network = error, network.copy()


def _importances(network: Network, X: NDArray, limit: int = 1000) -> NDArray[np.float64]:
    """Return the mean |∂z/∂x| of the outputs' activations z over (scaled) samples, summing to 1."""
    X = X[:limit]
    linear = network.copy()
    linear.counts[4] = LINEAR
    plan, work = new_plan(linear), new_answers(linear, len(X))
    edges = linear.edges
    from_inputs = np.flatnonzero((edges["source"] >= 0) & (edges["source"] < linear.n_inputs))
    rows = linear.n_inputs + output_units(linear)
    total = np.zeros(linear.n_inputs)
    load_batch(work, X)
    forward(linear, plan, work)
    answers = work.state[rows].copy()
    for column in range(linear.n_outputs):
        work.target[:] = answers
        work.target[column] -= 1.0  # a mismatch of 1 there and 0 elsewhere: δ is then ∂z/∂z_term
        backward(linear, plan, work, 0, 0.0)
        slope = np.zeros((linear.n_inputs, len(X))) if len(from_inputs) else None
        if slope is None:
            break
        weighted = (
            edges["weight"][from_inputs, None] * work.delta[edges["term"][from_inputs], : len(X)]
        )
        np.add.at(slope, edges["source"][from_inputs], weighted)
        total += np.abs(slope).mean(axis=1)
    return total / total.sum() if total.sum() > 0 else total


def _fitted_text(estimator: Any) -> str:
    text = repr(estimator)
    return f"{text}\n{summary(estimator.network_)}" if hasattr(estimator, "network_") else text


@_accepts_constants
class DIRADClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that grows a sparse network from inputs and outputs alone.

    Parameters
    ----------
    preset : {"default", "paper"}
        Our own settings, or the paper's (squared error, γ = 2, one logistic output per class,
        inputs as they are: scale them to [0, 1]).
    max_edges, max_hidden, batch_size, max_steps : int, optional
        Limits of growth; by default the preset's.
    validation_fraction : float
        Share of the samples held out to choose the best moment of the network; 0 for none.
    class_weight : dict, "balanced" or None
        As in scikit-learn.
    random_state : int, RandomState or None
    verbose : int
        1 shows a progress bar.
    **constants
        Any constant of `dirad.params.Params` by its name, such as ``R1=3``.

    Attributes
    ----------
    network_ : Network
        Takes raw inputs: scaling is folded into its weights.
    history_ : History
    classes_, n_features_in_, feature_names_in_
    n_edges_, n_hidden_, n_parameters_, n_steps_ : int
    feature_importances_ : array, mean |slope| of the outputs per input of unit spread.

    Examples
    --------
    >>> X, y = [[-1, -1], [-1, 1], [1, -1], [1, 1]], ["same", "other", "other", "same"]
    >>> DIRADClassifier(random_state=0).fit(X, y).predict(X).tolist()
    ['same', 'other', 'other', 'same']
    """

    network_: Network
    history_: History

    def __init__(
        self,
        *,
        preset="default",
        max_edges=None,
        max_hidden=None,
        batch_size=None,
        max_steps=None,
        validation_fraction=0.0,
        class_weight=None,
        random_state=None,
        verbose=0,
        **constants,
    ):
        self.preset = preset
        self.max_edges = max_edges
        self.max_hidden = max_hidden
        self.batch_size = batch_size
        self.max_steps = max_steps
        self.validation_fraction = validation_fraction
        self.class_weight = class_weight
        self.random_state = random_state
        self.verbose = verbose
        _set_constants(self, constants)

    def __str__(self) -> str:
        return _fitted_text(self)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "DIRADClassifier":
        """Grow a network for classes y of samples X."""
        X, y = _validate(self, X, y, dtype=np.float64, order="C", ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        n_classes = len(self.classes_)
        if n_classes < 2:
            raise ValueError(
                f"{type(self).__name__} needs samples of at least 2 classes, but y holds only "
                f"the class {str(self.classes_[0])!r}"
            )
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        if self.class_weight is not None:
            weight = weight * compute_sample_weight(self.class_weight, y)
        binary = n_classes == 2 and self.preset != "paper"
        targets = (codes == 1)[:, None].astype(float) if binary else np.eye(n_classes)[codes]
        transfer = LOGISTIC if binary or self.preset == "paper" else SOFTMAX
        stratify = codes if np.bincount(codes).min() > 1 else None
        _grow(self, X, targets, weight, transfer, _params(self), stratify)
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class, one row per sample."""
        check_is_fitted(self)
        X = _validate(self, X, dtype=np.float64, reset=False)
        answers = respond(self.network_, X)
        if answers.shape[1] == 1:
            return np.hstack([1.0 - answers, answers])
        return answers / np.maximum(answers.sum(axis=1, keepdims=True), 1e-300)

    def predict(self, X: Any) -> NDArray:
        """Return the most probable class of each sample."""
        check_is_fitted(self)
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]


@_accepts_constants
class DIRADRegressor(RegressorMixin, BaseEstimator):
    """A regressor that grows a sparse network from inputs and outputs alone.

    The parameters and fitted attributes are those of `DIRADClassifier`, less what concerns
    classes. Outputs are linear in `default`; in `paper` they are logistic, with y scaled to the
    range seen in `fit`. y may have several columns.

    Examples
    --------
    >>> X = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]]
    >>> model = DIRADRegressor(random_state=0).fit(X, [1, 3, 5, 7, 9, 11])
    >>> model.predict([[1.5]]).round(1).tolist()
    [4.0]
    """

    network_: Network
    history_: History

    def __init__(
        self,
        *,
        preset="default",
        max_edges=None,
        max_hidden=None,
        batch_size=None,
        max_steps=None,
        validation_fraction=0.0,
        random_state=None,
        verbose=0,
        **constants,
    ):
        self.preset = preset
        self.max_edges = max_edges
        self.max_hidden = max_hidden
        self.batch_size = batch_size
        self.max_steps = max_steps
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.verbose = verbose
        _set_constants(self, constants)

    def __str__(self) -> str:
        return _fitted_text(self)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "DIRADRegressor":
        """Grow a network for targets y of samples X."""
        X, y = _validate(
            self,
            X,
            y,
            dtype=np.float64,
            order="C",
            ensure_min_samples=2,
            multi_output=True,
            y_numeric=True,
        )
        self._single_column = y.ndim == 1
        y = y.reshape(len(y), -1).astype(float)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        logistic = self.preset == "paper"
        if logistic:
            offset, spread = y.min(axis=0), np.ptp(y, axis=0)
        else:
            offset, spread = y.mean(axis=0), y.std(axis=0)
        spread = np.where(spread > 0, spread, 1.0)
        params = _params(self, cost="squared")
        transfer = LOGISTIC if logistic else LINEAR
        _grow(self, X, (y - offset) / spread, weight, transfer, params, None)
        if not logistic:
            self.network_ = _with_output_scale(self.network_, offset, spread)
            offset, spread = np.zeros_like(offset), np.ones_like(spread)
        self.target_offset_, self.target_scale_ = offset, spread
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the predicted target of each sample."""
        check_is_fitted(self)
        X = _validate(self, X, dtype=np.float64, reset=False)
        answers = respond(self.network_, X) * self.target_scale_ + self.target_offset_
        return answers[:, 0] if self._single_column else answers


def _with_output_scale(network: Network, offset: NDArray, spread: NDArray) -> Network:
    """Return a network whose linear outputs are offset + spread times those of `network`."""
    network = network.copy()
    for column, unit in enumerate(output_units(network)):
        into = (network.edges["source"] >= 0) & (network.edges["term"] == 2 * unit)
        network.edges["weight"][into] *= spread[column]
        network.bias[unit, 0] = network.bias[unit, 0] * spread[column] + offset[column]
    return network
