"""Estimators as they stand in a model file."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dirad.encoding import Categories, Encoding
from dirad.engine import threads_for
from dirad.estimators.answering import ClassAnswers, ValueAnswers
from dirad.estimators.fitting import Fit, Scale
from dirad.estimators.starts import Start
from dirad.storage.codecs import Array, ArrayStore, Codec, Flag, Int, Plain, Real, Text
from dirad.storage.composites import Dictionary, List, Maybe, Object, without_init
from dirad.storage.errors import ModelError
from dirad.storage.networks import HISTORY, NETWORK, PARAMS, REAL, STATE, must

if TYPE_CHECKING:
    from dirad.estimators.number_stream import NumberAnswers
    from dirad.estimators.stream_state import StreamAnswers

LARGEST = 2**30  # bytes of labels
CONTINUAL = ("PREVALClassifier", "PREVALRegressor")
LABELS = "biufU"  # codecs of NumPy types that labels may have


class Labels(Codec):
    """Class names: numbers, truth values or texts, with their type."""

    def pack(self, value: NDArray, store: ArrayStore, path: str) -> dict:
        value = np.asarray(value)
        if value.dtype.kind == "O" and all(isinstance(label, str) for label in value):
            return {"type": "object", "labels": value.tolist()}
        must(value.dtype.kind in LABELS, f"{path}: labels of type {value.dtype} cannot be saved")
        return {"type": value.dtype.str, "labels": value.tolist()}

    def unpack(self, packed: Any, store: ArrayStore, path: str) -> NDArray:
        must(isinstance(packed, dict) and set(packed) == {"type", "labels"}, f"{path}: no labels")
        name, labels = packed["type"], packed["labels"]
        must(isinstance(name, str) and isinstance(labels, list), f"{path}: these are no labels")
        if name == "object":
            must(all(isinstance(label, str) for label in labels), f"{path}: a label is no text")
            return np.array(labels, object)
        try:
            dtype = np.dtype(name)
            must(dtype.kind in LABELS, f"{path}: labels cannot be of type {name}")
            must(
                dtype.itemsize * len(labels) <= LARGEST, f"{path}: labels of type {name}: too large"
            )
            result = np.array(labels, dtype)
        except (TypeError, ValueError, OverflowError) as error:
            raise ModelError(f"{path}: labels of type {name!r}: {error}") from error
        must(result.ndim == 1 and result.tolist() == labels, f"{path}: some are not of type {name}")
        return result


class Options(Codec):
    """What an estimator was made with. A generator of random numbers is not kept."""

    def pack(self, value: dict[str, Any], store: ArrayStore, path: str) -> dict:
        seed = value.get("random_state")
        value = value | {"random_state": int(seed) if isinstance(seed, int | np.integer) else None}
        return Plain().pack(value, store, path)

    def unpack(self, packed: Any, store: ArrayStore, path: str) -> dict[str, Any]:
        found = Plain().unpack(packed, store, path)
        must(isinstance(found, dict) and all(isinstance(name, str) for name in found),
             f"{path}: these are no options")  # fmt: skip
        return found


SCALE = Object(
    without_init(Scale),
    {
        "mean": Array(REAL, "inputs"),
        "constant": Array(np.bool_, "inputs"),
        "spread": Array(REAL, "inputs"),
    },
    lambda scale: must((scale.spread > 0).all(), "an input has no range"),
)


START = Object(
    Start,
    {"network": NETWORK, "history": HISTORY, "length": Real()},
)


def check_fit(fit: Fit) -> None:
    """Refuse a fit that could not go on."""
    inputs = fit.state.network.n_inputs
    must(len(fit.scale.mean) == inputs, "the scale has other inputs")
    must(fit.best_network is None or fit.best_network.n_inputs == inputs, "the best has others")
    must(0 <= fit.validation_fraction < 1, "no such share of the samples can be held out")


FIT = Object(
    without_init(Fit),
    {
        "params": PARAMS,
        "digest": Text(),
        "validation_fraction": Real(),
        "scale": SCALE,
        "split_seed": Int(0),
        "seeds": List(Int(0)),
        "n_starts": Int(1),
        "members": List(NETWORK),
        "kept": Maybe(START),
        "finished_steps": List(Int(0)),
        "transfer": Int(0),
        "structure": Text(),
        "history": HISTORY,
        "best_network": Maybe(NETWORK),
        "best_error": Real(finite=False),
        "state": STATE,
    },
    check_fit,
)


class CategoryName(Codec):
    """A category: a text or a finite number."""

    def pack(self, value: Any, store: ArrayStore, path: str) -> Any:
        return value if isinstance(value, str) else Real().pack(value, store, path)

    def unpack(self, packed: Any, store: ArrayStore, path: str) -> Any:
        return packed if isinstance(packed, str) else float(Real().unpack(packed, store, path))


CATEGORIES = Object(
    Categories,
    {"labels": List(CategoryName(), tuple), "other": Flag()},
    lambda own: must(len(own) and len(set(own.labels)) == len(own.labels), "no categories"),
)
ENCODING = Object(
    Encoding,
    {
        "fill": Array(REAL, "columns"),
        "indicated": Array(np.bool_, "columns"),
        "categories": Dictionary(Int(0), CATEGORIES),
    },
    lambda encoding: must(
        max(encoding.categories, default=-1) < encoding.n_columns, "categories of no column"
    ),
)

GROWN: dict[str, Codec] = {
    "network_": NETWORK,
    "encoding_": Maybe(ENCODING),  # older files have none
    "history_": HISTORY,
    "params_": PARAMS,
    "n_steps_": Int(0),
    "is_stable_": Flag(),
    "feature_importances_": Array(REAL, "columns"),
    "input_mean_": Maybe(Array(REAL, "inputs")),  # not known of a file of dirad 0.1
    "input_spread_": Array(REAL, "inputs"),
    "n_features_in_": Int(1),
    "feature_names_in_": Maybe(Labels()),
    "_fit": Maybe(FIT),
}


def check_grown(model: Any) -> None:
    """Refuse an estimator whose network is of other inputs or outputs."""
    columns, encoding = model.n_features_in_, model.encoding_
    inputs = columns if encoding is None else encoding.n_inputs
    must(encoding is None or encoding.n_columns == columns, "the encoding has other columns")
    must(model.network_.n_inputs == inputs, "the network has other inputs")
    must(len(model.feature_importances_) == columns, "importances of other columns")
    must(len(model.input_spread_) == inputs, "spreads of other inputs")
    mean = model.input_mean_
    must(mean is None or len(mean) == inputs, "means of other inputs")
    must((model.input_spread_ >= 0).all(), "an input has a spread below 0")
    names = model.__dict__.get("feature_names_in_")
    must(names is None or len(names) == columns, "names of other columns")


def check_classifier(model: Any) -> None:
    """Refuse a classifier whose outputs are not its classes."""
    check_grown(model)
    binary = len(model.classes_) == 2 and model.preset != "paper"
    outputs = 1 if binary else len(model.classes_)
    must(len(model.classes_) > 1 and model.network_.n_outputs == outputs, "outputs and classes")


def check_regressor(model: Any) -> None:
    """Refuse a regressor whose outputs are not its targets."""
    check_grown(model)
    must(len(model.target_scale_) == model.network_.n_outputs, "outputs and targets differ")


class Fitted(SimpleNamespace):
    """What a file holds of an estimator, as attributes: its options, and what fitting gave it."""

    estimator: str  # the name of its class
    options: dict[str, Any]
    attributes: dict[str, Any]

    @property
    def answers(self) -> "ClassAnswers | ValueAnswers | StreamAnswers | NumberAnswers":
        """How the model answers; it needs neither scikit-learn nor Numba."""
        if self.estimator == "DIRADClassifier":
            return ClassAnswers(self.network_, self.classes_, self.encoding_)
        if self.estimator == "DIRADRegressor":
            scale, offset, single = self.target_scale_, self.target_offset_, self._single_column
            return ValueAnswers(self.network_, scale, offset, single, self.encoding_)
        if self.estimator == "PREVALRegressor":
            from dirad.estimators.number_stream import NumberAnswers

            return NumberAnswers(self._stream)
        from dirad.estimators.stream_state import StreamAnswers

        return StreamAnswers(self._stream)

    def build(self) -> Any:
        """Return the estimator."""
        import dirad.estimators

        result = getattr(dirad.estimators, self.estimator)(**self.options)
        for name, value in self.attributes.items():
            setattr(result, name, value)
        if self.estimator in CONTINUAL:
            result._stream.system.threads = threads_for(result.n_jobs)
        else:
            network = result.network_
            result.n_edges_, result.n_hidden_ = network.n_edges, network.n_hidden
            result.n_parameters_ = network.n_parameters
        return result


class Estimator(Object):
    """An estimator: its options, and what fitting gave it. Names of features may be missing."""

    def __init__(self, name: str, fitted: dict[str, Codec], check: Callable[[Any], None]) -> None:
        self.name = name
        super().__init__(self._made, {"options": Options()} | fitted, check)

    def _made(self, options: dict[str, Any], **attributes: Any) -> Fitted:
        if attributes.get("feature_names_in_") is None:
            del attributes["feature_names_in_"]
        extra = {"estimator": self.name, "options": options, "attributes": attributes}
        return Fitted(**{**options, **attributes, **extra})

    def pack(self, value: Any, store: ArrayStore, path: str) -> dict:
        options = {"options": value.get_params(deep=False)}
        return {
            name: codec.pack(options.get(name, getattr(value, name, None)), store, f"{path}/{name}")
            for name, codec in self.fields.items()
        }


CLASSIFIER = Estimator("DIRADClassifier", GROWN | {"classes_": Labels()}, check_classifier)
REGRESSOR = Estimator(
    "DIRADRegressor",
    GROWN
    | {
        "_single_column": Flag(),
        "_offset": Array(REAL, "outputs"),
        "_spread": Array(REAL, "outputs"),
        "target_offset_": Array(REAL, "outputs"),
        "target_scale_": Array(REAL, "outputs"),
    },
    check_regressor,
)


def codec_of(name: str) -> Object | None:
    """Return the codec of an estimator by the name of its class; None where there is none."""
    if name in CONTINUAL:
        from dirad.storage import streams  # imported late: networks alone need no PREVAL

        return streams.PREVAL if name == "PREVALClassifier" else streams.PREVAL_REGRESSOR
    return {"DIRADClassifier": CLASSIFIER, "DIRADRegressor": REGRESSOR}.get(name)
