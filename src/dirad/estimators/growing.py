"""DIRAD as scikit-learn estimators: validate, encode, scale; then the network does the rest."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from dirad.core.compose import with_output_scale
from dirad.core.describe import summary
from dirad.core.magnitudes import check_range, mean_and_std
from dirad.core.network import LINEAR, LOGISTIC, SOFTMAX, Network
from dirad.encoding import Encoding
from dirad.estimators.answering import class_answers, encoded, value_answers
from dirad.estimators.checks import (
    check_finite,
    check_inputs_range,
    check_spread,
    checked_labels,
    checked_weights,
    refuse_masked,
)
from dirad.estimators.columns import (
    FROM_DTYPE,
    checked_columns,
    encoding_of,
    fit_columns,
    input_groups,
    input_tags,
)
from dirad.estimators.constants import accepts_constants, params_of, set_constants
from dirad.estimators.fitting import Fit, Samples
from dirad.estimators.importances import input_importances
from dirad.estimators.reading import written_equations
from dirad.estimators.transaction import transaction, writable_copy
from dirad.history import History
from dirad.params import Params


def _begin(
    estimator: Any, samples: Samples, transfer: int, params: Params, steps: int | None
) -> None:
    """Begin a fit, and take steps."""
    check_spread(samples.X, estimator)
    estimator._fit = Fit(
        samples,
        params,
        transfer,
        check_random_state(estimator.random_state),
        standardize=estimator.preset != "paper",
        validation_fraction=estimator.validation_fraction,
        committee=estimator.committee,
        n_init=estimator.n_init,
        structure=estimator.structure,
        verbose=bool(estimator.verbose),
    )
    _advance(estimator, samples, steps)


def _advance(estimator: Any, samples: Samples, steps: int | None) -> None:
    """Take steps and set the fitted attributes that all estimators share."""
    fit: Fit = estimator._fit
    inputs = fit.advance(samples, steps, bool(estimator.verbose))
    estimator.network_ = fit.scale.fold(fit.network)
    check_finite(estimator)
    estimator.history_ = fit.growth
    estimator.params_ = fit.params
    estimator.n_edges_ = fit.network.n_edges
    estimator.n_hidden_ = fit.network.n_hidden
    estimator.n_parameters_ = estimator.network_.n_parameters
    estimator.n_steps_ = fit.n_steps
    estimator.is_stable_ = fit.stable
    importances, encoding = input_importances(fit.network, inputs), encoding_of(estimator)
    estimator.feature_importances_ = (
        importances if encoding is None else encoding.per_column(importances)
    )
    estimator.input_mean_, estimator.input_spread_ = mean_and_std(samples.X)
    if fit.stable:
        estimator._fit = None


def progress_of(estimator: Any) -> tuple[str, int, int]:
    """Return which network is grown, if there are several, the steps taken, and the most."""
    fit: Fit = estimator._fit
    return fit.place, *fit.progress


def _unfinished(estimator: Any) -> None:
    check_is_fitted(estimator)
    if estimator._fit is None:
        raise ValueError("the network is stable: there is nothing left to resume")


def _fitted_text(estimator: Any) -> str:
    text = repr(estimator)
    return f"{text}\n{summary(estimator.network_)}" if hasattr(estimator, "network_") else text


@accepts_constants
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
        Share of the samples held out to choose the best network during training; 0 for none.
    committee : int
        Networks that are grown, each from a random seed of its own. The network of the estimator
        is their average: larger, and usually more accurate where samples are noisy or few.
    n_init : "auto" or int
        Compact networks that are grown, each from a random seed of its own, of which one is kept:
        the one that describes samples, edges and weights in the fewest nats, or that has the least
        error on held-out samples (`validation_fraction`). Of each three, the second has a weaker
        `prior`, and the third no `breadth`. "auto" means 3 without `max_edges` and `committee`,
        and 1 with them.
    structure : {"auto", "compact", "wide"}
        A compact network has few edges, each of which was tested. A wide network has many nodes
        that feed every output; it is often more accurate on noisy tables, and no kernel has to be
        compiled for it. "auto" grows both and takes the wide one if it predicts held-out samples
        clearly better (up to 1,000 samples: also if a network without hidden nodes does); with
        `max_edges`, `validation_fraction`, the preset ``paper``, fewer than 60 samples or more than
        300 inputs the network is compact.
    categorical_features : "from_dtype", None, or a mask, indices or names of columns
        Columns that hold categories: text, or numbers that are codes. With "from_dtype" these are
        the columns of a pandas table of type category, and those that hold text.
    class_weight : dict, "balanced" or None
        As in scikit-learn.
    random_state : int, RandomState or None
    verbose : int
        1 shows a progress bar.
    **constants
        Any constant of `dirad.params.Params` by its name, such as ``R1=3``.

    X may have missing values (NaN, None), except in the preset ``paper``. A missing number becomes
    the mean of its column; where values were missing in `fit`, another input of the network tells
    so (1, else 0). Each category is an input of the network (1, else 0). Categories of fewer than
    10 samples, or of less than 5 % if there are under 200, share one input, with those that `fit`
    did not see.

    Attributes
    ----------
    network_ : Network
        Takes ``encoding_.encode(X)``, that is X itself if it has neither missing values nor
        categories. Scaling is folded into its weights.
    encoding_ : Encoding
        How the columns of X become inputs of `network_`. ``encoding_.names(columns)`` names them.
    history_ : History
    classes_, n_features_in_, feature_names_in_
    n_edges_, n_hidden_, n_parameters_, n_steps_ : int
    is_stable_ : bool, False after a `fit` that was stopped early; `resume` goes on.
    feature_importances_ : array, mean |slope| of the outputs per input of unit spread, summed over
        the inputs of each column of X.
    input_mean_, input_spread_ : array, mean and standard deviation of each input of `network_` in
        `fit`.

    Examples
    --------
    >>> X, y = [[-1, -1], [-1, 1], [1, -1], [1, 1]], ["same", "other", "other", "same"]
    >>> DIRADClassifier(random_state=0).fit(X, y).predict(X).tolist()
    ['same', 'other', 'other', 'same']
    """

    network_: Network
    encoding_: Encoding
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
        committee=1,
        n_init="auto",
        structure="auto",
        categorical_features=FROM_DTYPE,
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
        self.committee = committee
        self.n_init = n_init
        self.structure = structure
        self.categorical_features = categorical_features
        self.class_weight = class_weight
        self.random_state = random_state
        self.verbose = verbose
        set_constants(self, constants)

    def __str__(self) -> str:
        return _fitted_text(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(writable_copy(state))

    def __sklearn_tags__(self):
        return input_tags(self, super().__sklearn_tags__())

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, steps: int | None = None
    ) -> "DIRADClassifier":
        """Grow a network that predicts the classes y of samples X, in at most `steps` steps."""
        with transaction(self):
            refuse_masked("y", y)
            y = checked_labels(y)
            X, y = fit_columns(self, X, y, order="C", ensure_min_samples=2)
            check_classification_targets(y)
            self.classes_ = np.unique(y)
            if len(self.classes_) < 2:
                raise ValueError(
                    f"{type(self).__name__} needs samples of at least 2 classes, but y holds only "
                    f"the class {str(self.classes_[0])!r}"
                )
            check_inputs_range(self, X)
            several = len(self.classes_) > 2 and self.preset != "paper"
            samples = self._samples(X, y, sample_weight)
            _begin(self, samples, SOFTMAX if several else LOGISTIC, params_of(self), steps)
        return self

    def resume(
        self, X: Any, y: Any, sample_weight: Any = None, *, steps: int | None = None
    ) -> "DIRADClassifier":
        """Continue a fit that was stopped early, on the same samples, as if it had not stopped."""
        with transaction(self):
            _unfinished(self)
            X, y = checked_columns(self, X, checked_labels(y), order="C")
            _advance(self, self._samples(X, y, sample_weight), steps)
        return self

    def _samples(self, X: NDArray, y: NDArray, sample_weight: Any) -> Samples:
        weight = checked_weights(sample_weight, X)
        if self.class_weight is not None:
            by_class = compute_sample_weight(self.class_weight, y)
            weight = checked_weights(weight * checked_weights(by_class, X, "class_weight"), X)
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"y holds the class {unknown.tolist()[0]!r}, which fit did not see")
        codes = np.searchsorted(self.classes_, y)
        binary = len(self.classes_) == 2 and self.preset != "paper"
        targets = (
            (codes == 1)[:, None].astype(float) if binary else np.eye(len(self.classes_))[codes]
        )
        groups = codes if np.bincount(codes).min() > 1 else None
        inputs = encoded(encoding_of(self), X)
        return Samples(inputs, targets, weight, groups, input_groups(self, inputs))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class, one row per sample."""
        check_is_fitted(self)
        X = checked_columns(self, X)
        return class_answers(self).predict_proba(X)

    def predict(self, X: Any) -> NDArray:
        """Return the most probable class of each sample."""
        check_is_fitted(self)
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]

    def equations(self) -> list[str]:
        """Return the network as equations, one per node; steep gates are written as thresholds."""
        return written_equations(self)


@accepts_constants
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
    encoding_: Encoding
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
        committee=1,
        n_init="auto",
        structure="auto",
        categorical_features=FROM_DTYPE,
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
        self.committee = committee
        self.n_init = n_init
        self.structure = structure
        self.categorical_features = categorical_features
        self.random_state = random_state
        self.verbose = verbose
        set_constants(self, constants)

    def __str__(self) -> str:
        return _fitted_text(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(writable_copy(state))

    def __sklearn_tags__(self):
        tags = input_tags(self, super().__sklearn_tags__())
        tags.target_tags.multi_output = True
        return tags

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, steps: int | None = None
    ) -> "DIRADRegressor":
        """Grow a network that predicts the targets y of samples X, in at most `steps` steps."""
        with transaction(self):
            X, y = self._checked(fit_columns, X, y)
            self._single_column = y.ndim == 1
            y = y.reshape(len(y), -1).astype(float)
            check_inputs_range(self, X)
            check_range(y, what="y")
            logistic = self.preset == "paper"
            if logistic:
                offset, spread = y.min(axis=0), np.ptp(y, axis=0)
            else:
                offset, spread = mean_and_std(y)
            spread = np.where(spread > 0, spread, 1.0)
            self._offset, self._spread = offset, spread
            params = params_of(self, cost="squared")
            samples = self._samples(X, y, sample_weight)
            _begin(self, samples, LOGISTIC if logistic else LINEAR, params, steps)
            self._scale_outputs()
            check_finite(self)
        return self

    def resume(
        self, X: Any, y: Any, sample_weight: Any = None, *, steps: int | None = None
    ) -> "DIRADRegressor":
        """Continue a fit that was stopped early, on the same samples, as if it had not stopped."""
        with transaction(self):
            _unfinished(self)
            X, y = self._checked(checked_columns, X, y)
            y = y.reshape(len(y), -1).astype(float)
            _advance(self, self._samples(X, y, sample_weight), steps)
            self._scale_outputs()
        return self

    def _checked(self, check: Callable[..., Any], X: Any, y: Any) -> tuple[NDArray, NDArray]:
        return check(self, X, y, order="C", ensure_min_samples=2, multi_output=True, y_numeric=True)

    def _samples(self, X: NDArray, y: NDArray, sample_weight: Any) -> Samples:
        weight = checked_weights(sample_weight, X)
        inputs, targets = encoded(encoding_of(self), X), (y - self._offset) / self._spread
        return Samples(inputs, targets, weight, columns=input_groups(self, inputs))

    def _scale_outputs(self) -> None:
        """Fold the scaling of y into linear outputs; logistic ones are scaled afterwards."""
        self.target_offset_, self.target_scale_ = self._offset, self._spread
        if self.preset != "paper":
            self.network_ = with_output_scale(self.network_, self._offset, self._spread)
            self.target_offset_ = np.zeros_like(self._offset)
            self.target_scale_ = np.ones_like(self._spread)

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the predicted target of each sample."""
        check_is_fitted(self)
        X = checked_columns(self, X)
        return value_answers(self).predict(X)

    def equations(self) -> list[str]:
        """Return the network as equations, one per node; steep gates are written as thresholds."""
        return written_equations(self)
