"""PREVAL as a scikit-learn regressor, for streams whose rules change without notice."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from dirad.engine import threads_for
from dirad.estimators.columns import FROM_DTYPE
from dirad.estimators.number_stream import NumberAnswers, NumberStream
from dirad.estimators.stream_checks import (
    checked_number_samples,
    checked_numbers,
    checked_sample_numbers,
    warn_of_late_labels,
    with_options,
)
from dirad.estimators.stream_columns import AUTO
from dirad.estimators.stream_estimator import StreamEstimator
from dirad.estimators.stream_state import finished, learned
from dirad.estimators.transaction import locked, transaction
from dirad.preval.events import Explanation
from dirad.preval.settings import REGRESSION, Settings
from dirad.preval.system import System


class PREVALRegressor(RegressorMixin, StreamEstimator):
    """A regressor for streams: it detects new rules, and opens a model for each of them.

    It works as `PREVALClassifier` does. Each model consists of a network that predicts the target
    (L0) and a network that predicts the inputs (L1). A batch is new if no L1 predicts its inputs
    well, or if the residuals are larger than those of held-out samples, or shifted. A rule that
    comes back is recognized, and its model predicts again without any learning. Finished
    models never change. Targets may be missing or arrive late.

    Parameters
    ----------
    batch_size : int, optional
        Samples that are tested and learned together (200).
    buffer_size : int, optional
        Largest number of samples of the current rule that are stored during training (10,000).
        Samples of earlier rules are never stored.
    begin : int, optional
        Samples of a new rule that are collected before its model is trained and calibrated (200).
    steps_per_batch : int, optional
        Training steps after each batch, on batches drawn from the buffer (1,000). A model becomes
        stable when its buffer is full, another rule holds, or `finish` is called.
    false_alarms : float, optional
        Probability that a batch of a known rule, of any size, is called new (0.0001).
    false_alarms_per : {"batch", "stream"}, optional
        Whether that is the probability for any one batch, or that there is ever a false alarm in
        the whole stream, however long it becomes.
    held_out : float, optional
        Share of the samples that is held out for calibration (0.1); of the first 200 samples of a
        rule at least a fifth.
    order_matters : {"auto", True, False}, optional
        Whether samples depend on those before them (`default`). Then held-out samples are stretches
        instead of single ones, and a test counts dependent samples as the independent ones they are
        worth. "auto" finds out from the samples; False takes them for independent.
    modes : int, optional
        Largest number of clusters in L1 (20); fewer make a smaller, coarser L1.
    max_models : int, optional
        Largest number of models (0: no limit; 100). Beyond it, the model that was not used for
        longest is removed.
    max_versions : int, optional
        Largest number of versions of a model (0: none, `default`: 8): corrections of its answers
        that were better for long are kept, and recognized when their rule returns.
    l0, l1 : dict, optional
        Constants of `dirad.params.Params` for the two networks, such as ``{"max_edges": 30}``.
    categorical_features : "from_dtype", None, or a mask, indices or names of columns
        Columns that hold categories: text, or numbers that are codes. With "from_dtype" these are
        the columns of a pandas table of type category, and those that hold text.
    missing_features : "auto", "all", None, or a mask, indices or names of columns
        Columns of which an input tells whether the value is missing (1, else 0). With "auto" these
        are all columns of a mixed stream, and no others.
    n_jobs : int, optional
        Threads that fit the parts of an L1; -1 or None: one per core. The result does not
        depend on it.
    random_state : int, RandomState or None

    X may have missing values and categories, as that of `PREVALClassifier`.

    Attributes
    ----------
    models_ : list of the models, oldest first
    events_ : list of `ModelEvent`: the batch in which a model was opened, became stable, was chosen
    reports_ : list of `Report`: for each batch, whether it was known, new or mixed, and why
    n_samples_seen_ : int, samples so far; `label` uses their numbers
    n_parameters_ : int, numbers stored in all models
    n_late_labels_ : int, after `label`: how many labels of that call came too late to be used
    encoding_ : Encoding, or None until the first batch is complete
        How the columns of X become the inputs of the models. ``encoding_.names(columns)`` names
        them.
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> def regime(slope):
    ...     X = rng.uniform(-1, 1, (1000, 2))
    ...     return X, slope * X[:, 0] + X[:, 1] + rng.normal(0, 0.1, 1000)
    >>> model = PREVALRegressor(random_state=0)
    >>> for slope in (1, -2, 1):  # the first rule comes back
    ...     model = model.partial_fit(*regime(slope))
    >>> [event.batch for event in model.events_ if event.kind == "opened"]
    [0, 5]
    >>> [report.model for report in model.reports_[-5:]]
    [0, 0, 0, 0, 0]
    >>> model.predict([[0.5, 0.5]]).round(1).tolist()
    [1.0]
    >>> model.predict_interval([[0.5, 0.5]], coverage=0.9).round(1).tolist()
    [[0.8, 1.2]]
    """

    preset = "default"  # the paper's method has no models of numbers

    def __init__(
        self,
        *,
        batch_size=None,
        buffer_size=None,
        begin=None,
        steps_per_batch=None,
        false_alarms=None,
        false_alarms_per=None,
        held_out=None,
        order_matters=None,
        modes=None,
        max_models=None,
        max_versions=None,
        l0=None,
        l1=None,
        categorical_features=FROM_DTYPE,
        missing_features: Any = AUTO,
        n_jobs=None,
        random_state=None,
    ):
        self.batch_size = batch_size
        self.buffer_size = buffer_size
        self.begin = begin
        self.steps_per_batch = steps_per_batch
        self.false_alarms = false_alarms
        self.false_alarms_per = false_alarms_per
        self.held_out = held_out
        self.order_matters = order_matters
        self.modes = modes
        self.max_models = max_models
        self.max_versions = max_versions
        self.l0 = l0
        self.l1 = l1
        self.categorical_features = categorical_features
        self.missing_features = missing_features
        self.n_jobs = n_jobs
        self.random_state = random_state

    # ---------------------------------------------------------------- learning

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "PREVALRegressor":
        """Start from nothing, learn X in its order, and finish all models.

        `sample_weight` is as in `partial_fit`.
        """
        if y is None:
            raise ValueError(
                f"requires y to be passed, but the target y is None: {type(self).__name__} learns "
                "from targets, if only of some samples"
            )
        fresh = type(self)(**self.get_params(deep=False))  # others may ask this one meanwhile
        given = checked_number_samples(fresh, X, y, None, sample_weight=sample_weight, size=None)
        if not len(given.X):
            raise ValueError("sample_weight is zero for all samples: nothing is left to learn")
        if given.missing.all():
            raise ValueError("Input y contains NaN alone: no sample has a target")
        stream = fresh._new_stream(given.X.shape[1])._replace(columns=given.columns)
        fresh._stream = finished(learned(stream, given.X, given.y, given.weight, fit=True))
        return self._take(fresh)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "PREVALRegressor":
        """Learn from the next samples of the stream.

        Samples wait until they fill a batch, so that the result does not depend on how the stream
        is divided into calls. Targets may be missing: all of them (None), or those that are None or
        NaN. `label` adds them when they become known.

        `sample_weight` says how much each sample counts in what L0 learns: 2 counts as two samples,
        and a sample of weight 0 is left out, without a number. Detection, L1, intervals and
        corrections for drift count samples, not weights.

        Other threads can predict during this call, from the state before it. Threads that learn
        wait for each other. A call that fails or is interrupted changes nothing.
        """
        with transaction(self):
            stream = vars(self).get("_stream")
            given = checked_number_samples(
                self, X, y, stream, sample_weight=sample_weight, size=self._batch_size
            )
            stream = self._new_stream(given.X.shape[1]) if stream is None else stream
            stream = stream._replace(columns=given.columns)
            self._stream = learned(stream, given.X, given.y, given.weight)
        return self

    def label(self, numbers: Any, y: Any) -> "PREVALRegressor":
        """Add targets that arrived late; samples are numbered from 0 in the order of the stream.

        The samples of a model that has become stable are no longer stored, so that their targets
        cannot be used. A warning says how many these are.
        """
        with locked(self):
            stream = self._state
            y = checked_numbers(self, y)
            numbers = checked_sample_numbers(numbers, len(y), stream.n_samples)
            if np.isnan(y).any():
                raise ValueError("a late target is None or NaN: leave out what is not known yet")
            self._stream, late = stream.labelled(numbers, y)
            self.n_late_labels_ = late
        warn_of_late_labels(late, len(numbers))
        return self

    def _new_stream(self, n_inputs: int) -> NumberStream:
        """Return the state of a stream that has not begun."""
        seed = int(check_random_state(self.random_state).randint(2**31))
        settings, threads = self._settings, threads_for(self.n_jobs)
        system = System(n_inputs, 0, settings, seed=seed, threads=threads)
        return NumberStream(system, (np.zeros((0, n_inputs)), np.zeros(0)))

    @property
    def _settings(self) -> Settings:
        return with_options(self, REGRESSION)

    # ---------------------------------------------------------------- answers

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the predicted target of each sample."""
        return self._answers.predict(self._checked(X))

    def predict_interval(self, X: Any, coverage: float = 0.9) -> NDArray[np.float64]:
        """Return an interval that holds each sample's target with probability `coverage`.

        The result is (samples, 2): lower and upper ends. The half width is a quantile of the
        |residuals| of samples that the model was not fitted to (split conformal prediction), so
        that the probability holds for samples of the model's rule, whatever their distribution. It
        is infinite where too few samples were held out for this coverage.
        """
        X = self._checked(X)
        if not 0 < coverage < 1:
            raise ValueError(f"coverage must be between 0 and 1, got {coverage!r}")
        return self._answers.predict_interval(X, coverage)

    def explain(self, X: Any, y: Any = None) -> Explanation:
        """Return what kind of change a batch of samples shows, and why.

        `kind` is "known", "back" (known by another model than the one in use), "new inputs",
        "shifted inputs" (the targets agree with the answers), "new rule" (the inputs are known and
        the targets disagree) or "mixed" (of several tasks; `cause` is the kind of the new samples).
        `inputs` are those that contradict the model most, with their usual and present means.
        """
        check_is_fitted(self)
        given = checked_number_samples(self, X, y, self._state)
        return self._answers.explain(given.X, given.y)

    @property
    def _answers(self) -> NumberAnswers:
        return NumberAnswers(self._state)
