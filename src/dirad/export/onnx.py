"""A model in ONNX, in double precision, for batches of any size.

Each block of a program is one product of matrices.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.export.exported import Estimator, Exported, Member, exported
from dirad.export.extras import needs
from dirad.export.novelty import FALSE_ALARMS
from dirad.program import (
    ERROR,
    LEAST_SUM,
    OF_INPUT,
    OWN,
    SCORE,
    Block,
    Pooling,
    Program,
    Sums,
    Transfer,
)

OPSET, IR_VERSION = 15, 8  # of 2021, which every current runtime reads


def to_onnx(model: Estimator, *, false_alarms: float = FALSE_ALARMS) -> bytes:
    """Return a model as the bytes of an ONNX file.

    The input ``X`` is a double tensor (samples, features). A classifier has the outputs ``label``
    and ``probabilities`` (samples, classes), a PREVAL system of several models also ``model``, the
    number of the one that answers; a regressor has ``variable`` (samples, columns). A PREVAL system
    also has ``novelty`` (samples,) and ``known`` (samples,), which is false for a share of
    `false_alarms` of the samples of known tasks. The metadata
    contain the names of the features (``inputs``) and the classes (``classes``) as JSON. A feature
    that is missing is NaN, if some were in `fit` (``may_be_missing`` in the metadata); one that is
    a category is its place in the list of its ``categories`` in the metadata (a category that is
    not listed: that of "(other)", or −1).
    """
    needs("onnx")
    whole = exported(model, false_alarms)
    graph = _Graph()
    found = [_member(graph, member, len(whole.outputs)) for member in whole.members]
    answers, route = _route(graph, whole, found) if whole.routed else (found[0].answers, None)
    if whole.classes is None:
        graph.output("variable", answers, np.float64, len(whole.outputs))
    else:
        labels = _labels(whole.classes)
        best = graph.op("ArgMax", answers, axis=1, keepdims=0)
        graph.output("label", graph.op("Gather", graph.constant(labels), best), labels.dtype)
        graph.output("probabilities", answers, np.float64, len(whole.classes))
    if route is not None:
        graph.output("model", route, np.int64)
    if whole.scored:
        novelty, known = _novelty(graph, whole, found)
        graph.output("novelty", novelty, np.float64)
        graph.output("known", known, np.bool_)
    return graph.to_bytes(whole)


def onnx_ends(raw: bytes) -> dict[str, str]:
    """Return names, types and shapes of the inputs and outputs of an ONNX file."""
    onnx = needs("onnx")
    graph = onnx.load_from_string(raw).graph

    def told(value: Any) -> str:
        tensor = value.type.tensor_type
        kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        name = "string" if kind.kind in "OU" else kind.name
        shape = [side.dim_param or str(side.dim_value) for side in tensor.shape.dim]
        return f"{name}, {' × '.join(shape)}"

    found = {f"input {value.name}": told(value) for value in graph.input}
    return found | {f"output {value.name}": told(value) for value in graph.output}


class _Graph:
    """Operators and constants, named by their numbers."""

    def __init__(self) -> None:
        self.onnx = needs("onnx")
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.outputs: list[Any] = []

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add an operator with one result; return the result's name."""
        name = f"t{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, [name], **attributes))
        return name

    def constant(self, values: NDArray | Sequence[Any] | float) -> str:
        """Add a constant; return its name."""
        name = f"c{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.asarray(values), name))
        return name

    def output(self, name: str, result: str, dtype: Any, width: int | None = None) -> None:
        """Make a result an output of the graph: (samples,), or (samples, width)."""
        helper = self.onnx.helper
        self.nodes.append(helper.make_node("Identity", [result], [name]))
        shape = ["samples"] if width is None else ["samples", width]
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.outputs.append(helper.make_tensor_value_info(name, kind, shape))

    def to_bytes(self, whole: Exported) -> bytes:
        helper = self.onnx.helper
        shape = ["samples", len(whole.inputs)]
        given = helper.make_tensor_value_info("X", self.onnx.TensorProto.DOUBLE, shape)
        graph = helper.make_graph(self.nodes, "dirad", [given], self.outputs, self.constants)
        made = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="dirad",
            doc_string=whole.title,
        )
        names: dict[str, Any] = {"inputs": whole.inputs}
        if whole.classes is not None:
            names["classes"] = whole.classes
        if whole.codes:
            names["categories"] = dict(whole.codes)
        if whole.gaps:
            names["may_be_missing"] = whole.gaps
        helper.set_model_props(made, {key: json.dumps(value) for key, value in names.items()})
        self.onnx.checker.check_model(made)
        return made.SerializeToString(deterministic=True)


def _labels(classes: Sequence[Any]) -> NDArray:
    labels = np.array(classes)
    return labels.astype(object) if labels.dtype.kind == "U" else labels


class _Found(NamedTuple):
    """What one model computes, by name: (samples, values)."""

    answers: str  # in the columns of all classes
    score: str = ""
    error: str = ""  # of its predictions
    own: str = ""  # its outputs


def _route(graph: _Graph, whole: Exported, found: Sequence[_Found]) -> tuple[str, str]:
    """Return the answers of each sample's model, and its number."""
    scores = graph.op("Concat", *(one.score for one in found), axis=1)
    # Of equal scores the last wins: that of the newest model.
    least = graph.op("ArgMin", scores, axis=1, keepdims=1, select_last_index=1)
    place = graph.op(
        "Gather", graph.constant(np.array([m.answered_by for m in whole.members])), least
    )
    result = found[0].answers
    for i, one in enumerate(found[1:], start=1):
        own = graph.op("Equal", place, graph.constant(np.array([i])))
        result = graph.op("Where", own, one.answers, result)
    numbers = graph.constant(np.array([member.number for member in whole.members]))
    return result, _flat(graph, graph.op("Gather", numbers, place))


def _flat(graph: _Graph, column: str) -> str:
    return graph.op("Squeeze", column, graph.constant(np.array([1])))


def _novelty(graph: _Graph, whole: Exported, found: Sequence[_Found]) -> tuple[str, str]:
    """Return how unusual samples are, and whether some model knows them: (samples,)."""
    if not whole.scales:
        scores = graph.op("Concat", *(one.score for one in found), axis=1)
        novelty = _flat(graph, graph.op("ReduceMin", scores, axes=[1], keepdims=1))
        return novelty, graph.op("Less", novelty, graph.constant(whole.largest_share or 0.0))
    deviations, beyond = [], []
    for one, scale in zip(found, whole.scales, strict=True):
        best = graph.op("ArgMax", one.own, axis=1, keepdims=1)
        row = graph.op("Gather", graph.constant(np.array(scale.row_of)), best)
        log = graph.op("Log", one.error)

        def of_row(values: NDArray, row: str = row) -> str:
            return graph.op("Gather", graph.constant(values), row)

        off = graph.op("Sub", log, of_row(scale.mean))
        deviations.append(graph.op("Div", off, of_row(scale.deviation)))
        beyond.append(graph.op("Sub", log, of_row(scale.limit)))
    least = [
        _flat(graph, graph.op("ReduceMin", graph.op("Concat", *own, axis=1), axes=[1], keepdims=1))
        for own in (deviations, beyond)
    ]
    return least[0], graph.op("LessOrEqual", least[1], graph.constant(0.0))


def _member(graph: _Graph, member: Member, n_outputs: int) -> _Found:
    """Return what one model computes."""
    program = member.program
    values = _Values(graph, program)
    for step in program.steps:
        result = values.pooled(step) if isinstance(step, Pooling) else values.computed(step)
        values.add(result, step.width)
    answers = values.columns(program.outputs)
    if member.columns != tuple(range(n_outputs)):
        spread = np.zeros((len(member.columns), n_outputs))
        spread[np.arange(len(member.columns)), member.columns] = 1.0
        answers = graph.op("MatMul", answers, graph.constant(spread))
    if program.score is None:
        return _Found(answers)
    more = (values.columns(program.results[name].tolist()) for name in (SCORE, ERROR, OWN))
    return _Found(answers, *more)


class _Values:
    """The values computed so far, as columns of one tensor."""

    def __init__(self, graph: _Graph, program: Program) -> None:
        self.graph = graph
        self.tensor = "X"
        self.n = program.n_inputs

    def columns(self, values: Sequence[int]) -> str:
        """Return some values side by side."""
        if list(values) == list(range(self.n)):
            return self.tensor
        return self.graph.op("Gather", self.tensor, self.graph.constant(np.array(values)), axis=1)

    def add(self, result: str, width: int) -> None:
        """Append values that were computed."""
        self.tensor = self.graph.op("Concat", self.tensor, result, axis=1)
        self.n += width

    def pooled(self, step: Pooling) -> str:
        """Return what is computed from a run of values."""
        graph, values = self.graph, self.columns(step.sources)
        if step.transfer == Transfer.SOFTMAX:
            return graph.op("Softmax", values, axis=1)
        if step.transfer == Transfer.POWER_MEAN:
            least = graph.op("ReduceMin", values, axes=[1], keepdims=1)
            powers = graph.op("Pow", graph.op("Div", least, values), graph.constant(step.constant))
            mean = graph.op("ReduceMean", powers, axes=[1], keepdims=1)
            root = graph.constant(-1.0 / step.constant)
            return graph.op("Mul", least, graph.op("Pow", mean, root))
        total = graph.op("ReduceSum", values, graph.constant(np.array([1])), keepdims=1)
        return graph.op("Div", values, graph.op("Max", total, graph.constant(LEAST_SUM)))

    def _sums(self, sums: Sums) -> str:
        """Return weighted sums: (samples, rows)."""
        # A matrix needs at least one row, even if no sum has a source.
        sources, row = np.unique(sums.source, return_inverse=True)
        weights = np.zeros((max(len(sources), 1), len(sums)))
        weights[row, sums.row] = sums.weight
        product = self.graph.op(
            "MatMul", self.columns(sources.tolist() or [0]), self.graph.constant(weights)
        )
        return self.graph.op("Add", product, self.graph.constant(sums.bias))

    def _encoded(self, block: Block) -> str:
        """Return encoded inputs. A product of matrices would spread NaN over all of them."""
        graph = self.graph
        x = self.columns(block.first.source.tolist())
        if block.transfer == Transfer.FILLED:
            return graph.op("Where", graph.op("IsNaN", x), graph.constant(block.constant), x)
        if block.transfer == Transfer.MISSING:
            found = graph.op("IsNaN", x)
        else:
            found = graph.op("Equal", x, graph.constant(block.constant))
        return graph.op("Cast", found, to=graph.onnx.TensorProto.DOUBLE)

    def computed(self, block: Block) -> str:
        """Return the values of a block."""
        graph = self.graph
        if block.transfer in OF_INPUT:
            return self._encoded(block)
        z = self._sums(block.first)

        def constants() -> str:
            return graph.constant(block.constant)

        match block.transfer:
            case Transfer.LOGISTIC:
                z = graph.op("Sigmoid", z)
            case Transfer.MODULATED:
                assert block.second is not None
                m = graph.op("Mul", self._sums(block.second), constants())
                half, one = graph.constant(0.5), graph.constant(1.0)
                bent = graph.op("Tanh", graph.op("Mul", m, half))
                z = graph.op("Mul", z, graph.op("Add", graph.op("Add", bent, bent), one))
            case Transfer.CLIPPED:
                c = constants()
                z = graph.op("Max", graph.op("Min", z, c), graph.op("Neg", c))
            case Transfer.LOGARITHM:
                z = graph.op("Log", graph.op("Max", z, constants()))
            case Transfer.SQUARE:
                z = graph.op("Mul", z, z)
            case Transfer.EXCEEDS:
                more = graph.op("Greater", graph.op("Abs", z), constants())
                z = graph.op("Cast", more, to=graph.onnx.TensorProto.DOUBLE)
        return z
