"""Systems of models in a model file, with all that learning needs to go on."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dirad.core.network import Network
from dirad.preval.buffer import Buffer
from dirad.preval.calibration import ScoreSum
from dirad.preval.choice import ContinualSystem
from dirad.preval.class_moments import ClassMoments
from dirad.preval.duplicates import Agreement
from dirad.preval.expert import Expert
from dirad.preval.flow import Batch
from dirad.preval.l0 import L0Training
from dirad.preval.learner import Learner
from dirad.preval.linear_predictor import LinearInputPredictor
from dirad.preval.paper import PaperSystem
from dirad.preval.paper_model import PaperExpert, PaperLearner
from dirad.preval.pooled import CANDIDATES, RIDGES, Pooled
from dirad.preval.refinement import WINDOWS, Refinement
from dirad.preval.settings import Settings
from dirad.preval.system import System
from dirad.preval.targets import NUMBER_CLASS, NUMBERS, TargetScaling
from dirad.preval.versions import Version
from dirad.storage.codecs import Array, ArrayStore, Codec, Flag, Int, Real
from dirad.storage.composites import (
    Dictionary,
    Later,
    List,
    Maybe,
    Object,
    OneOf,
    Row,
    Shared,
    without_init,
)
from dirad.storage.experts import (
    CALIBRATION,
    COUNT,
    ERROR_STATS,
    EVALUATOR,
    L1_TRAINING,
    PREDICTOR,
    SCALING,
    SETTINGS,
    TARGET_SCALING,
    UNITS,
)
from dirad.storage.journal import JOURNAL
from dirad.storage.networks import ADAPTATION, HISTORY, INT, REAL, SHARED_NETWORK, must

# ------------------------------------------------------------------ our models


class Targets(Array):
    """The targets of samples: class codes, or numbers of which some are missing (NaN)."""

    def __init__(self) -> None:
        super().__init__(INT, "samples")

    def pack(self, value: Any, store: ArrayStore, path: str) -> Any:
        return store.put(path, value)

    def unpack(self, packed: Any, store: ArrayStore, path: str) -> NDArray:
        found = store.get(packed, path)
        if found.dtype.kind != "f":
            return super().unpack(packed, store, path)
        must(not np.isinf(found).any(), f"{path}: a target is infinite")
        return Array(REAL, "samples", finite=False).unpack(packed, store, path)


def check_buffer(buffer: Buffer) -> None:
    """Refuse a buffer whose parts do not belong together."""
    must(len(buffer.shown) == 2, "samples are fitted to, or held out")
    must(buffer.weight is None or len(buffer.weight) == len(buffer.X), "a sample has no weight")


class Weights(Array):
    """The weights of samples: above 0."""

    def __init__(self) -> None:
        super().__init__(REAL, "samples")

    def unpack(self, packed: Any, store: ArrayStore, path: str) -> NDArray:
        found = super().unpack(packed, store, path)
        must(bool((found > 0).all()), f"{path}: a weight is not above 0")
        return found


WEIGHT = Weights()
BUFFER = Object(
    without_init(Buffer),
    {
        "size": COUNT,
        "share": Real(),
        "stretch": Real(),
        "seed": COUNT,
        "seen": COUNT,
        "shown": List(COUNT),
        "X": Array(REAL, "samples", "inputs"),
        "y": Targets(),
        "number": Array(INT, "samples"),
        "drawn_out": Array(np.bool_, "samples"),
        "weight": Maybe(WEIGHT),
    },
    check_buffer,
)
L0_TRAINING = Object(
    L0Training,
    {
        "adaptation": ADAPTATION,
        "first_output": COUNT,
        "classes": List(COUNT),
        "labels_at_start": COUNT,
        "history": HISTORY,
        "target_scaling": Maybe(TARGET_SCALING),
    },
)


def check_outputs(network: Network, first: int, classes: Sequence[int]) -> None:
    """Refuse a network whose outputs are not the classes."""
    must(len(set(classes)) == len(classes), "a class is there twice")
    must(network.n_outputs == first + len(classes), "outputs and classes differ")


def check_stable(model: Expert | PaperExpert, first: int) -> None:
    """Refuse a finished model whose outputs are not its classes, or whose L1 is of another L0."""
    check_outputs(model.network, first, model.classes)
    if model.l1 is not None:
        counts = model.l1.states.network.counts
        must(np.array_equal(counts, model.network.counts), "L1 belongs to another L0")


def check_number(settings: Settings, classes: Sequence[int], scaling: TargetScaling | None) -> None:
    """Refuse a model of numbers without their scaling, and a model of classes with one."""
    numbers = settings.targets == NUMBERS
    must(not numbers or set(classes) <= {NUMBER_CLASS}, "numbers have no classes")
    must((scaling is not None) == (numbers and bool(classes)), "the scaling of targets is missing")


def check_expert(model: Expert) -> None:
    """Refuse an expert that could not answer."""
    evaluator, inputs = model.evaluator, model.network.n_inputs
    check_stable(model, evaluator.first_output)
    must(len(evaluator.scaling.offset) == inputs, "the inputs differ in number")
    unit = evaluator.units.unit if evaluator.units.is_known else np.zeros(0)
    must(len(unit) == inputs and (unit > 0).all(), "an input has no unit")
    must(min(evaluator.evidence_weights) > 0, "an evidence weight is not positive")
    groups = max(len(model.classes), 1) if evaluator.by_class else 1
    must(len(model.calibration.row) >= groups, "a class is not calibrated")
    check_number(model.settings, model.classes, evaluator.target_scaling)
    must(model.calibration.residuals is None or evaluator.target_scaling is not None,
         "only numbers have residuals")  # fmt: skip
    must(model.base is None or model.base.network.n_inputs == inputs, "its base has other inputs")
    if isinstance(evaluator.predictor, LinearInputPredictor):
        must(len(evaluator.predictor.mean) == inputs, "not every input is predicted")
    else:
        stats = model.error_stats
        must(stats is not None and len(stats.mean) == len(evaluator.predictor.targets),
             "errors of other nodes are known")  # fmt: skip
        must(evaluator.predictor.network is not None or not len(evaluator.predictor.targets),
             "L1 has no network")  # fmt: skip


def check_learner(model: Learner) -> None:
    """Refuse a learner that could not go on."""
    inputs = model.network.n_inputs
    check_outputs(model.network, model.l0.first_output, model.l0.classes)
    check_number(model.settings, model.l0.classes, model.l0.target_scaling)
    numbers = model.settings.targets == NUMBERS
    must((model.buffer.y.dtype.kind == "f") == numbers, "the targets are of another kind")
    must(len(model.scaling.offset) == inputs == model.buffer.X.shape[1],
         "the inputs differ in number")  # fmt: skip
    must(model.base is None or model.base.network.n_inputs == inputs, "its base has other inputs")
    known = model.units.is_known
    must(not known or (len(model.units.unit) == inputs and (model.units.unit > 0).all()),
         "an input has no unit")  # fmt: skip
    must(known or model.interim is None, "the units are not known")
    must(model.interim is None or model.interim.network.n_inputs == inputs,
         "its interim expert has other inputs")  # fmt: skip


def check_moments(moments: ClassMoments) -> None:
    """Refuse moments that no samples can have."""
    must(len(moments.means) > 0 and moments.n >= 0, "a class has no mean")
    if moments.scatter is not None:
        must(len(moments.scatter) == moments.means.shape[1], "scatter and means differ in inputs")
        check_scatter(moments.scatter)


def check_scatter(scatter: NDArray[np.float64]) -> None:
    """Refuse a scatter that is not symmetric, or with a variance below 0."""
    must(np.array_equal(scatter, scatter.T), "a scatter is not symmetric")
    must(bool((scatter.diagonal() >= 0).all()), "a variance is negative")


MOMENTS = Object(
    ClassMoments,
    {
        "n_fitted": COUNT,
        "n": Real(),
        "means": Array(REAL, "classes", "inputs"),
        "scatter": Maybe(Array(REAL, "rows", "rows")),
    },
    check_moments,
)


def check_pooled(pooled: Pooled) -> None:
    """Refuse what no finished models can have added up."""
    must(pooled.n >= 0, "there are less than no samples")
    if pooled.scatter is not None:
        check_scatter(pooled.scatter)


POOLED = Object(
    Pooled,
    {
        "scatter": Maybe(Array(REAL, "inputs", "inputs")),
        "losses": Array(REAL, *CANDIDATES),
        "errors": Array(REAL, 1 + len(RIDGES)),
        "n": Real(),
        "n_tested": COUNT,
    },
    check_pooled,
)
VERSION = Object(Version, {"number": COUNT, "weights": Array(REAL, "features", "outputs")})
EXPERT: Shared = Shared(
    Object(
        Expert,
        {
            "number": COUNT,
            "seed": COUNT,
            "evaluator": EVALUATOR,
            "calibration": CALIBRATION,
            "history": HISTORY,
            "group": COUNT,
            "inherited": COUNT,
            "base": Maybe(Later(lambda: EXPERT)),
            "versions": List(VERSION, tuple),
            "moments": Maybe(MOMENTS),
        },
        check_expert,
    )
)
LEARNER = Object(
    Learner,
    {
        "number": COUNT,
        "settings": SETTINGS,
        "seed": COUNT,
        "units": UNITS,
        "group": COUNT,
        "base": Maybe(EXPERT),
        "buffer": BUFFER,
        "scaling": SCALING,
        "l0": L0_TRAINING,
        "inherited": COUNT,
        "interim": Maybe(EXPERT),
        "n_fitted": COUNT,
        "has_stable_l0": Flag(),
        "moments": Maybe(MOMENTS),
    },
    check_learner,
)

# ------------------------------------------------------------------ the paper's models

PAPER_MODEL: dict[str, Codec] = {
    "number": COUNT,
    "seed": COUNT,
    "settings": SETTINGS,
    "classes": List(COUNT),
    "history": HISTORY,
    "temperature": Real(),
}


def check_paper_expert(model: PaperExpert) -> None:
    """Refuse an expert that could not answer."""
    check_stable(model, 0)
    must(model.temperature > 0, "the temperature is not positive")
    must(len(model.error_stats.mean) == len(model.l1.targets), "errors of other nodes are known")
    must(model.l1.network is not None or not len(model.l1.targets), "L1 has no network")


PAPER_EXPERT = Object(
    PaperExpert,
    PAPER_MODEL
    | {
        "classes": List(COUNT, tuple),
        "network": SHARED_NETWORK,
        "l1": PREDICTOR,
        "error_stats": ERROR_STATS,
    },
    check_paper_expert,
)
PAPER_LEARNER = Object(
    PaperLearner,
    PAPER_MODEL
    | {
        "l0": ADAPTATION,
        "last": Row(Array(REAL, "samples", "inputs"), Array(INT, "samples")),
        "l1": Maybe(L1_TRAINING),
    },
    lambda model: check_outputs(model.network, 0, model.classes),
)


# ------------------------------------------------------------------ systems


def check_system(system: ContinualSystem) -> None:
    """Refuse a system whose models do not belong together."""
    numbers = [model.number for model in system.models]
    must(len(set(numbers)) == len(numbers), "two models have one number")
    must(max(numbers, default=-1) < system.opened, "a model was never opened")
    must(system.latest is None or system.latest in numbers, "the latest model is gone")
    refinement = getattr(system, "refinement", None)
    if refinement is not None:
        must(refinement.X.shape[1] == system.n_inputs, "a refinement has other inputs")
        must(max(refinement.classes) < system.n_classes, "a refinement has an unknown class")
        one = next((m for m in system.models if m.number == refinement.model), None)
        n_versions = len(getattr(one, "versions", ()))
        must(len(refinement.losses) == 1 + len(WINDOWS) + n_versions, "it has other versions")
    pooled = getattr(system, "pooled", None)
    if pooled is not None and pooled.scatter is not None:
        must(len(pooled.scatter) == system.n_inputs, "the pooled scatter has other inputs")
    for model in system.models:
        moments = getattr(model, "moments", None)
        if moments is not None:
            must(moments.means.shape[1] == system.n_inputs, "means have other inputs")
            answering = getattr(model, "interim", None) or model
            must(len(moments.means) == len(answering.classes), "a class has no mean")
            pooled_there = pooled is not None and pooled.scatter is not None
            must(pooled_there or moments.scatter is not None, "a scatter is missing")
        must(model.network.n_inputs == system.n_inputs, f"model {model.number} has other inputs")
        must(max(model.classes, default=-1) < system.n_classes, "a model has an unknown class")


SYSTEM_FIELDS: dict[str, Codec] = {
    "n_inputs": COUNT,
    "n_classes": COUNT,
    "settings": SETTINGS,
    "seed": COUNT,
    "journal": JOURNAL,
    "opened": COUNT,
    "latest": Maybe(COUNT),
}
SCORE_SUM = Object(ScoreSum, {"total": Real(), "rows": Array(INT, "rows")})
AGREEMENT = Object(Agreement, {"pairs": Dictionary(Row(COUNT, COUNT), Row(SCORE_SUM, SCORE_SUM))})
BATCH = Object(
    Batch,
    {
        "X": Array(REAL, "samples", "inputs"),
        "y": Targets(),
        "first": COUNT,
        "weight": Maybe(WEIGHT),
    },
)


def check_refinement(one: Refinement) -> None:
    """Refuse a refinement whose parts do not fit each other."""
    must(len(set(one.classes)) == len(one.classes) > 0, "a refinement has no classes")
    outputs = len(one.classes)
    n_features = 1 + one.X.shape[1] + outputs
    must(one.weights.shape[1] == n_features, "a refinement has other features")
    must(one.weights.shape[2] == one.answers.shape[1] == outputs, "it has other outputs")
    must(len(one.losses) >= 1 + len(WINDOWS), "a refinement has no losses")
    fits = one.origin is None or one.origin.shape == one.weights.shape[1:]
    must(fits, "a refinement starts from other features")
    must(np.isfinite(one.weights).all(), "a weight of a refinement is not finite")


REFINEMENT = Object(
    Refinement,
    {
        "model": COUNT,
        "classes": List(COUNT, tuple),
        "fit": Int(-1),
        "X": Array(REAL, "samples", "inputs"),
        "y": Array(REAL, "samples"),
        "answers": Array(REAL, "samples", "outputs"),
        "weights": Array(REAL, len(WINDOWS), "features", "outputs"),
        "losses": List(Real(), tuple),
        "version": COUNT,
        "origin": Maybe(Array(REAL, "features", "outputs")),
        "better_for": COUNT,
    },
    check_refinement,
)
OUR_SYSTEM = Object(
    without_init(System),
    SYSTEM_FIELDS
    | {
        "models": List(OneOf({"learner": (Learner, LEARNER), "expert": (Expert, EXPERT)})),
        "units": UNITS,
        "agreement": AGREEMENT,
        "last_used": Dictionary(COUNT, COUNT),
        "undecided": Maybe(BATCH),
        "refinement": Maybe(REFINEMENT),
        "pooled": Maybe(POOLED),
        "recent": List(Row(Array(REAL, "samples", "inputs"), Targets())),
    },
    check_system,
)
PAPER_SYSTEM = Object(
    without_init(PaperSystem),
    SYSTEM_FIELDS
    | {
        "models": List(
            OneOf({"learner": (PaperLearner, PAPER_LEARNER), "expert": (PaperExpert, PAPER_EXPERT)})
        )
    },
    check_system,
)
SYSTEM = OneOf({"ours": (System, OUR_SYSTEM), "paper": (PaperSystem, PAPER_SYSTEM)})
