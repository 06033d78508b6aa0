"""L1: private pathways, each of which predicts the state of a node of L0 from others.

Every pathway is a network of its own with a single output, so that pathways adapt independently:
on any number of threads or nodes, each stopping when it is stable, with the same result. The paper
has one per target. Ours has one per target and mode of the task (see `gates`), adapted to the
samples of that mode. When all are stable, those of the confidently predicted targets are joined
into one network, in which a modulatory node per pathway lets it through as far as its mode is
there.
"""

from collections.abc import Sequence
from copy import copy
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.network import (
    FREE,
    FREE_EDGE,
    FREE_UNIT,
    LINEAR,
    LOGISTIC,
    MODULATORY,
    N_EDGES,
    N_OUTPUTS,
    N_UNITS,
    TRANSFER,
    Network,
    new_network,
    output_units,
)
from dirad.core.random import bits
from dirad.engine import current
from dirad.growth.adapt import Adaptation, Data, Desk, new_data
from dirad.growth.state import PHASE, new_state
from dirad.history import STABLE, History
from dirad.inference import node_states, respond
from dirad.preval.connectivity import allowed_sources, is_output, live_nodes
from dirad.preval.gates import Gates, find_modes
from dirad.preval.settings import Settings
from dirad.preval.validation import squared_sum

PATHWAY, GATES = 101, 103  # purposes of random keys
ALL = -1  # targets, or modes
ROOM = {"unit_capacity": 40, "edge_capacity": 64}  # of a pathway, so that it seldom has to move
SCARCE = 100  # samples of a mode for which the ridge is twice as high
CHUNK = 512  # samples whose modes are looked at together
MANY = 1024  # targets whose likeness to all nodes is held at a time
CONSTANT = 1e-3  # deviation below which a state needs no predicting: its mean does
# σ₁(z; K) = 4/(1 + e^(−K·z)) − 1 is 0 at z = −1 and 1 at z = 0: a gate shut, and a gate open.
GATE_GAIN, GATE_BIAS = float(np.log(3.0)), -1.0
GATE_NUMBERS = 4  # these two, and the weights of the edges from the gate and to the output


class Pathway(NamedTuple):
    """What predicts one target, in one mode; of ALL of them, the gates."""

    target: int  # column of the states
    mode: int
    adaptation: Adaptation


class Task(NamedTuple):
    """What pathways adapt to, the same for all of them."""

    parts: dict[int, tuple[Data, NDArray]]  # by mode: its samples, laid out for kernels; all states
    steps: int  # after which they pause
    every: NDArray[np.bool_]  # (states,) all of them


def advance(task: Task, pathways: Sequence[Pathway]) -> list[tuple[Pathway, History]]:
    """Return pathways further on, each with what happened to it."""
    desks: dict[int, Desk] = {}
    result = []
    for path in pathways:
        data, states = task.parts[path.mode]
        desk = desks.get(path.mode)
        if desk is None:
            desk = Desk(path.adaptation.params, len(states))
            desks = {path.mode: desk}  # the last mode's goes
        own = data._replace(epoch=data.epoch.copy(), order=data.order.copy())
        if path.target != ALL:
            column = states[:, path.target, None]
            own = own._replace(targets=np.ascontiguousarray(column, data.targets.dtype))
        until = path.adaptation.state.step + task.steps
        history = path.adaptation.advance(own, until, desk)
        if path.adaptation.stable:
            slim(path, task.every)
        result.append((path, history))
    return result


def slim(path: Pathway, every: NDArray[np.bool_]) -> None:
    """Give up what only growth needs of a stable pathway, which is most of it.

    In place of the inputs that it may grow from, all such pathways hold `every`.
    """
    state = path.adaptation.state
    network = state.network._replace(usable=every)
    path.adaptation.replace(state._replace(network=network, best=network))


def joined(networks: Sequence[Network]) -> Network:
    """Return one network that computes what these do side by side; outputs in their order."""
    n_inputs = networks[0].n_inputs
    units = [np.flatnonzero(one.units["kind"] != FREE) for one in networks]
    edges = [np.flatnonzero(one.edges["source"] >= 0) for one in networks]
    result = new_network(
        n_inputs,
        len(networks),
        int(networks[0].counts[TRANSFER]),
        sum(map(len, units)),
        sum(map(len, edges)),
    )
    unit, edge = 0, 0
    for column, (one, its_units, its_edges) in enumerate(zip(networks, units, edges, strict=True)):
        place = np.full(len(one.units), -1)
        place[its_units] = np.arange(unit, unit + len(its_units))
        rows = slice(unit, unit + len(its_units))
        result.units[rows] = one.units[its_units]
        result.units["output"][rows] = np.where(one.units["output"][its_units] >= 0, column, -1)
        result.bias[rows] = one.bias[its_units]
        part = one.edges[its_edges]
        inner = part["source"] >= n_inputs
        part["source"][inner] = n_inputs + place[part["source"][inner] - n_inputs]
        part["term"] = 2 * place[part["term"] // 2] + part["term"] % 2
        result.edges[edge : edge + len(part)] = part
        unit, edge = unit + len(its_units), edge + len(part)
    result.counts[N_UNITS], result.counts[N_EDGES] = unit, edge
    return result


def reduced(network: Network, outputs: NDArray[np.int64]) -> Network:
    """Return what some outputs, numbered anew, need of a network; all else keeps its place."""
    result = network.copy()
    units, edges = result.units, result.edges
    column = np.full(network.n_outputs, -1)
    column[outputs] = np.arange(len(outputs))
    answers = units["output"] >= 0
    units["output"][answers] = column[units["output"][answers]]
    needed = units["output"] >= 0
    live = np.flatnonzero(edges["source"] >= 0)
    source, target = edges["source"][live] - network.n_inputs, edges["term"][live] // 2
    before = -1
    while before != np.count_nonzero(needed):  # backwards along the edges, until nothing is added
        before = np.count_nonzero(needed)
        needed[source[needed[target] & (source >= 0)]] = True
    edges[live[~needed[target]]] = FREE_EDGE
    units[~needed] = FREE_UNIT
    result.bias[~needed] = 0.0
    result.counts[N_OUTPUTS] = len(outputs)
    return result


def likeliest(
    states: NDArray, targets: NDArray[np.int64], most: int, *, near: int = 0, n_inputs: int = 0
) -> NDArray[np.bool_]:
    """Return which nodes are the most correlated with each target: (targets, nodes).

    A target is not counted among its own. Of an input up to `near` inputs, the first nodes, are
    passed over, the most correlated ones: at most half of those related to it at all.
    """
    n = states.shape[1]
    if n - 1 <= most:
        return np.ones((len(targets), n), bool)
    centred = states - states.mean(axis=0)
    length = np.sqrt((centred**2).sum(axis=0))
    centred /= np.where(length > 0, length, 1.0)
    result = np.zeros((len(targets), n), bool)
    for start in range(0, len(targets), MANY):
        some = targets[start : start + MANY]
        likeness = np.abs(centred[:, some].T @ centred)
        likeness[np.arange(len(some)), some] = -1.0
        if near:
            rows = np.flatnonzero(some < n_inputs)
            close, columns = closest(likeness[rows, :n_inputs], near, len(states))
            likeness[rows[close], columns] = -1.0
        chosen = np.argpartition(-likeness, most - 1, axis=1)[:, :most]
        part = result[start : start + MANY]
        np.put_along_axis(part, chosen, True, axis=1)
        part &= likeness >= 0.0
    return result


def closest(
    likeness: NDArray, near: int, n_samples: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return rows and columns of the most alike: up to `near` a row, and half of the related.

    `likeness` has the correlations, without sign, in so many samples. Related is what exceeds the
    largest of as many that chance would give.
    """
    by_chance = np.sqrt(2.0 * np.log(likeness.shape[1]) / n_samples)
    count = np.minimum(near, np.count_nonzero(likeness > by_chance, axis=1) // 2)
    columns = np.argpartition(-likeness, near - 1, axis=1)[:, :near]
    order = np.argsort(-np.take_along_axis(likeness, columns, axis=1), axis=1, kind="stable")
    columns = np.take_along_axis(columns, order, axis=1)
    rows, places = np.nonzero(np.arange(near) < count[:, None])
    return rows, columns[rows, places]


def gated(pathways: Sequence[Pathway], targets: Sequence[int], n_modes: int) -> Network:
    """Return one network of linear pathways: inputs are the states, then the modes' gates.

    A pathway without edges predicts a constant: an edge from its gate. Any other enters term 0 of
    a modulatory node, whose term 1 is fed by the gate.
    """
    n_states = pathways[0].adaptation.state.network.n_inputs
    column = {target: i for i, target in enumerate(targets)}
    units, edges = [], []  # (bias of term 0), (source, term, weight)
    first = len(targets)
    for path in pathways:
        network = path.adaptation.state.network
        own = network.edges[network.edges["source"] >= 0]
        gate, bias = n_states + path.mode, float(network.bias[0, 0])
        output = 2 * column[path.target]
        if not len(own):
            edges.append((gate, output, bias))
            continue
        unit = first + len(units)
        units.append(bias)
        edges += [(int(e["source"]), 2 * unit, float(e["weight"])) for e in own]
        edges.append((gate, 2 * unit + 1, 1.0))
        edges.append((n_states + n_modes + unit, output, 1.0))
    result = new_network(n_states + n_modes, len(targets), LINEAR, first + len(units), len(edges))
    rows = slice(first, first + len(units))
    result.units["kind"][rows] = MODULATORY
    result.units["output"][rows] = -1
    result.units["gain"][rows] = GATE_GAIN
    result.bias[rows, 0] = units
    result.bias[rows, 1] = GATE_BIAS
    for name, values in zip(("source", "term", "weight"), zip(*edges, strict=True), strict=True):
        result.edges[name] = values
    result.counts[N_UNITS], result.counts[N_EDGES] = first + len(units), len(edges)
    return result


class Alone(NamedTuple):
    """What each mode by itself predicts of each target, within a gated network."""

    unit: NDArray[np.int64]  # (targets, modes) its modulatory node, or -1 where it is constant
    constant: NDArray[np.float64]  # (targets, modes) what it predicts where there is no such node


def alone(network: Network, n_modes: int) -> Alone:
    """Return the pathways of a network that `gated` made."""
    edges = network.edges[network.edges["source"] >= 0]
    source, unit = edges["source"], edges["term"] // 2
    gate = source - (network.n_inputs - n_modes)
    from_gate = (gate >= 0) & (gate < n_modes)
    to_node = from_gate & (edges["term"] % 2 == 1)
    column = np.full(len(network.units), -1)
    column[output_units(network)] = np.arange(network.n_outputs)
    mode = np.zeros(len(network.units), np.int64)
    mode[unit[to_node]] = gate[to_node]
    result = Alone(
        np.full((network.n_outputs, n_modes), -1), np.zeros((network.n_outputs, n_modes))
    )
    plain = from_gate & ~to_node
    result.constant[column[unit[plain]], gate[plain]] = edges["weight"][plain]
    inner = source >= network.n_inputs
    node = source[inner] - network.n_inputs
    result.unit[column[unit[inner]], mode[node]] = node
    return result


class Prediction:
    """The L1 network of one model."""

    def __init__(
        self,
        l0: Network,
        X: NDArray,
        settings: Settings,
        seed: int,
        *,
        scale: NDArray | None = None,
        groups: NDArray[np.int64] | None = None,
        earlier: "Sequence[Prediction]" = (),
    ) -> None:
        """Begin, for a stable L0.

        On X the range of hidden states is taken, and the modes are found, within `groups`. Inputs
        are multiplied by `scale`, so that errors of all inputs count in the same units. What
        `earlier` ones predict of an input may serve to predict it, if they see the same inputs.
        """
        self.earlier = tuple(earlier)
        self.l0 = l0
        self.settings = settings
        self.seed = seed
        self.nodes = live_nodes(l0)
        outputs = is_output(l0, self.nodes)
        hidden = (self.nodes >= l0.n_inputs) & ~outputs
        states = node_states(l0, X, self.nodes)
        # Inputs and outputs are scaled already; hidden states take any range.
        if settings.standardize:
            low, span = states.mean(axis=0), states.std(axis=0)
        else:
            low, span = states.min(axis=0), np.ptp(states, axis=0)
        self.low = np.where(hidden, low, 0.0)
        self.span = np.where(hidden & (span > 0), span, 1.0)
        if scale is not None:
            self.span[: l0.n_inputs] = 1.0 / scale
        self.targets = np.flatnonzero(~outputs)  # columns of `states`
        self.pathways: list[Pathway] = []
        self.histories: list[History] = []
        self.gates: Gates | None = None
        self.step = 0
        self.steps_taken: list[int] = []  # by each pathway, when stable
        self._progress: tuple[NDArray, NDArray, NDArray] | None = None  # when stable
        self.network: Network | None = None  # of the confidently predicted targets, when stable
        if settings.modes:
            states = self.states(X)
            groups = np.zeros(len(X), np.int64) if groups is None else groups
            inputs = states[:, : l0.n_inputs]
            modes = find_modes(inputs, groups, settings.modes, settings.mode_samples, seed)
            key = int(bits(seed, GATES, 0, 0)) >> 1
            self.gates = Gates(self.n_states, modes, groups, settings.gates, key % 2**62)
        self._open(X)

    def states(self, X: NDArray) -> NDArray[np.float64]:
        """Return the states of L0's nodes as L1 sees them, scaled: (samples, nodes and more).

        Behind them stands what earlier ones predict of the inputs.
        """
        before: list[NDArray] = []  # each of the earlier ones stands on those before it
        for one in self.earlier:
            before.append(one._predicted_inputs(one._states_on(X, before)))
        return self._states_on(X, before)

    def _states_on(self, X: NDArray, before: Sequence[NDArray]) -> NDArray[np.float64]:
        """Return the states, given what earlier ones predict of the inputs."""
        n_inputs = self.l0.n_inputs  # the first of the nodes
        own = np.empty((len(X), len(self.nodes)))
        own[:, :n_inputs] = X
        own[:, n_inputs:] = node_states(self.l0, X, self.nodes[n_inputs:])
        span = self.span[:n_inputs]
        first = 0 if (span != 1.0).any() else n_inputs  # inputs may stay as they are
        own[:, first:] -= self.low[first:]
        own[:, first:] /= self.span[first:]
        return np.hstack([own, *(part / span for part in before)]) if before else own

    def _predicted_inputs(self, states: NDArray) -> NDArray[np.float64]:
        """Return the prediction of every input, 0 where there is none: (samples, inputs)."""
        result = np.zeros((len(states), self.l0.n_inputs))
        if self.network is not None:
            nodes = self.nodes[self.targets]
            inputs = nodes < self.l0.n_inputs
            scaled = self._predicted(states)[:, inputs]
            result[:, nodes[inputs]] = scaled * self.span[self.targets[inputs]]
        return result

    @property
    def n_states(self) -> int:
        """Columns of the states."""
        return len(self.nodes) + len(self.earlier) * self.l0.n_inputs

    def _sources(self) -> NDArray[np.bool_]:
        """Return which states may predict which target: (targets, states)."""
        nodes = self.nodes[self.targets]
        own = allowed_sources(self.l0, nodes, self.nodes, self.settings.connectivity)
        # An input is predicted from what earlier ones make of it, not of others.
        same = nodes[:, None] == np.arange(self.l0.n_inputs)
        return np.hstack([own, *([same] * len(self.earlier))])

    def _open(self, X: NDArray) -> None:
        """Begin the pathways: of every target, or of every target in every mode."""
        allowed = self._sources()
        states = self.states(X)
        params = self.settings.l1
        transfer = LINEAR if self.settings.standardize else LOGISTIC  # beyond [0, 1], or within
        modes = np.zeros(len(X), np.int64) if self.gates is None else self.gates.modes
        # Neighbours among many inputs, as pixels are, predict one another whatever the task.
        n_inputs = self.l0.n_inputs
        near = int(self.settings.near * max(n_inputs - 2 * self.settings.sources, 0))
        for mode in range(int(modes.max()) + 1):
            part = states[modes == mode]
            if self.gates is not None:  # all samples of a mode are a batch
                n = len(part)
                params = params.replace(
                    batch_size=n, growth_batch=n, prior=self.settings.ridge * (n + SCARCE)
                )
            usable = allowed
            if self.settings.sources:
                usable = allowed & likeliest(
                    part, self.targets, self.settings.sources, near=near, n_inputs=n_inputs
                )
            for row, target in zip(usable, self.targets, strict=True):
                # The seed of a pathway depends on the node it predicts, not on its neighbours.
                own = int(bits(self.seed, PATHWAY, mode, int(self.nodes[target]))) >> 1
                state = new_state(
                    self.n_states,
                    1,
                    transfer=transfer,
                    seed=own % 2**62,
                    n_samples=len(part),
                    **ROOM,
                )
                state.network.usable[:] = row
                state = state._replace(best=state.best._replace(usable=state.network.usable))
                if self.gates is not None:
                    column = part[:, target]
                    state.network.bias[0, 0] = column.mean()
                    if column.std() < CONSTANT:
                        state.clock[PHASE] = STABLE
                self.pathways.append(Pathway(int(target), mode, Adaptation(state, params)))
        self.histories = [History() for _ in self.pathways]

    @property
    def stable(self) -> bool:
        """Are the gates and all pathways stable?"""
        known = self.gates is None or self.gates.stable
        return known and bool(self.pathways) and all(p.adaptation.stable for p in self.pathways)

    def advance(self, X: NDArray, threads: int = 1) -> int:
        """Take a step on each batch of X, in order; return how many it took to be stable."""
        batch = self.settings.l1.batch_size
        states = self.states(X)
        data = new_data(states, np.zeros((len(X), 1)), self.settings.l1, first=self.step)
        self._advance_all({0: (data, states)}, len(X) // batch, threads)
        taken = max(path.adaptation.state.step for path in self.pathways) - self.step
        self.step += taken
        return taken

    def advance_on(self, X: NDArray, steps: int, threads: int = 1) -> None:
        """Take steps on X, the samples that the prediction began with; gates beside pathways."""
        states = self.states(X)
        modes = np.zeros(len(X), np.int64) if self.gates is None else self.gates.modes
        parts = {}
        if self.gates is not None and not self.gates.stable:
            parts[ALL] = (self.gates.data(states), states)
        for mode in sorted({path.mode for path in self.pathways if not path.adaptation.stable}):
            own = states[modes == mode]
            parts[mode] = (new_data(own, np.zeros((len(own), 1)), self.settings.l1), own)
        self._advance_all(parts, steps, threads)
        self.step = max(path.adaptation.state.step for path in self.pathways)

    def _advance_all(
        self, parts: dict[int, tuple[Data, NDArray]], steps: int, threads: int
    ) -> None:
        active = [i for i, path in enumerate(self.pathways) if not path.adaptation.stable]
        paths = [self.pathways[i] for i in active]
        gates = self.gates if ALL in parts else None
        if gates is not None:  # which takes longest, and so comes first
            assert gates.adaptation is not None
            paths.insert(0, Pathway(ALL, ALL, gates.adaptation))
        task = Task(parts, steps, np.ones(self.n_states, bool))
        further = current().spread(advance, task, paths, threads)
        if gates is not None:
            path, history = further.pop(0)
            gates.take(path.adaptation, history)
        for i, (path, history) in zip(active, further, strict=True):
            self.pathways[i] = path  # made elsewhere it is another object
            self.histories[i].extend(history)

    def all_errors(self, X: NDArray) -> NDArray[np.float64]:
        """Return |prediction − state| of every target, stable or not: (samples, targets)."""
        states = self.states(X)
        everything = joined([path.adaptation.state.network for path in self.pathways])
        return np.abs(respond(everything, states) - states[:, self.targets])

    def keep(self, chosen: NDArray[np.bool_]) -> None:
        """Keep the pathways of the chosen targets and forget the others; adaptation is over."""
        self.targets = self.targets[chosen]
        wanted = set(self.targets.tolist())
        kept = [path for path in self.pathways if path.target in wanted]
        self._progress = self.progress()
        self.steps_taken = [len(history.error) for history in self.histories]
        self.pathways, self.histories = [], []
        if not kept:
            return
        if self.gates is None:
            self.network = joined([path.adaptation.state.network for path in kept])
        else:
            self.network = gated(kept, self.targets.tolist(), self.gates.n_modes)
            self.gates.forget()

    @property
    def predicts_input(self) -> NDArray[np.bool_]:
        """Which of the targets are inputs of L0: (targets,)."""
        return self.nodes[self.targets] < self.l0.n_inputs

    def part(self, columns: NDArray[np.int64]) -> "Prediction":
        """Return the prediction of some of the targets alone, when stable; the same to the bit."""
        part = copy(self)
        part.targets = self.targets[columns]
        part.network = None
        if self.network is not None and len(columns):
            part.network = reduced(self.network, columns)
        return part

    def _predicted(self, states: NDArray) -> NDArray[np.float64]:
        assert self.network is not None
        if self.gates is not None:
            states = np.hstack([states, self.gates.values(states)])
        return respond(self.network, states)

    def class_shares(self, X: NDArray, classes: Sequence[int]) -> NDArray[np.float64] | None:
        """Return how much the modes of each class are there, where the gates know all of them."""
        if self.gates is None or not self.gates.know(classes):
            return None
        return self.by_class(self.gates.values(self.states(X)), classes)

    def by_class(self, shares: NDArray, classes: Sequence[int]) -> NDArray[np.float64]:
        """Return the sum over the modes of each class: (samples, classes)."""
        assert self.gates is not None
        columns = [self.gates.group == code for code in classes]
        return np.stack([shares[:, column].sum(axis=1) for column in columns], axis=1)

    def predictions(self, X: NDArray) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the nodes of L0 that are predicted, and their predicted states, when stable."""
        if self.network is None:
            return np.zeros(0, np.int64), np.zeros((len(X), 0))
        scaled = self._predicted(self.states(X))
        predicted = scaled * self.span[self.targets] + self.low[self.targets]
        return self.nodes[self.targets], predicted

    def errors(self, X: NDArray) -> NDArray[np.float64]:
        """Return |prediction − state| of the confidently predicted targets, when stable."""
        if self.network is None:
            return np.zeros((len(X), 0))
        states = self.states(X)
        return np.abs(self._predicted(states) - states[:, self.targets])

    @property
    def n_modes(self) -> int:
        """Modes that have pathways of their own; 1 where there are no gates."""
        return 1 if self.gates is None else self.gates.n_modes

    def errors_by_mode(self, X: NDArray) -> NDArray[np.float64]:
        """Return prediction − state of the inputs, by mode: (samples, inputs, modes).

        Each mode predicts by itself, as if its gate were open and all others shut.
        """
        inputs = np.flatnonzero(self.predicts_input)
        if self.network is None or self.gates is None:
            return self.errors(X)[:, inputs, None]
        states = self.states(X)
        actual = states[:, self.targets[inputs], None]
        paths = alone(self.network, self.n_modes)
        unit, constant = paths.unit[inputs], paths.constant[inputs]
        grown = unit >= 0
        nodes, place = np.unique(unit[grown], return_inverse=True)
        opened = np.hstack([states, np.ones((len(states), self.n_modes))])
        found = node_states(self.network, opened, self.network.n_inputs + nodes)
        predicted = np.tile(constant, (len(states), 1, 1))
        predicted[:, grown] = found[:, place]
        return predicted - actual

    def squares(self, X: NDArray) -> NDArray[np.float64]:
        """Return the sum of squared errors of the inputs, by mode: (samples, modes)."""
        parts = [X[start : start + CHUNK] for start in range(0, len(X), CHUNK)] or [X]
        return np.concatenate([squared_sum(self.errors_by_mode(part)) for part in parts])

    @property
    def n_parameters(self) -> int:
        """Edges, biases and Ks, of the gates too, and the scaling of the states.

        What lets a pathway through (two edges of weight 1, a bias, K) is the same for all of them
        and never adapts: it is counted once.
        """
        networks = [path.adaptation.state.network for path in self.pathways]
        same = 0
        if self.network is not None:
            networks = [self.network]
            same = GATE_NUMBERS * max(self.network.n_hidden - 1, 0) if self.gates else 0
        if self.gates is not None and self.gates.n_modes > 1:
            networks.append(self.gates.network)
        scaling = 2 * int(np.count_nonzero(self.span != 1.0))
        return sum(network.n_parameters for network in networks) + scaling - same

    def progress(self) -> tuple[NDArray, NDArray, NDArray]:
        """Return per step: the mean squared error over pathways, the edges, the hidden nodes."""
        if self._progress is not None:
            return self._progress
        steps = max([self.step, *(len(history.error) for history in self.histories)])
        error, edges, hidden = np.zeros(steps), np.zeros(steps), np.zeros(steps)
        for history in self.histories:
            n = len(history.error)
            if n == 0:
                continue
            # A stable pathway stays as it is.
            whole = np.append(history.error, np.full(steps - n, history.error[-1]))
            error += 2.0 * np.where(np.isfinite(whole), whole, 0.5)  # one that ran away: 1 at most
            edges += np.append(history.edges, np.full(steps - n, history.edges[-1]))
            hidden += np.append(history.hidden, np.full(steps - n, history.hidden[-1]))
        return error / max(len(self.histories), 1), edges, hidden
