"""The parts of finished and unfinished models in a model file: predictors and calibrations."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dirad.growth.adapt import Adaptation
from dirad.params import Params
from dirad.preval.calibration import N_QUANTILES, Calibration
from dirad.preval.clusters import Clusters
from dirad.preval.dependence import Memory
from dirad.preval.expert import Evaluator
from dirad.preval.input_units import CommonInputUnits, InputScaling
from dirad.preval.l1 import L1Training, Pathway
from dirad.preval.linear_predictor import LinearInputPredictor
from dirad.preval.predictor import L0States, Predictor
from dirad.preval.residuals import ResidualCalibration
from dirad.preval.settings import CHOICES, Settings
from dirad.preval.targets import TargetScaling
from dirad.preval.validation import ErrorStats
from dirad.storage.codecs import Array, ArrayStore, Codec, Flag, Int, Real
from dirad.storage.composites import (
    Columns,
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
from dirad.storage.networks import (
    HISTORY,
    INT,
    PARAMS,
    REAL,
    SHARED_NETWORK,
    STATE,
    must,
    options_of,
)

COUNT = Int(0)
SETTINGS = Shared(
    Object(
        Settings,
        options_of(Settings, CHOICES, dict.fromkeys(("l0", "l1"), PARAMS)),
    )
)


def check_units(units: CommonInputUnits) -> None:
    """Refuse units that are not of the same inputs as the roots that are taken."""
    rooted = units._rooted
    must(rooted is None or (units.is_known and len(rooted) == len(units.unit)),
         "roots are taken of other inputs")  # fmt: skip


UNITS = Shared(
    Object(
        without_init(CommonInputUnits),
        {"_unit": Maybe(Array(REAL, "inputs")), "_rooted": Maybe(Array(np.bool_, "inputs"))},
        check_units,
    )
)
SCALING = Object(
    InputScaling,
    {"offset": Array(REAL, "inputs"), "spread": Array(REAL, "inputs")},
    lambda scaling: must((scaling.spread > 0).all(), "an input has no range"),
)

# ------------------------------------------------------------------ L1


def check_states(states: L0States) -> None:
    """Refuse states that L0 does not have."""
    nodes, inputs = states.nodes, np.arange(states.network.n_inputs)
    count = len(inputs) + len(states.network.units)
    must(((nodes >= 0) & (nodes < count)).all(), "it reads a node that L0 does not have")
    must(np.array_equal(nodes[: len(inputs)], inputs), "an input is missing")
    must((np.diff(nodes) > 0).all(), "nodes are missing")
    must((states.spread > 0).all(), "a state has no range")
    same = all(other.states.network.n_inputs == len(inputs) for other in states.earlier)
    must(same, "earlier models have other inputs")


STATES = Object(
    L0States,
    {
        "network": SHARED_NETWORK,
        "nodes": Array(INT, "nodes"),
        "offset": Array(REAL, "nodes"),
        "spread": Array(REAL, "nodes"),
        "earlier": List(Later(lambda: PREDICTOR), tuple),
    },
    check_states,
)


def check_clusters(clusters: Clusters) -> None:
    """Refuse a gating network of other clusters."""
    gated = clusters.n if clusters.network is None else clusters.network.n_outputs
    must(gated == clusters.n >= 1, "clusters are missing")


CLUSTERS = Object(
    Clusters,
    {
        "network": Maybe(SHARED_NETWORK),
        "classes": Array(INT, "clusters"),
        "history": Maybe(HISTORY),
    },
    check_clusters,
)


def check_targets(l1: Predictor | L1Training) -> None:
    """Refuse an L1 that predicts what its L0 does not have."""
    nodes = len(l1.states.nodes)
    must(((l1.targets >= 0) & (l1.targets < nodes)).all(), "it predicts a node that is not there")


def check_predictor(l1: Predictor) -> None:
    """Refuse an L1 whose networks do not belong to its states."""
    check_targets(l1)
    clusters, states = 0, l1.states.n
    if l1.clusters is not None:
        clusters = l1.clusters.n
        gating = l1.clusters.network
        must(gating is None or gating.n_inputs == states, "the gating network reads other states")
    if l1.network is not None:
        must(l1.network.n_inputs == states + clusters, "its network reads other states")
        must(l1.network.n_outputs == len(l1.targets), "its network predicts other nodes")


PREDICTOR: Shared = Shared(
    Object(
        Predictor,
        {
            "states": STATES,
            "targets": Array(INT, "targets"),
            "network": Maybe(SHARED_NETWORK),
            "clusters": Maybe(CLUSTERS),
            "steps_taken": List(COUNT),
            "learning_curves": Row(*[Array(REAL, "steps", finite=False)] * 3),
        },
        check_predictor,
    )
)


class Pathways(Codec):
    """The pathways of an L1 in training: thousands of small networks, as columns."""

    states = Columns(STATE)
    params = List(PARAMS)

    def pack(self, value: Sequence[Pathway], store: ArrayStore, path: str) -> dict:
        distinct = list(dict.fromkeys(one.adaptation.params for one in value))
        which = {params: i for i, params in enumerate(distinct)}
        numbers = [(one.target, 0, which[one.adaptation.params]) for one in value]
        table = np.array(numbers, INT).reshape(len(value), 3)
        return {
            "numbers": Array(INT, "n", 3).pack(table, store, f"{path}/numbers"),
            "params": self.params.pack(distinct, store, f"{path}/params"),
            "states": self.states.pack([one.adaptation.state for one in value], store, path),
        }

    def unpack(self, packed: Any, store: ArrayStore, path: str) -> list[Pathway]:
        must(isinstance(packed, dict) and set(packed) == {"numbers", "params", "states"},
             f"{path}: these are no pathways")  # fmt: skip
        numbers = Array(INT, "n", 3).unpack(packed["numbers"], store, f"{path}/numbers")
        params: list[Params] = self.params.unpack(packed["params"], store, f"{path}/params")
        states = self.states.unpack(packed["states"], store, path)
        must(len(numbers) == len(states), f"{path}: some pathways have no state")
        which = numbers[:, 2]
        must(((which >= 0) & (which < len(params))).all(), f"{path}: some have no constants")
        return [
            Pathway(target, Adaptation(state, params[place]))
            for (target, _, place), state in zip(numbers.tolist(), states, strict=True)
        ]


def check_l1_training(l1: L1Training) -> None:
    """Refuse pathways that could not be trained further."""
    check_targets(l1)
    must(bool(l1.pathways), "there is no pathway")
    for target, adaptation in l1.pathways:
        network = adaptation.state.network
        must(0 <= target < len(l1.states.nodes), "a pathway has no target")
        must((network.n_inputs, network.n_outputs) == (l1.states.n, 1), "a pathway reads others")
    must(len(l1.histories) == len(l1.pathways), "a pathway has no history")


L1_TRAINING = Object(
    L1Training,
    {
        "settings": SETTINGS,
        "seed": COUNT,
        "states": STATES,
        "targets": Array(INT, "targets"),
        "pathways": Pathways(),
        "histories": Columns(HISTORY),
        "step": COUNT,
    },
    check_l1_training,
)

# ------------------------------------------------------------------ calibration

ERROR_STATS = Object(
    ErrorStats,
    {
        "mean": Array(REAL, "nodes"),
        "deviation": Array(REAL, "nodes"),
        "invalid_share": Real(finite=False),
    },
)


def check_calibration(calibration: Calibration) -> None:
    """Refuse a calibration by which nothing can be tested."""
    rows = len(calibration.mean)
    must(rows and ((calibration.row >= 0) & (calibration.row < rows)).all(), "a group has no row")
    must((np.diff(calibration.quantiles, axis=1) >= 0).all(), "quantiles do not rise")
    positive = (calibration.deviation > 0).all() and (calibration.samples > 0).all()
    must(positive, "a row has no samples")
    must(calibration.fitted <= 0, "fitted samples are less usual than new ones")
    finite = all(1.0 <= tau < float("inf") for tau in calibration.memory)
    must(finite, "an autocorrelation time is below 1 or infinite")
    must(calibration.memory.independent or calibration.n_learned > 0, "it saw no samples")
    for wrong, n in calibration.label_errors.values():
        must(0 <= wrong <= n < float("inf"), "it counts more errors than answers")


def check_linear(predictor: LinearInputPredictor) -> None:
    """Refuse a linear predictor that does not predict every input."""
    if predictor.remainder is None:
        must(len(predictor.weights) == len(predictor.mean), "an input is not predicted")
    else:
        must(len(predictor.remainder) == len(predictor.mean), "an input is not predicted")
        must((predictor.remainder > 0).all(), "an input is predicted from itself")


CALIBRATION = Object(
    Calibration,
    {
        "row": Array(INT, "groups"),
        "quantiles": Array(REAL, "rows", N_QUANTILES),
        "mean": Array(REAL, "rows"),
        "deviation": Array(REAL, "rows"),
        "samples": Array(INT, "rows"),
        "label_errors": Dictionary(Int(), Row(Real(), Real())),
        "fitted": Real(),
        "memory": Object(Memory, {"inputs": Real(), "errors": Real(), "losses": Real()}),
        "n_learned": COUNT,
        "residuals": Maybe(Later(lambda: RESIDUALS)),
        "stretch": Real(),
    },
    check_calibration,
)


def check_residuals(residuals: ResidualCalibration) -> None:
    """Refuse residuals that nothing can be compared with."""
    sizes = residuals.sizes
    must(len(sizes) and sizes[0] >= 0 and (np.diff(sizes) >= 0).all(), "residuals do not rise")
    must(residuals.spread > 0, "the targets have no spread")


RESIDUALS = Object(
    ResidualCalibration,
    {
        "spread": Real(),
        "magnitude": CALIBRATION,
        "signed": CALIBRATION,
        "sizes": Array(REAL, "held out"),
    },
    check_residuals,
)
TARGET_SCALING = Object(
    TargetScaling,
    {"offset": Real(), "spread": Real()},
    lambda scaling: must(scaling.spread > 0, "the targets have no spread"),
)
LINEAR_PREDICTOR = Object(
    without_init(LinearInputPredictor),
    {
        "n": Int(1),
        "mean": Array(REAL, "inputs"),
        "weights": Array(REAL, "rows", "inputs"),
        "remainder": Maybe(Array(REAL, "inputs")),
    },
    check_linear,
)


ANY_PREDICTOR = OneOf(
    {"linear": (LinearInputPredictor, LINEAR_PREDICTOR), "grown": (Predictor, PREDICTOR)}
)
EVALUATOR = Object(
    Evaluator,
    {
        "settings": SETTINGS,
        "network": SHARED_NETWORK,
        "first_output": COUNT,
        "classes": List(COUNT, tuple),
        "scaling": SCALING,
        "units": UNITS,
        "predictor": ANY_PREDICTOR,
        "evidence_weights": Row(Real(), Real()),
        "error_stats": Maybe(ERROR_STATS),
        "by_class": Flag(),
        "target_scaling": Maybe(TARGET_SCALING),
    },
)
