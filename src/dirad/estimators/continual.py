"""PREVAL as a scikit-learn classifier, for streams whose tasks change without notice."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from dirad.engine import threads_for
from dirad.estimators.checks import checked_labels, without_label
from dirad.estimators.columns import FROM_DTYPE
from dirad.estimators.stream_checks import (
    check_label_type,
    check_named,
    checked_sample_numbers,
    checked_samples,
    chosen_settings,
    warn_of_late_labels,
)
from dirad.estimators.stream_columns import AUTO
from dirad.estimators.stream_estimator import StreamEstimator
from dirad.estimators.stream_state import (
    StreamAnswers,
    StreamState,
    finished,
    learned,
    with_late_labels,
)
from dirad.estimators.transaction import locked, transaction
from dirad.preval.choice import new_system
from dirad.preval.events import Explanation
from dirad.preval.settings import Settings

MAX_PASSES = 200  # over the data, that `fit` makes for a paper model to become stable


class PREVALClassifier(ClassifierMixin, StreamEstimator):
    """A classifier for streams: it detects new tasks, and opens a model for each of them.

    No task labels are needed. Each model consists of a network that predicts the class (L0) and a
    network that predicts the states of L0 (L1). A batch belongs to a new task if no L1 predicts it
    well, or if L0 makes too many errors. Finished models never change. Labels may be missing or
    arrive late.

    Parameters
    ----------
    preset : {"default", "paper"}
        Our own settings, or the paper's (inputs in [0, 1], one step per batch, the paper's rules).
    batch_size : int, optional
        Samples that are tested and learned together; by default the preset's.
    buffer_size : int, optional
        Largest number of samples of the current task that are stored during training (`paper`:
        none). Samples of earlier tasks are never stored.
    begin : int, optional
        Samples of a new task that are collected before its model is trained and calibrated.
        Shorter tasks cannot be recognized.
    steps_per_batch : int, optional
        Training steps after each batch, on batches drawn from the buffer. A model of `default`
        becomes stable when its buffer is full, another task has begun, or `finish` is called.
    false_alarms : float, optional
        Probability that a batch of a known task, of any size, is called new (`default`).
    false_alarms_per : {"batch", "stream"}, optional
        Whether that is the probability for any one batch, or that there is ever a false alarm in
        the whole stream, however long it becomes.
    held_out : float, optional
        Share of the samples that is held out for calibration (`default`); of the first 200
        samples of a task at least a fifth.
    order_matters : {"auto", True, False}, optional
        Whether samples depend on those before them (`default`). Then held-out samples are stretches
        instead of single ones, and a test counts dependent samples as the independent ones they are
        worth. "auto" finds out from the samples; False takes them for independent.
    modes : int, optional
        Largest number of clusters per class in L1 (`default`); fewer make a smaller, coarser L1.
    pooled : bool, optional
        Whether all models may share a covariance of their samples around the means of their classes
        (`default`: True). It helps where inputs are features of a network, and is given up where
        held-out samples show that it does not. What uses it can be saved, but not exported.
    models : {"separate", "shared"}, optional
        Whether a new model starts with inputs only, or grows on top of the frozen earlier ones
        (`default`).
    max_models : int, optional
        Largest number of models (0: no limit, `default`: 100). Beyond it, the model that was not
        used for longest is removed.
    max_versions : int, optional
        Largest number of versions of a model (0: none, `default`: 8): corrections of its answers
        that were better for long are kept, and recognized when their rule returns.
    connectivity : {"strict", "top_down", "apart"}, optional
        Which nodes may predict which.
    T_CP, T_conf, T_SV, epsilon_IS : float, optional
        The paper's thresholds.
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

    X may have missing values (NaN, None) and categories, except in the preset ``paper``. A stream
    is *mixed* if its first batch has such; for `fit`, if X has. In a mixed stream a missing number
    becomes the mean of its column in the first batch, and another input tells that it is missing;
    each category of the first batch is an input, and so are "(other)", which stands for all that
    come later, and "is missing". These inputs are there from the start, so that a burst of missing
    values, or of a new category, is as new as any other change. A stream that begins with numbers
    alone has its columns as inputs: values that are missing later are replaced by means, with a
    warning, and go undetected.

    Attributes
    ----------
    classes_ : array of all classes seen, sorted
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
    >>> def task(low):  # two classes, one beside the other
    ...     y = rng.integers(0, 2, 3000)
    ...     return rng.normal(low + 3 * y[:, None], 1, (3000, 2)), y + low
    >>> clf = PREVALClassifier(random_state=0)
    >>> for low in (0, 20):
    ...     clf = clf.partial_fit(*task(low)).finish()
    >>> [event.kind for event in clf.events_ if event.kind == "opened"]
    ['opened', 'opened']
    >>> clf.predict([[0, 0], [3, 3], [20, 20], [23, 23]]).tolist()
    [0, 1, 20, 21]
    """

    def __init__(
        self,
        *,
        preset="default",
        batch_size=None,
        buffer_size=None,
        begin=None,
        steps_per_batch=None,
        false_alarms=None,
        false_alarms_per=None,
        held_out=None,
        order_matters=None,
        modes=None,
        pooled=None,
        models=None,
        max_models=None,
        max_versions=None,
        connectivity=None,
        T_CP=None,
        T_conf=None,
        T_SV=None,
        epsilon_IS=None,
        l0=None,
        l1=None,
        categorical_features=FROM_DTYPE,
        missing_features: Any = AUTO,
        n_jobs=None,
        random_state=None,
    ):
        self.preset = preset
        self.batch_size = batch_size
        self.buffer_size = buffer_size
        self.begin = begin
        self.steps_per_batch = steps_per_batch
        self.false_alarms = false_alarms
        self.false_alarms_per = false_alarms_per
        self.held_out = held_out
        self.order_matters = order_matters
        self.modes = modes
        self.pooled = pooled
        self.models = models
        self.max_models = max_models
        self.max_versions = max_versions
        self.connectivity = connectivity
        self.T_CP = T_CP
        self.T_conf = T_conf
        self.T_SV = T_SV
        self.epsilon_IS = epsilon_IS
        self.l0 = l0
        self.l1 = l1
        self.categorical_features = categorical_features
        self.missing_features = missing_features
        self.n_jobs = n_jobs
        self.random_state = random_state

    # ---------------------------------------------------------------- learning

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "PREVALClassifier":
        """Start from nothing, learn X in its order, and finish all models.

        `sample_weight` is as in `partial_fit`. A model of `paper`, which stores no samples, sees X
        repeatedly until it is stable.
        """
        if y is None:
            raise ValueError(
                f"requires y to be passed, but the target y is None: {type(self).__name__} learns "
                "from labels, if only of some samples"
            )
        fresh = type(self)(**self.get_params(deep=False))  # others may ask this one meanwhile
        given = checked_samples(fresh, X, y, None, sample_weight=sample_weight, size=None)
        if not len(given.X):
            raise ValueError("sample_weight is zero for all samples: nothing is left to learn")
        if given.missing.all():
            raise ValueError("Input y contains NaN alone: no sample has a label")
        named = np.unique(given.y) if self.preset == "paper" else given.y[:0]
        state = fresh._new_state(given.X.shape[1], named)
        state, codes = state.taking(given)
        state = learned(state, given.X, codes, given.weight, fit=True)
        for _ in range(MAX_PASSES):
            if state.system.settings.buffer_size or state.system.adapting is None:
                break
            state.system.learn(given.X, codes, stop_when_stable=True)
        fresh._stream = finished(state)
        return self._take(fresh)

    def partial_fit(
        self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None
    ) -> "PREVALClassifier":
        """Learn from the next samples of the stream.

        Samples wait until they fill a batch, so that the result does not depend on how the stream
        is divided into calls. `classes` may name classes that will appear later; `paper` needs all
        classes in the first call. With `default`, labels may be missing: all of them (None), or
        those that are None or NaN. `label` adds them when they become known.

        `sample_weight` says how much each sample counts in what L0 learns: 2 counts as two samples,
        and a sample of weight 0 is left out, without a number. Detection, L1 and corrections for
        drift count samples, not weights: repeating a sample makes it no stronger evidence.

        Other threads can predict during this call, from the state before it. Threads that learn
        wait for each other. A call that fails or is interrupted changes nothing.
        """
        with transaction(self):
            state = vars(self).get("_stream")
            given = checked_samples(
                self, X, y, state, sample_weight=sample_weight, size=self._batch_size
            )
            y = given.y
            if state is None:
                named = y[:0] if classes is None else np.unique(np.asarray(checked_labels(classes)))
                if self.preset == "paper" and classes is None:
                    raise ValueError(
                        "preset='paper' has an output for every class from the start: name them "
                        "all in the first call, partial_fit(X, y, classes=...)"
                    )
                if classes is not None:
                    check_named(y, named)
                state = self._new_state(given.X.shape[1], named)
            elif self.preset == "paper":
                check_named(y, state.classes)
            state, codes = state.taking(given)
            self._stream = learned(state, given.X, codes, given.weight)
        return self

    def label(self, numbers: Any, y: Any) -> "PREVALClassifier":
        """Add labels that arrived late; samples are numbered from 0 in the order of the stream.

        The samples of a model that has become stable are no longer stored, so that their labels
        cannot be used. A warning says how many these are.
        """
        with locked(self):
            late = self.n_late_labels_ = self._label(numbers, y)
        warn_of_late_labels(late, np.size(numbers))
        return self

    def _label(self, numbers: Any, y: Any) -> int:
        """Take late labels; return how many came too late."""
        state = self._state
        y = np.asarray(checked_labels(y)).ravel()
        numbers = checked_sample_numbers(numbers, len(y), state.n_samples)
        if without_label(y).any():
            raise ValueError("a late label is None or NaN: leave out what is not known yet")
        check_label_type(y, state.labels)
        state = state.with_labels(y)
        system, waiting, late = with_late_labels(
            state.system, state.waiting, numbers, state.codes(y)
        )
        self._stream = state._replace(system=system, waiting=waiting)
        return late

    def _new_state(self, n_inputs: int, named: NDArray) -> StreamState:
        """Return the state of a stream that has not begun; the paper's models know all classes."""
        settings = self._settings
        seed = int(check_random_state(self.random_state).randint(2**31))
        n_classes = len(named) if self.preset == "paper" else 0
        threads = threads_for(self.n_jobs)
        system = new_system(n_inputs, n_classes, settings, seed=seed, threads=threads)
        waiting = np.zeros((0, n_inputs)), np.zeros(0, np.int64)
        return StreamState(system, (), named[:0], waiting).with_labels(named)

    @property
    def _settings(self) -> Settings:
        return chosen_settings(self)

    # ---------------------------------------------------------------- answers

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class, in the order of `classes_`."""
        return self._answers.predict_proba(self._checked(X))

    def predict(self, X: Any) -> NDArray:
        """Return the most probable class of each sample."""
        return self._answers.predict(self._checked(X))

    def explain(self, X: Any, y: Any = None) -> Explanation:
        """Return what kind of change a batch of samples shows, and why (`default`).

        `kind` is "known", "back" (known by another model than the one in use), "new inputs",
        "shifted inputs" (the labels agree with the answers), "new rule" (the inputs are known and
        the labels disagree) or "mixed" (of several tasks; `cause` is the kind of the new samples).
        `inputs` are those that contradict the model most, with their usual and present means.
        ``encoding_.names(columns)`` names them. The event of a model that was opened has the
        explanation too.

        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(1000, 3))
        >>> clf = PREVALClassifier(random_state=0).partial_fit(X, X[:, 0] > 0)
        >>> X = rng.normal([0, 0, 5], 1, (200, 3))
        >>> found = clf.explain(X, X[:, 0] > 0)
        >>> found.kind, found.inputs[0].input
        ('shifted inputs', 2)
        """
        if self.preset == "paper":
            raise ValueError("preset='paper' has no p-values that a change could be explained by")
        check_is_fitted(self)
        given = checked_samples(self, X, y, self._state)
        state, codes = self._state.taking(given)
        return StreamAnswers(state).explain(given.X, codes)

    @property
    def _answers(self) -> StreamAnswers:
        return StreamAnswers(self._state)

    @property
    def classes_(self) -> NDArray:
        """All classes seen, sorted."""
        return self._state.classes
