"""A system of models, with all that it goes on from, as it stands in a model file."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from dirad.growth.adapt import Adaptation
from dirad.params import Params
from dirad.preval.buffer import Buffer
from dirad.preval.buffer_model import BufferModel
from dirad.preval.buffer_system import BufferSystem
from dirad.preval.calibration import LEVELS, Calibration, Tally
from dirad.preval.events import KNOWN, LEARNING, MIXED, NEW, Event, Report
from dirad.preval.gates import Gates
from dirad.preval.kinship import Together
from dirad.preval.prediction import Pathway, Prediction
from dirad.preval.scale import Scale
from dirad.preval.settings import CHOICES, Settings
from dirad.preval.sketch import Sketch
from dirad.preval.stream_model import StreamModel
from dirad.preval.stream_system import StreamSystem
from dirad.preval.system import System
from dirad.preval.validation import Statistics
from dirad.storage.kinds import (
    Array,
    Box,
    Columns,
    Kind,
    Later,
    Many,
    Maybe,
    Object,
    Plain,
    Real,
    Row,
    Shared,
    Table,
    Text,
    Whole,
    bare,
)
from dirad.storage.networks import (
    ADAPTATION,
    HISTORY,
    INT,
    PARAMS,
    REAL,
    SHARED_NETWORK,
    STATE,
    must,
    options_of,
)

COUNT = Whole(0)

SETTINGS = Shared(
    Object(
        Settings,
        options_of(Settings, CHOICES, dict.fromkeys(("l0", "l1", "gates"), PARAMS)),
        later=frozenset({"near"}),
    )
)

# ------------------------------------------------------------------ L1


class Pathways(Kind):
    """The pathways of an L1 that adapts: thousands of small networks, as columns."""

    states = Columns(STATE)
    params = Many(PARAMS)

    def pack(self, value: Sequence[Pathway], box: Box, path: str) -> dict:
        distinct = list(dict.fromkeys(one.adaptation.params for one in value))
        which = {params: i for i, params in enumerate(distinct)}
        numbers = [(one.target, one.mode, which[one.adaptation.params]) for one in value]
        table = np.array(numbers, INT).reshape(len(value), 3)
        return {
            "numbers": Array(INT, "n", 3).pack(table, box, f"{path}/numbers"),
            "params": self.params.pack(distinct, box, f"{path}/params"),
            "states": self.states.pack([one.adaptation.state for one in value], box, path),
        }

    def unpack(self, packed: Any, box: Box, path: str) -> list[Pathway]:
        must(isinstance(packed, dict) and set(packed) == {"numbers", "params", "states"},
             f"{path}: these are no pathways")  # fmt: skip
        numbers = Array(INT, "n", 3).unpack(packed["numbers"], box, f"{path}/numbers")
        params: list[Params] = self.params.unpack(packed["params"], box, f"{path}/params")
        states = self.states.unpack(packed["states"], box, path)
        must(len(numbers) == len(states), f"{path}: some pathways have no state")
        which = numbers[:, 2]
        must(((which >= 0) & (which < len(params))).all(), f"{path}: some have no constants")
        return [
            Pathway(target, mode, Adaptation(state, params[place]))
            for (target, mode, place), state in zip(numbers.tolist(), states, strict=True)
        ]


def check_gates(gates: Gates) -> None:
    """Refuse gates that tell other modes apart than they name."""
    counts = {gates.n_modes, gates.network.n_outputs, len(gates.group)}
    must(len(counts) == 1, "modes are missing")
    must(((gates.modes >= 0) & (gates.modes < gates.n_modes)).all(), "a sample is of no mode")


GATES = Object(
    bare(Gates),
    {
        "modes": Array(INT, "samples"),
        "n_modes": Whole(1),
        "group": Array(INT, "modes"),
        "params": PARAMS,
        "adaptation": Maybe(ADAPTATION),
        "network": SHARED_NETWORK,
        "history": HISTORY,
    },
    check_gates,
)


def check_prediction(one: Prediction) -> None:
    """Refuse an L1 that does not belong to its L0."""
    nodes = one.l0.n_inputs + len(one.l0.units)
    must(((one.nodes >= 0) & (one.nodes < nodes)).all(), "it reads a node that L0 has not")
    inputs = np.arange(one.l0.n_inputs)
    must(np.array_equal(one.nodes[: len(inputs)], inputs), "an input is missing")
    must((np.diff(one.nodes) > 0).all(), "nodes are missing")
    must(((one.targets >= 0) & (one.targets < len(one.nodes))).all(), "it predicts no node of L0")
    must((one.span > 0).all(), "a state has no range")
    must(all(other.l0.n_inputs == one.l0.n_inputs for other in one.earlier),
         "earlier ones have other inputs")  # fmt: skip
    modes = 0
    if one.gates is not None:
        modes = one.gates.n_modes
        must(one.gates.network.n_inputs == one.n_states, "its gates read other states")
    if one.network is not None:
        must(one.network.n_inputs == one.n_states + modes, "its network reads other states")
        must(one.network.n_outputs == len(one.targets), "its network predicts other nodes")
    for target, mode, adaptation in one.pathways:
        network = adaptation.state.network
        must(0 <= target < len(one.nodes) and 0 <= mode < max(modes, 1), "a pathway is lost")
        must((network.n_inputs, network.n_outputs) == (one.n_states, 1), "a pathway reads others")
    must(len(one.histories) == len(one.pathways), "a pathway has no history")
    must(one.gates is None or one.gates.stable or bool(one.pathways), "no pathway adapts")


PREDICTION: Shared = Shared(
    Object(
        bare(Prediction),
        {
            "earlier": Many(Later(lambda: PREDICTION), tuple),
            "l0": SHARED_NETWORK,
            "settings": SETTINGS,
            "seed": COUNT,
            "nodes": Array(INT, "nodes"),
            "low": Array(REAL, "nodes"),
            "span": Array(REAL, "nodes"),
            "targets": Array(INT, "targets"),
            "pathways": Pathways(),
            "histories": Columns(HISTORY),
            "gates": Maybe(GATES),
            "step": COUNT,
            "steps_taken": Many(COUNT),
            "_progress": Maybe(Row(*[Array(REAL, "steps", finite=False)] * 3)),
            "network": Maybe(SHARED_NETWORK),
        },
        check_prediction,
    )
)

# ------------------------------------------------------------------ what is usual

STATISTICS = Object(
    Statistics,
    {
        "mean": Array(REAL, "nodes"),
        "deviation": Array(REAL, "nodes"),
        "invalid_share": Real(finite=False),
    },
)


def check_calibration(usual: Calibration) -> None:
    """Refuse a calibration by which nothing can be judged."""
    rows = len(usual.mean)
    must(rows and ((usual.row >= 0) & (usual.row < rows)).all(), "a group has no row")
    must((np.diff(usual.quantiles, axis=1) >= 0).all(), "quantiles do not rise")
    must((usual.deviation > 0).all() and (usual.samples > 0).all(), "a row stands on no samples")
    for bad, n in usual.mistakes.values():
        must(0 <= bad <= n < float("inf"), "it counts more mistakes than answers")


def check_sketch(sketch: Sketch) -> None:
    """Refuse a sketch that does not predict every input."""
    if sketch.own is None:
        must(len(sketch.weights) == len(sketch.mean), "its sketch leaves inputs out")
    else:
        must(len(sketch.own) == len(sketch.mean), "its sketch leaves inputs out")
        must((sketch.own > 0).all(), "its sketch predicts an input from itself")


CALIBRATION = Object(
    Calibration,
    {
        "row": Array(INT, "groups"),
        "quantiles": Array(REAL, "rows", LEVELS),
        "mean": Array(REAL, "rows"),
        "deviation": Array(REAL, "rows"),
        "samples": Array(INT, "rows"),
        "mistakes": Table(Whole(), Row(Real(), Real())),
    },
    check_calibration,
)
SKETCH = Object(
    bare(Sketch),
    {
        "n": Whole(1),
        "mean": Array(REAL, "inputs"),
        "weights": Array(REAL, "rows", "inputs"),
        "own": Maybe(Array(REAL, "inputs")),
    },
    check_sketch,
)
SCALE = Shared(Object(bare(Scale), {"_unit": Maybe(Array(REAL, "inputs"))}))
BUFFER = Object(
    bare(Buffer),
    {
        "size": COUNT,
        "share": Real(),
        "seed": COUNT,
        "seen": COUNT,
        "shown": Many(COUNT),
        "X": Array(REAL, "samples", "inputs"),
        "y": Array(INT, "samples"),
        "number": Array(INT, "samples"),
        "spared": Array(np.bool_, "samples"),
    },
    lambda buffer: must(len(buffer.shown) == 2, "samples are fitted to, or held out"),
)

# ------------------------------------------------------------------ models

MODEL: dict[str, Kind] = {
    "number": COUNT,
    "settings": SETTINGS,
    "seed": COUNT,
    "history": HISTORY,
    "l1": Maybe(PREDICTION),
    "known": Maybe(STATISTICS),
    "classes": Many(COUNT),
    "network": SHARED_NETWORK,
}


def check_model(model: Any) -> None:
    """Refuse a model whose networks and statistics are not of one another."""
    first = getattr(model, "first_output", 0)
    must(len(set(model.classes)) == len(model.classes), "a class is there twice")
    must(model.network.n_outputs == first + len(model.classes), "outputs and classes differ")
    if model.l1 is not None:
        must(model.l1.l0.n_inputs == model.network.n_inputs, "L1 belongs to another L0")
        must(np.array_equal(model.l1.l0.counts, model.network.counts), "L1 belongs to another L0")
        if model.known is not None:
            must(len(model.known.mean) == len(model.l1.targets), "errors of other nodes are known")
            predicts = model.l1.network is not None or not len(model.l1.targets)
            must(predicts, "it is stable, but nothing predicts its states")


def check_buffer_model(model: BufferModel) -> None:
    """Refuse a model of ours that could not answer or go on."""
    check_model(model)
    inputs = model.network.n_inputs
    must(len(model.offset) == inputs == model.buffer.X.shape[1], "the inputs differ in number")
    must((model.spread > 0).all(), "an input has no range")
    must(min(model.trust) > 0, "its answers are worth nothing")
    must(model.base is None or model.base.network.n_inputs == inputs, "its base has other inputs")
    if model.sketch is not None:
        must(len(model.sketch.mean) == inputs, "its sketch has other inputs")
    unit = model.scale._unit
    must(unit is None or (len(unit) == inputs and (unit > 0).all()), "an input has no unit")
    if model.usual is not None:
        groups = max(len(model.classes), 1) if model.known is not None else 1
        must(len(model.usual.row) >= groups, "a class has no row of the calibration")
        must(unit is not None and (model.sketch is not None or model.l1 is not None),
             "nothing predicts the inputs")  # fmt: skip
    if model.known is not None:
        must(model.usual is not None, "it is stable, but does not know what is usual")
    else:
        must(model.l0 is not None, "it adapts, but has nothing to adapt")


BUFFER_MODEL: Shared = Shared(
    Object(
        bare(BufferModel),
        MODEL
        | {
            "scale": SCALE,
            "base": Maybe(Later(lambda: BUFFER_MODEL)),
            "group": COUNT,
            "buffer": BUFFER,
            "sketch": Maybe(SKETCH),
            "usual": Maybe(CALIBRATION),
            "offset": Array(REAL, "inputs"),
            "spread": Array(REAL, "inputs"),
            "trust": Row(Real(), Real()),
            "taught_by": COUNT,
            "l0": Maybe(ADAPTATION),
            "first_output": COUNT,
            "inherited": COUNT,
        },
        check_buffer_model,
        gone=frozenset({"answered"}),
    )
)
STREAM_MODEL = Object(
    bare(StreamModel),
    MODEL
    | {
        "l0": ADAPTATION,
        "temperature": Real(),
        "last": Row(Array(REAL, "samples", "inputs"), Array(INT, "samples")),
    },
    check_model,
)

# ------------------------------------------------------------------ systems

EVENT = Object(Event, {"batch": COUNT, "kind": Text(), "model": COUNT, "evidence": Plain()})


class Events(Kind):
    """What happened to the models: as one array of text, since headers must stay short."""

    events = Many(EVENT)

    def pack(self, value: Sequence[Event], box: Box, path: str) -> str:
        text = json.dumps(self.events.pack(value, box, path), allow_nan=False)
        return box.put(path, np.frombuffer(text.encode(), np.uint8))

    def unpack(self, packed: Any, box: Box, path: str) -> list[Event]:
        if isinstance(packed, str):
            text = Array(np.uint8, "n").unpack(packed, box, path).tobytes()
            packed = json.loads(text)
        return self.events.unpack(packed, box, path)  # older files have them in the header


class Reports(Kind):
    """What was said of every batch: of a long life, many."""

    WORDS = (LEARNING, KNOWN, MIXED, NEW)

    def pack(self, value: Sequence[Report], box: Box, path: str) -> dict:
        numbers = [(one.batch, self.WORDS.index(one.kind), one.model) for one in value]
        table = np.array(numbers, INT).reshape(len(value), 3)
        return {
            "said": box.put(f"{path}/said", table),
            "p": box.put(f"{path}/p", np.array([one.p for one in value], REAL)),
        }

    def unpack(self, packed: Any, box: Box, path: str) -> list[Report]:
        must(isinstance(packed, dict) and set(packed) == {"said", "p"}, f"{path}: no reports")
        said = Array(INT, "n", 3).unpack(packed["said"], box, f"{path}/said")
        chance = Array(REAL, "n", finite=False).unpack(packed["p"], box, f"{path}/p")
        must(len(said) == len(chance), f"{path}: some reports have no chance")
        kinds = said[:, 1]
        must(((kinds >= 0) & (kinds < len(self.WORDS))).all(), f"{path}: no such report")
        return [
            Report(batch, self.WORDS[kind], model, p)
            for (batch, kind, model), p in zip(said.tolist(), chance.tolist(), strict=True)
        ]


def check_system(system: System[Any]) -> None:
    """Refuse a system whose models do not belong together."""
    numbers = [model.number for model in system.models]
    must(len(set(numbers)) == len(numbers), "two models have one number")
    must(max(numbers, default=-1) < system.opened, "a model was never opened")
    must(system._latest is None or system._latest in numbers, "the latest model is gone")
    for model in system.models:
        must(model.network.n_inputs == system.n_inputs, f"model {model.number} has other inputs")
        must(max(model.classes, default=-1) < system.n_classes, "a model has an unknown class")


SYSTEM: dict[str, Kind] = {
    "n_inputs": COUNT,
    "n_classes": COUNT,
    "settings": SETTINGS,
    "seed": COUNT,
    "events": Events(),
    "reports": Reports(),
    "batches": COUNT,
    "samples": COUNT,
    "opened": COUNT,
    "_latest": Maybe(COUNT),
}
TALLY = Object(Tally, {"deviates": Real(), "rows": Array(INT, "rows")})
TOGETHER = Object(bare(Together), {"pairs": Table(Row(COUNT, COUNT), Row(TALLY, TALLY))})
BUFFER_SYSTEM = Object(
    bare(BufferSystem),
    SYSTEM
    | {
        "models": Many(BUFFER_MODEL),
        "scale": SCALE,
        "together": TOGETHER,
        "used": Table(COUNT, COUNT),
    },
    check_system,
)
STREAM_SYSTEM = Object(bare(StreamSystem), SYSTEM | {"models": Many(STREAM_MODEL)}, check_system)


class AnySystem(Kind):
    """Ours or the paper's."""

    def __init__(self) -> None:
        self.kinds = {"buffer": BUFFER_SYSTEM, "stream": STREAM_SYSTEM}

    def pack(self, value: System[Any], box: Box, path: str) -> dict:
        name = "buffer" if isinstance(value, BufferSystem) else "stream"
        return {name: self.kinds[name].pack(value, box, path)}

    def unpack(self, packed: Any, box: Box, path: str) -> System[Any]:
        must(isinstance(packed, dict) and len(packed) == 1 and set(packed) <= set(self.kinds),
             f"{path}: this is no system")  # fmt: skip
        ((name, inner),) = packed.items()
        return self.kinds[name].unpack(inner, box, path)
