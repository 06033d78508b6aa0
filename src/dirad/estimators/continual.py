"""PREVAL as a scikit-learn classifier: it learns a stream whose tasks change unannounced."""

import os
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from dirad.core.magnitudes import check_range, out_of_range, reason
from dirad.estimators.checks import checked_inputs, checked_labels
from dirad.estimators.transaction import locked, transaction, writable_copy
from dirad.preval.buffer import UNLABELLED
from dirad.preval.events import Event, Report
from dirad.preval.model import Model
from dirad.preval.settings import PRESETS, Settings
from dirad.preval.system import System
from dirad.preval.systems import new_system

_SETTINGS = (
    "connectivity",
    "T_CP",
    "T_conf",
    "T_SV",
    "epsilon_IS",
    "false_alarms",
    "buffer_size",
    "begin",
    "steps_per_batch",
    "held_out",
    "modes",
    "models",
    "max_models",
)
MAX_PASSES = 200  # over the data that `fit` makes for a paper model to become stable


def cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_for(n_jobs: int | None) -> int:
    """Return the number of threads that `n_jobs` asks for."""
    return n_jobs if n_jobs is not None and n_jobs > 0 else cores()


class View(NamedTuple):
    """A complete state of a stream, from which all answers come; nothing in it ever changes."""

    system: System[Any]
    labels: tuple[Any, ...]  # by code, in order of appearance
    classes: NDArray  # sorted
    waiting: tuple[NDArray, NDArray[np.int64]]  # samples that make no batch yet, and their codes

    @property
    def n_samples(self) -> int:
        """Samples seen, those that wait included."""
        return self.system.samples + len(self.waiting[0])

    def with_labels(self, y: NDArray) -> "View":
        """Return the state with codes for labels that had none, in order of their appearance."""
        known = set(self.labels)
        new = [label for label in dict.fromkeys(y.tolist()) if label not in known]
        if not new:
            return self
        labels = (*self.labels, *new)
        return self._replace(labels=labels, classes=sorted_classes(labels))

    def codes(self, y: NDArray) -> NDArray[np.int64]:
        """Return the codes of labels."""
        places = {label: code for code, label in enumerate(self.labels)}
        return np.array([places[label] for label in y.tolist()], np.int64)

    def probabilities(self, X: NDArray) -> NDArray[np.float64]:
        """Return the probability of each class: (samples, classes)."""
        known = self.system.probabilities(X)
        codes = self.codes(self.classes)
        result = np.zeros((len(X), len(codes)))
        there = codes < known.shape[1]
        if not there.any():  # the only labels wait for their batch
            return np.full(result.shape, 1.0 / max(len(codes), 1))
        result[:, there] = known[:, codes[there]]
        return result


def sorted_classes(labels: Sequence[Any]) -> NDArray:
    """Return the classes that labels stand for, sorted."""
    return np.unique(np.asarray(checked_labels(list(labels))))


class PREVALClassifier(ClassifierMixin, BaseEstimator):
    """A classifier for streams: notices a new task, opens a model for it, forgets nothing.

    Nobody tells it where a task ends. Each model consists of a network that answers (L0) and one
    that predicts the first one's states (L1); what none of the L1 networks can predict is new, and
    so is what L0 answers wrongly too often. Labels may be missing, or come late.

    Parameters
    ----------
    preset : {"default", "paper"}
        Our own settings, or the paper's (inputs in [0, 1], one step per batch, the paper's rules).
    batch_size : int, optional
        Samples that are judged, and learned, together; by default the preset's.
    buffer_size : int, optional
        Most samples of the task at hand that are kept while its model adapts (`paper`: none).
        Samples of earlier tasks are never kept.
    begin : int, optional
        Samples of a new task that are collected before its model takes the first step and has an
        opinion of what it knows. Tasks shorter than that cannot be told apart.
    steps_per_batch : int, optional
        Adaptation steps after each batch, on batches drawn from the buffer. A model of `default`
        becomes stable when its buffer is full, another task has begun, or `finish` is called.
    false_alarms : float, optional
        Chance that a batch of a known task is taken for a new one (`default`), whatever its size.
    held_out : float, optional
        Share of the samples that calibrate and are not fitted to (`default`); twice that of the
        first 500 of a task.
    modes : int, optional
        Most modes of a class that L1 tells apart (`default`): fewer make it smaller and coarser.
    models : {"separate", "shared"}, optional
        Whether a new model starts from inputs alone, or grows on top of the frozen earlier ones
        (`default`).
    max_models : int, optional
        Most models that are kept (0: any number); the one not used for longest goes. `default`
        keeps 100: where nothing ever comes back, each new model would make the next dearer.
    connectivity : {"strict", "top_down", "apart"}, optional
        Which nodes may predict which.
    T_CP, T_conf, T_SV, epsilon_IS : float, optional
        The paper's thresholds.
    l0, l1 : dict, optional
        Constants of `dirad.params.Params` for the two networks, such as ``{"max_edges": 30}``.
    n_jobs : int, optional
        Threads on which the pathways of an L1 adapt; -1 or None: one per core. The result does
        not depend on it.
    random_state : int, RandomState or None

    Attributes
    ----------
    classes_ : array of all classes seen, sorted
    models_ : list of the models, oldest first
    events_ : list of `Event`: at which batch a model was opened, became stable, was chosen
    reports_ : list of `Report`: of each batch, whether it was known, new or mixed
    n_samples_seen_ : int, samples taken so far; late labels count by it
    n_parameters_ : int, every number that the models keep
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
        held_out=None,
        modes=None,
        models=None,
        max_models=None,
        connectivity=None,
        T_CP=None,
        T_conf=None,
        T_SV=None,
        epsilon_IS=None,
        l0=None,
        l1=None,
        n_jobs=None,
        random_state=None,
    ):
        self.preset = preset
        self.batch_size = batch_size
        self.buffer_size = buffer_size
        self.begin = begin
        self.steps_per_batch = steps_per_batch
        self.false_alarms = false_alarms
        self.held_out = held_out
        self.modes = modes
        self.models = models
        self.max_models = max_models
        self.connectivity = connectivity
        self.T_CP = T_CP
        self.T_conf = T_conf
        self.T_SV = T_SV
        self.epsilon_IS = epsilon_IS
        self.l0 = l0
        self.l1 = l1
        self.n_jobs = n_jobs
        self.random_state = random_state

    def __str__(self) -> str:
        if not hasattr(self, "_view"):
            return repr(self)
        return "\n".join([repr(self), *map(repr, self.models_)])

    # ---------------------------------------------------------------- learning

    def fit(self, X: Any, y: Any) -> "PREVALClassifier":
        """Forget everything, learn X in its order, and finish.

        A model of `paper`, which keeps no samples, is shown X again until it is stable.
        """
        if y is None:
            raise ValueError(
                f"requires y to be passed, but the target y is None: {type(self).__name__} learns "
                "from labels, if only of some samples"
            )
        fresh = type(self)(**self.get_params(deep=False))  # others may ask this one meanwhile
        X, y, missing = fresh._checked(X, y, reset=True)
        if missing.all():
            raise ValueError("Input y contains NaN alone: no sample has a label")
        view = fresh._begun(X, np.unique(y) if self.preset == "paper" else y[:0])
        view, codes = fresh._taken(view, X, y, missing)
        for _ in range(MAX_PASSES):
            if view.system.settings.buffer_size or view.system.adapting is None:
                break
            view.system.learn(X, codes, until_stable=True)
        view.system.finish(*view.waiting)
        fresh._view = view._replace(waiting=(X[:0], codes[:0]))
        with locked(self):
            vars(self).update(vars(fresh))
            if not hasattr(fresh, "feature_names_in_"):
                vars(self).pop("feature_names_in_", None)
        return self

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None) -> "PREVALClassifier":
        """Go on with more of the stream.

        Samples wait until they make a batch, so that the result does not depend on how the stream
        is cut into calls. `classes` may name classes that are still to come; `paper` needs all of
        them in the first call. With `default`, labels may be missing: all of them (None), or those
        that are None or NaN. `label` takes them when they are known.

        Other threads may ask for answers meanwhile: they get those of the state before this call.
        Threads that learn wait for each other. A call that fails, or is interrupted, changes
        nothing.
        """
        with transaction(self):
            first = not hasattr(self, "_view")
            X, y, missing = self._checked(X, y, reset=first)
            named = y[:0] if classes is None else np.unique(np.asarray(checked_labels(classes)))
            if first:
                if self.preset == "paper" and classes is None:
                    raise ValueError(
                        "preset='paper' has an output for every class from the start: name them "
                        "all in the first call, partial_fit(X, y, classes=...)"
                    )
                self._check_named(y, named if classes is not None else None)
                view = self._begun(X, named)
            else:
                view = self._view
                if self.preset == "paper":
                    self._check_named(y, view.classes)
            self._view, _ = self._taken(view, X, y, missing)
        return self

    def label(self, numbers: Any, y: Any) -> "PREVALClassifier":
        """Take labels that came late, for samples numbered from 0 as they were given.

        A sample whose model has become stable meanwhile is gone, and its label of no use: a
        warning says how many.
        """
        with locked(self):
            late = self._label(numbers, y)
        if late:
            warnings.warn(
                f"{late} of {np.size(numbers)} labels came too late: their samples are gone, since "
                "the model that had them is stable, or had no room for them",
                stacklevel=2,
            )
        return self

    def _label(self, numbers: Any, y: Any) -> int:
        """Take late labels; return how many came too late."""
        view = self._state
        numbers = np.asarray(numbers).ravel()
        if len(numbers) and numbers.dtype.kind not in "iu":
            raise ValueError(
                f"numbers must be whole numbers of samples, got {numbers.dtype} such as "
                f"{numbers[0]}"
            )
        numbers = numbers.astype(np.int64)
        y = np.asarray(checked_labels(y)).ravel()
        if len(numbers) != len(y):
            raise ValueError(f"{len(numbers)} samples and {len(y)} labels")
        wrong = numbers[(numbers < 0) | (numbers >= view.n_samples)]
        if len(wrong):
            raise ValueError(f"no sample has the number {wrong[0]}: {view.n_samples} were seen")
        if without_label(y).any():
            raise ValueError("a late label is None or NaN: leave out what is not known yet")
        self._same_type(y)
        view = view.with_labels(y)
        codes = view.codes(y)
        taken, (X, waiting) = view.system.samples, view.waiting
        here = numbers >= taken
        waiting = waiting.copy()
        waiting[numbers[here] - taken] = codes[here]
        system = view.system.working_copy()
        used = system.label(numbers[~here], codes[~here])
        self._view = view._replace(system=system, waiting=(X, waiting))
        return int(np.count_nonzero(~here)) - used

    def remove(self, model: int) -> "PREVALClassifier":
        """Give up one model, by its number; all others stay, and so does what they stand on."""
        with locked(self):
            system = self._state.system.working_copy()
            system.remove(model, {"reason": "on request"})
            self._view = self._view._replace(system=system)
        return self

    def finish(self) -> "PREVALClassifier":
        """Bring an adapting model to stability now, with the data at hand."""
        with locked(self):
            system = self._state.system.working_copy()
            X, codes = self._view.waiting
            system.finish(X, codes)
            self._view = self._view._replace(system=system, waiting=(X[:0], codes[:0]))
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_view")

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(writable_copy(state))

    def _checked(
        self, X: Any, y: Any, *, reset: bool
    ) -> tuple[NDArray, NDArray, NDArray[np.bool_]]:
        """Return X, the labels that are there, and which samples have none."""
        y = checked_labels(y)
        missing = without_label(y)
        if self.preset == "paper" and (y is None or missing.any()):
            raise ValueError("preset='paper' learns from labels alone, and some are missing")
        if y is None or missing.any():
            X = checked_inputs(self, X, order="C", reset=reset)
            if y is None:
                return X, np.zeros(0, np.int64), np.ones(len(X), bool)
            check_consistent_length(X, missing)
            y = np.asarray(
                checked_labels([label for label, none in zip(y, missing, strict=True) if not none])
            )
            if y.dtype.kind == "f" and np.array_equal(y, np.round(y)) and np.abs(y).max() < 2**53:
                y = y.astype(np.int64)  # NaN among whole numbers had made them all floats
        else:
            X, y = checked_inputs(self, X, y, order="C", reset=reset)
        if len(y):
            check_classification_targets(y)
        if not reset:
            self._same_type(y)
        self._check_range(X)
        return X, y, missing

    def _check_range(self, X: NDArray) -> None:
        """Refuse inputs that are too large to be learned beside those before."""
        view = vars(self).get("_view")
        if self.preset == "paper":
            check_range(X, 1.0)
        elif view is not None and view.system.scale.is_known:
            check_range(X, view.system.scale.unit)
        else:
            check_range(X, before=X[:0] if view is None else self._unscaled)

    @property
    def _unscaled(self) -> NDArray:
        """All samples so far, where there are too few to know the units of the inputs."""
        view = self._view
        return np.concatenate([*(one.buffer.X for one in view.system.models), view.waiting[0]])

    def _same_type(self, y: NDArray) -> None:
        labels = self._view.labels
        if labels and len(y) and isinstance(labels[0], str) != (y.dtype.kind in "US"):
            raise ValueError(
                f"y holds labels such as {y.tolist()[0]!r}, those learned are of another type, "
                f"such as {labels[0]!r}"
            )

    def _check_named(self, y: NDArray, named: NDArray | None) -> None:
        unknown = np.setdiff1d(y, named) if named is not None else np.zeros(0)
        if len(unknown):
            name = unknown.tolist()[0]
            raise ValueError(f"y holds the class {name!r}, which `classes` did not name")

    def _begun(self, X: NDArray, named: NDArray) -> View:
        """Return the state of a stream that has not begun."""
        if self.preset not in PRESETS:
            raise ValueError(f"preset must be one of {sorted(PRESETS)}, got {self.preset!r}")
        said = {name: getattr(self, name) for name in _SETTINGS}
        said = {name: value for name, value in said.items() if value is not None}
        settings = PRESETS[self.preset]
        if self.preset == "default" and self.buffer_size == 0:
            raise ValueError("buffer_size=0 keeps no samples, which only preset='paper' can do")
        if "buffer_size" in said and "begin" not in said:
            said["begin"] = min(settings.begin, said["buffer_size"])
        for name in ("l0", "l1"):
            if not isinstance(getattr(self, name), dict | None):
                raise TypeError(f"{name} must be a dict of constants, got {getattr(self, name)!r}")
        size = {} if self.batch_size is None else {"batch_size": self.batch_size}
        settings = settings.replace(
            l0=settings.l0.replace(**{**(self.l0 or {}), **size}),
            l1=settings.l1.replace(**{**(self.l1 or {}), **(size if not settings.modes else {})}),
            **said,
        )
        seed = int(check_random_state(self.random_state).randint(2**31))
        known = len(named) if self.preset == "paper" else 0
        system = new_system(
            X.shape[1], known, settings, seed=seed, threads=threads_for(self.n_jobs)
        )
        waiting = X[:0], np.zeros(0, np.int64)
        return View(system, (), named[:0], waiting).with_labels(named)

    def _taken(
        self, view: View, X: NDArray, y: NDArray, missing: NDArray[np.bool_]
    ) -> tuple[View, NDArray[np.int64]]:
        """Return the state after more samples, and their codes: whole batches are learned."""
        view = view.with_labels(y)
        codes = np.full(len(X), UNLABELLED)
        codes[~missing] = view.codes(y)
        X = np.concatenate([view.waiting[0], X])
        waiting = np.concatenate([view.waiting[1], codes])
        system: Any = view.system
        taken = 0
        if len(X) >= system.settings.l0.batch_size:
            system = system.working_copy()
            X = self._without_markers(system, X)
            taken = system.learn(X, waiting)
        rest = X[taken:].copy(), waiting[taken:].copy()
        return view._replace(system=system, waiting=rest), codes

    def _without_markers(self, system: Any, X: NDArray) -> NDArray:
        """Return the first samples of all, of which the very first could not be checked.

        With nothing to compare them with, they were taken. What turns out to be far too large is
        replaced by the median of its column.
        """
        if self.preset == "paper" or system.scale.is_known:
            return X
        far = out_of_range(X)
        if not far.any():
            return X
        row, column = np.argwhere(far)[0].tolist()
        warnings.warn(
            f"sample {system.samples + row}, column {column}: {reason(float(X[row, column]))}; the "
            f"medians of their columns take the place of {np.count_nonzero(far)} such values",
            stacklevel=4,
        )
        return np.where(far, np.nanmedian(np.where(far, np.nan, X), axis=0), X)

    # ---------------------------------------------------------------- answers

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class, in the order of `classes_`."""
        view, X = self._asked(X)
        return view.probabilities(X)

    def predict(self, X: Any) -> NDArray:
        """Return the most probable class of each sample."""
        view, X = self._asked(X)
        if not len(view.classes):
            raise ValueError("no label was seen yet, so there is no class to predict")
        return view.classes[np.argmax(view.probabilities(X), axis=1)]

    def route(self, X: Any) -> NDArray[np.int64]:
        """Return the number of the model that answers each sample (`models_[i].number`)."""
        view, X = self._asked(X)
        return view.system.route(X)

    def novelty(self, X: Any) -> NDArray[np.float64]:
        """Return how new each sample is to the best of all models: higher is newer.

        `default`: standard deviations above the mean of the logarithm of the prediction error on
        samples like those learned. `paper`: the share of conflicted nodes.
        """
        view, X = self._asked(X)
        return view.system.novelty(X)

    def is_known(self, X: Any, false_alarms: float = 0.05) -> NDArray[np.bool_]:
        """Return whether some model knows each sample.

        `false_alarms` is the share of samples of known tasks that are called unknown (`paper`: its
        own rule decides, the share of conflicted nodes against T_SV).
        """
        view, X = self._asked(X)
        if not 0 < false_alarms < 1:
            raise ValueError(f"false_alarms must be between 0 and 1, got {false_alarms!r}")
        return view.system.is_known(X, false_alarms)

    def conflicts(self, X: Any) -> NDArray[np.bool_]:
        """Return which inputs contradict their prediction: (samples, features).

        By the model that the sample is routed to; inputs that it does not predict do not count.
        """
        view, X = self._asked(X)
        return view.system.conflicts(X)

    @property
    def events_(self) -> list[Event]:
        """At which batch a model was opened, became stable or was chosen, and on what evidence.

        A batch is `batch_size` samples, however the stream is cut into calls. Of more than 10,000
        events the last are kept.
        """
        return list(self._state.system.events)

    @property
    def reports_(self) -> list[Report]:
        """What was said of each batch: known, new or mixed, and how probable that is.

        Of more than 10,000 batches the last are kept.
        """
        return list(self._state.system.reports)

    @property
    def n_samples_seen_(self) -> int:
        """Samples given so far, those that wait for a whole batch included."""
        return self._state.n_samples

    @property
    def models_(self) -> list[Model]:
        """The models, oldest first."""
        return list(self._state.system.models)

    @property
    def n_parameters_(self) -> int:
        """Every number that the models keep."""
        return self._state.system.n_parameters

    @property
    def classes_(self) -> NDArray:
        """All classes seen, sorted."""
        return self._state.classes

    @property
    def _settings(self) -> Settings:
        return self._state.system.settings

    @property
    def _system(self) -> System[Any]:
        return self._state.system

    @property
    def _labels(self) -> list[Any]:
        return list(self._state.labels)

    @property
    def _waiting(self) -> tuple[NDArray, NDArray[np.int64]]:
        return self._state.waiting

    @property
    def _state(self) -> View:
        """The last complete state."""
        check_is_fitted(self)
        return self._view

    def _asked(self, X: Any) -> tuple[View, NDArray]:
        """Return the last complete state, and the inputs to answer."""
        view = self._state
        X = checked_inputs(self, X, reset=False)
        if not view.system.models and view.system.opened:
            raise ValueError("all models were removed: give more samples")
        if not view.system.models:
            raise ValueError(
                f"{type(self).__name__} has no model yet: fewer samples than one batch "
                f"({view.system.settings.l0.batch_size}) were seen; give more, or call finish()"
            )
        return view, view.system.bounded(X)


def without_label(y: Any) -> NDArray[np.bool_]:
    """Return which labels are missing: None or NaN.

    >>> without_label([1, None, 0]).tolist()
    [False, True, False]
    >>> without_label(["a", float("nan")]).tolist()
    [False, True]
    """
    if y is None:
        return np.zeros(0, bool)
    if isinstance(y, list | tuple):  # an array would make words of None and NaN
        y = np.array([*y, None], dtype=object)[:-1]
    y = np.asarray(y)
    if y.dtype.kind == "f":
        return np.isnan(y) if y.ndim == 1 else np.zeros(len(np.atleast_1d(y)), bool)
    if y.dtype.kind == "O" and y.ndim == 1:
        return np.array([label is None or label != label for label in y.tolist()], bool)
    return np.zeros(len(np.atleast_1d(y)), bool)
