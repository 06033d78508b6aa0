"""A finished PREVAL model as a program: its answers, its score, and what both are made of.

L0 answers, and L1 predicts the states of L0's nodes; the prediction errors tell how unfamiliar a
sample is. This module depends on networks and arrays only: `ExpertParts` lists everything of a
model that its answers depend on.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.network import Network, output_units
from dirad.inference import Attached, Builder, InEdges, Signals, joined, plain, silent, weighted
from dirad.program import OUTPUTS, SCORE, Program, Sums, Transfer

TINY = 1e-12  # no probability of L0 is closer to 0 or 1; no mean squared error is smaller
LARGEST_LOGIT = float(np.log((1.0 - TINY) / TINY))

# Names of results besides the outputs (class probabilities) and the score.
L0, GATES = "l0", "gates"  # L0's own outputs; gate values, one per mode
ERRORS = "errors"  # prediction − state, one per target
MODE_ERRORS = "mode_errors"  # mean squared error of the predicted inputs, one per mode

BY_MODE, BY_SQUARES, BY_CONFLICTS = "modes", "squared", "conflicts"  # kinds of score


class GatedPaths(NamedTuple):
    """The pathway of each target and mode within a gated L1 network."""

    unit: NDArray[np.int64]  # (targets, modes) its modulatory node, or -1 where it is constant
    constant: NDArray[np.float64]  # (targets, modes) the prediction where there is no such node


class PredictorParts(NamedTuple):
    """L1: predicts the states of some nodes of L0 from those of others."""

    l0: Network  # whose states it takes
    nodes: NDArray[np.int64]  # (states,) nodes of L0, all inputs first
    low: NDArray[np.float64]  # (states,) L1 sees (state − low) / span
    span: NDArray[np.float64]  # (states,)
    targets: NDArray[np.int64]  # (targets,) columns of the states that are predicted
    network: Network | None  # one output per target, over states and gate values; None: no targets
    gates: Network | None  # one output per mode, over states
    paths: GatedPaths | None  # where there are gates
    earlier: tuple["PredictorParts", ...] = ()  # their predictions of inputs are further states

    @property
    def predicts_input(self) -> NDArray[np.bool_]:
        """Which targets are inputs of L0: (targets,)."""
        return self.nodes[self.targets] < self.l0.n_inputs


class ExpertParts(NamedTuple):
    """Everything that the answers and the score of a finished model depend on."""

    l0: Network
    first_output: int  # L0's outputs before it belong to an earlier model
    l1: PredictorParts
    score: str  # BY_MODE, BY_SQUARES or BY_CONFLICTS
    offset: NDArray[np.float64] | None = None  # inputs are standardized: (x − offset) / spread
    spread: NDArray[np.float64] | None = None
    limits: NDArray[np.float64] | None = None  # (targets,) larger |errors| are conflicts
    temperature: float | None = None  # the paper's models: L0's logits are divided by it
    weights: tuple[float, float] = (1.0, 1.0)  # of L0 and gates, and of the modes' errors
    exponent: float = 1.0  # a mode's likelihood is its mean squared error ^ −exponent
    mode_columns: NDArray[np.int64] | None = None  # (modes,) output of each mode's class, or -1;
    # None: the gates do not distinguish the classes


def l0_program(parts: ExpertParts) -> Program:
    """Return the program of L0's own outputs. The scaling of inputs is part of the weights."""
    builder = Builder(parts.l0.n_inputs)
    l0 = builder.attach(parts.l0, _standardized(builder, parts))
    return builder.program({OUTPUTS: _from(l0.outputs, parts.first_output)})


def expert_program(parts: ExpertParts, *, details: bool = False) -> Program:
    """Return the program of a model: class probabilities and score.

    With `details` it also has the results `L0`, `GATES`, `ERRORS` and `MODE_ERRORS`, and inputs
    whose offset is very large relative to their spread lose no digits.
    """
    builder = Builder(parts.l0.n_inputs)
    inputs = _standardized_values(builder, parts, exact=details)
    l0 = builder.attach(parts.l0, inputs)
    l1 = parts.l1
    states = _states(builder, l1, l0, inputs)
    gates = silent(0) if l1.gates is None else builder.attach(l1.gates, states).outputs
    results = {L0: _from(l0.outputs, parts.first_output), GATES: gates}
    target_states = states.take(l1.targets)
    if parts.score == BY_MODE and l1.paths is not None:
        predicted = _path_rows(l1, l1.paths, states)
        if details:  # the pathways become values, for the modes and for the gated predictions
            own = builder.linear(predicted)
            predicted = own.sums
            gated = _gated(builder, l1, l1.paths, joined(states, gates), own)
            results[ERRORS] = builder.linear(_minus(gated, target_states))
        n_modes = l1.paths.unit.shape[1]
        rows = _minus(predicted, target_states.take(np.tile(np.arange(len(l1.targets)), n_modes)))
    else:
        rows = _minus(_predicted(builder, l1, states, gates).sums, target_states)
        if details:
            results[ERRORS] = builder.linear(rows)
            rows = results[ERRORS].sums
    errors = results[MODE_ERRORS] = _mean_squares(builder, l1, rows)
    answers = {
        OUTPUTS: _probabilities(builder, parts, l0, gates, errors),
        SCORE: _score(builder, parts, rows, errors),
    }
    return builder.program(answers | results if details else answers)


def _from(signals: Signals, first: int) -> Signals:
    return signals.take(np.arange(first, len(signals.value)))


def _standardized(builder: Builder, parts: ExpertParts) -> Signals:
    """Return the inputs as the networks see them."""
    if parts.offset is None or parts.spread is None:
        return builder.inputs
    return builder.inputs.less(parts.offset, over=parts.spread)


def _standardized_values(builder: Builder, parts: ExpertParts, *, exact: bool) -> Signals:
    """Return the same as values: multiplied into thousands of weights, offsets cost digits.

    Exact: x − offset is computed first; x / spread − offset / spread would lose the digits that x
    and the offset have in common.
    """
    if parts.offset is None or parts.spread is None:
        return builder.inputs
    if not exact:
        return builder.linear(_standardized(builder, parts).sums)
    centred = builder.linear(builder.inputs.less(parts.offset, over=np.ones(builder.n_inputs)).sums)
    return builder.linear(centred.less(np.zeros(builder.n_inputs), over=parts.spread).sums)


# ---------------------------------------------------------------- L1


def _states(builder: Builder, l1: PredictorParts, l0: Attached, inputs: Signals) -> Signals:
    """Return the states that L1 sees: those of L0's nodes, and earlier predictions of inputs."""
    before: list[Signals] = []
    for one in l1.earlier:
        states = _states_after(one, builder.attach(one.l0, inputs), before)
        before.append(_predicted_inputs(builder, one, states))
    return _states_after(l1, l0, before)


def _states_after(l1: PredictorParts, l0: Attached, before: list[Signals]) -> Signals:
    own = l0.states.take(l1.nodes).less(l1.low, over=l1.span)
    span = l1.span[: l1.l0.n_inputs]
    return joined(own, *(part.times(1.0 / span) for part in before))


def _predicted_inputs(builder: Builder, l1: PredictorParts, states: Signals) -> Signals:
    """Return the prediction of every input; 0 where there is none."""
    result = silent(l1.l0.n_inputs)
    gates = silent(0) if l1.gates is None else builder.attach(l1.gates, states).outputs
    inputs = _predicted(builder, l1, states, gates).times(l1.span[l1.targets])
    chosen = l1.predicts_input
    for column, own in zip(result, inputs.take(chosen), strict=True):
        column[l1.nodes[l1.targets[chosen]]] = own
    return result


def _predicted(builder: Builder, l1: PredictorParts, states: Signals, gates: Signals) -> Signals:
    """Return the prediction of each target."""
    if l1.network is None:
        return silent(0)
    return builder.attach(l1.network, joined(states, gates)).outputs


def _minus(sums: Sums, signals: Signals) -> Sums:
    """Return each row of the sums minus a signal."""
    row = np.concatenate([sums.row, np.arange(len(sums))])
    order = np.argsort(row, kind="stable")
    sources = joined(plain(sums.source), signals)
    weight = np.concatenate([sums.weight, -np.ones(len(sums))])
    return weighted(sums.bias, row[order], sources.take(order), weight[order])


def _path_rows(l1: PredictorParts, paths: GatedPaths, states: Signals) -> Sums:
    """Return the prediction of each mode by itself, as if only its gate were open.

    One row per mode and target: all targets of the first mode, of the second, and so on.
    """
    assert l1.network is not None
    unit, bias = paths.unit.T.ravel(), paths.constant.T.ravel().copy()
    grown = np.flatnonzero(unit >= 0)
    own = InEdges(l1.network).sums(states, unit[grown], 0)
    bias[grown] = own.bias
    return weighted(bias, grown[own.row], plain(own.source), own.weight)


def _gated(
    builder: Builder, l1: PredictorParts, paths: GatedPaths, sources: Signals, own: Signals
) -> Sums:
    """Return the gated prediction of each target; `own` are the modes' predictions."""
    network = l1.network
    assert network is not None
    edges = InEdges(network)
    unit = paths.unit.T.ravel()
    grown = unit >= 0
    gain = network.units["gain"][unit[grown]]
    second = edges.sums(sources, unit[grown], 1)
    let_through = builder.block(Transfer.MODULATED, own.take(grown).sums, second, gain)
    all_states = joined(sources, silent(len(network.units)))
    for column, values in zip(all_states, let_through, strict=True):
        column[network.n_inputs + unit[grown]] = values
    return edges.sums(all_states, output_units(network), 0)


# ---------------------------------------------------------------- answers and score


def _mean_squares(builder: Builder, l1: PredictorParts, rows: Sums) -> Signals:
    """Return the mean squared error of the inputs: one value, or one per mode."""
    inputs = np.flatnonzero(l1.predicts_input)
    n, n_modes = len(inputs), len(rows) // max(len(l1.targets), 1)
    some = (len(l1.targets) * np.arange(n_modes)[:, None] + inputs).ravel()
    squares = builder.block(Transfer.SQUARE, rows.take(some))
    mode = np.repeat(np.arange(n_modes), n)
    return builder.linear(
        weighted(np.full(n_modes, TINY), mode, squares, np.full(len(some), 1.0 / max(n, 1)))
    )


def _score(builder: Builder, parts: ExpertParts, rows: Sums, errors: Signals) -> Signals:
    """Return a mean over the modes, the mean squared error, or the share of conflicted nodes."""
    if parts.score == BY_CONFLICTS:
        assert parts.limits is not None
        found = builder.block(Transfer.EXCEEDS, rows, constant=parts.limits)
        n = len(rows)
        return builder.linear(
            weighted(np.zeros(1), np.zeros(n, np.int64), found, np.full(n, 1.0 / max(n, 1)))
        )
    if len(errors.value) == 1:
        return errors
    return builder.pooling(Transfer.POWER_MEAN, errors, parts.exponent)


def _probabilities(
    builder: Builder, parts: ExpertParts, l0: Attached, gates: Signals, errors: Signals
) -> Signals:
    """Return the probability of each of the model's classes."""
    own = l0.activations.take(np.arange(parts.first_output, len(l0.activations)))
    logits = builder.block(Transfer.CLIPPED, own, constant=LARGEST_LOGIT)
    if parts.temperature is not None:
        warm = builder.block(Transfer.LOGISTIC, logits.times(1.0 / parts.temperature).sums)
        return builder.pooling(Transfer.SHARE, warm)
    of_l0, of_errors = parts.weights
    evidence = [logits.times(of_l0)]
    if parts.mode_columns is not None:
        evidence.append(_class_logs(builder, parts.mode_columns, gates, len(own)).times(of_l0))
        if parts.score == BY_MODE:
            logs = builder.block(Transfer.LOGARITHM, errors.sums, constant=TINY)
            powers = builder.linear(logs.times(-parts.exponent).sums)
            shares = builder.pooling(Transfer.SOFTMAX, powers)
            logs = _class_logs(builder, parts.mode_columns, shares, len(own))
            evidence.append(logs.times(of_errors))
    row = np.tile(np.arange(len(own)), len(evidence))
    order = np.argsort(row, kind="stable")
    parts_of = joined(*evidence).take(order)
    total = weighted(np.zeros(len(own)), row[order], parts_of, np.ones(len(row)))
    return builder.pooling(Transfer.SOFTMAX, builder.linear(total))


def _class_logs(
    builder: Builder, columns: NDArray[np.int64], shares: Signals, n_classes: int
) -> Signals:
    """Return, for each class, the logarithm of the sum of its modes' shares."""
    modes = np.flatnonzero(columns >= 0)
    modes = modes[np.argsort(columns[modes], kind="stable")]
    total = weighted(np.zeros(n_classes), columns[modes], shares.take(modes), np.ones(len(modes)))
    return builder.block(Transfer.LOGARITHM, total, constant=TINY)
