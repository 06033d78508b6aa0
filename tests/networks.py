"""Random networks and small problems, the ground on which kernels and their twins meet."""

import itertools
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

import naive
from dirad.core.network import (
    FREE,
    LINEAR,
    LOGISTIC,
    MODULATORY,
    N_EDGES,
    N_UNITS,
    OUTPUT,
    SOFTMAX,
    Network,
    new_network,
    with_capacity,
)
from dirad.core.order import Plan, build_plan
from dirad.core.potential import (
    Potential,
    edge_potentials,
    new_potential,
    term_potentials,
    threshold_deltas,
)
from dirad.core.propagate import (
    CROSS_ENTROPY,
    SQUARED,
    Workspace,
    backward,
    forward,
    load_batch,
    new_workspace,
)
from dirad.growth.state import Log, Scratch, State, new_scratch, new_state
from dirad.history import KIND_NAMES, RECORD
from dirad.params import Params

TRANSFER_NAMES = {LOGISTIC: "logistic", LINEAR: "linear", SOFTMAX: "softmax"}
COST_NAMES = {SQUARED: "squared", CROSS_ENTROPY: "cross-entropy"}
# Every pair of transfer and cost whose deltas are those of `propagate`.
PAIRS = [
    (LOGISTIC, SQUARED),
    (LINEAR, SQUARED),
    (LOGISTIC, CROSS_ENTROPY),
    (SOFTMAX, CROSS_ENTROPY),
]
LONG_BEFORE = -1000


class Case(NamedTuple):
    """A network and a batch."""

    network: Network
    X: np.ndarray  # (n, inputs)
    y: np.ndarray  # (n, outputs)
    weight: np.ndarray  # (n,)
    cost: int

    @property
    def plain(self) -> naive.Net:
        """The same network for the twins."""
        return plain(self.network)

    @property
    def cost_name(self) -> str:
        return COST_NAMES[self.cost]


def random_network(
    rng,
    n_inputs=3,
    n_outputs=2,
    n_hidden=4,
    *,
    density=0.5,
    transfer=LOGISTIC,
    outputs_feed=False,
    holes=2,
    spare=8,
):
    """Return an acyclic network with free places between used ones, and some weights 0."""
    places = n_outputs + rng.permutation(n_hidden + holes)[:n_hidden]
    units = [*range(n_outputs), *map(int, places)]
    network = new_network(n_inputs, n_outputs, transfer, n_outputs + n_hidden + holes)
    network.counts[N_UNITS] = n_outputs + n_hidden + holes
    for u in units:
        if u >= n_outputs:
            network.units["kind"][u] = MODULATORY
            network.units["gain"][u] = rng.choice([-1, 1]) * rng.uniform(0.3, 2.0)
            network.bias[u, 0] = rng.choice([0.0, rng.normal()])
            network.bias[u, 1] = rng.normal()
        else:
            network.bias[u, 0] = rng.normal()
    rank = {u: i for i, u in enumerate(rng.permutation(units))}
    found = []
    for u in units:
        sources = list(range(n_inputs))
        sources += [
            n_inputs + v for v in units if rank[v] < rank[u] and (v >= n_outputs or outputs_feed)
        ]
        for t in [2 * u] if u < n_outputs else [2 * u, 2 * u + 1]:
            found += [(s, t) for s in sources if rng.random() < density]
    network = with_capacity(network, 0, len(found) + holes)
    network.counts[N_EDGES] = len(found) + holes
    for e, (s, t) in zip(rng.permutation(len(found) + holes), found, strict=False):
        network.edges["source"][e] = s
        network.edges["term"][e] = t
        network.edges["weight"][e] = 0.0 if rng.random() < 0.15 else rng.normal()
    return with_capacity(network, len(network.units) + spare, len(network.edges) + 2 * spare)


def random_targets(rng, n, n_outputs, transfer):
    """Return targets that fit a transfer."""
    if transfer == LINEAR:
        return rng.normal(size=(n, n_outputs))
    if transfer == SOFTMAX:
        return np.eye(n_outputs)[rng.integers(n_outputs, size=n)]
    return rng.integers(0, 2, size=(n, n_outputs)).astype(float)


def random_case(seed, n_samples=13, pair=(LOGISTIC, SQUARED), weighted=False, **shape):
    """Return a random network and a batch for it."""
    rng = np.random.default_rng(seed)
    transfer, cost = pair
    network = random_network(rng, transfer=transfer, **shape)
    return Case(
        network,
        rng.normal(size=(n_samples, network.n_inputs)),
        random_targets(rng, n_samples, network.n_outputs, transfer),
        rng.uniform(0.2, 2.0, n_samples) if weighted else np.ones(n_samples),
        cost,
    )


@st.composite
def cases(draw, pairs=PAIRS, n_samples=(1, 3, 8, 13, 261), min_hidden=0, weighted=None):
    """Networks of every shape: outputs that feed others, unweighted and weighted samples."""
    pair = draw(st.sampled_from(pairs))
    return random_case(
        draw(st.integers(0, 2**32 - 1)),
        draw(st.sampled_from(n_samples)),
        pair,
        draw(st.booleans()) if weighted is None else weighted,
        n_inputs=draw(st.integers(1, 4)),
        n_outputs=draw(st.integers(1, 3)),
        n_hidden=draw(st.integers(min_hidden, 5)),
        density=draw(st.sampled_from([0.2, 0.5, 0.9])),
        # What a softmax output would pass on is not defined.
        outputs_feed=pair[0] != SOFTMAX and draw(st.booleans()),
        holes=draw(st.integers(0, 3)),
    )


def plain(network: Network) -> naive.Net:
    """Return the same network as the twins know it."""
    net = naive.Net(
        network.n_inputs,
        TRANSFER_NAMES[int(network.counts[4])],
        usable=[bool(x) for x in network.usable],
    )
    for u, unit in enumerate(network.units):
        if unit["kind"] != FREE:
            net.units[u] = naive.Unit(
                "output" if unit["kind"] == OUTPUT else "modulatory",
                [float(b) for b in network.bias[u]],
                float(unit["gain"]),
                int(unit["output"]),
                bool(unit["frozen"]),
            )
    for e, edge in enumerate(network.edges):
        if edge["source"] >= 0:
            source, term, weight = int(edge["source"]), int(edge["term"]), float(edge["weight"])
            net.edges[e] = naive.Edge(source, term, weight, bool(edge["frozen"]))
    return net


class Passes(NamedTuple):
    """What both passes over a batch leave behind."""

    plan: Plan
    work: Workspace
    potential: Potential


def run_passes(case: Case, tolerance=0.0, delta_min=0.0, dtype=np.float64) -> Passes:
    """Forward, backward and potentials, in a workspace that was full of something else."""
    plan = build_plan(case.network)
    work = new_workspace(case.network, len(case.X) + 40, dtype)
    for array in (
        work.state,
        work.term_0,
        work.term_1,
        work.delta,
        work.thresholded_delta,
        work.target,
    ):
        array[:] = 77.0
    load_batch(work, case.X, case.y, case.weight)
    potential = new_potential(case.network)
    forward(case.network, plan, work)
    backward(case.network, plan, work, case.cost, float(tolerance))
    threshold_deltas(case.network, work, float(delta_min))
    term_potentials(case.network, work, potential)
    edge_potentials(plan, work, potential)
    return Passes(plan, work, potential)


def state_of(network: Network, *, seed=0, step=100) -> State:
    """Return a network in the middle of its adaptation; all of its parts are old and rested."""
    state = new_state(
        network.n_inputs,
        network.n_outputs,
        seed=seed,
        unit_capacity=len(network.units) - network.n_outputs,
        edge_capacity=len(network.edges),
    )
    state.clock[0] = step
    state.edge_life["born"] = LONG_BEFORE
    state.unit_life["born"] = LONG_BEFORE
    return state._replace(network=network, best=network.copy(), trimmed=network.copy())


def new_log(size=500) -> Log:
    """Return an empty log."""
    return Log(np.zeros(1, np.int64), np.zeros(size, RECORD))


def scratch_of(state: State, found: Passes, params: Params) -> Scratch:
    """Return the scratch of a step whose passes are done."""
    return new_scratch(state, params, 1)._replace(**found._asdict())


def written(log: Log) -> list[tuple]:
    """Return what a log holds: (kind, part, source, term, unit, second)."""
    names = ["part", "source", "term", "unit", "second"]
    return [
        (KIND_NAMES[event["kind"]], *event[names].item()) for event in log.events[: log.written[0]]
    ]


def edges_of(network: Network) -> dict[int, tuple[int, int]]:
    """Return {edge: (source, term)}."""
    return {
        e: (int(edge["source"]), int(edge["term"]))
        for e, edge in enumerate(network.edges)
        if edge["source"] >= 0
    }


def parity(n):
    """Return all corners of a cube of side 2 around 0, and whether a corner's +1 are odd."""
    X = np.array(list(itertools.product([-1.0, 1.0], repeat=n)))
    return X, ((X > 0).sum(axis=1) % 2)[:, None].astype(float)


def split(signal, n_classes):
    """Return the classes, one column each, that equal parts of a signal's range of ranks are."""
    rank = np.argsort(np.argsort(signal))
    return np.eye(n_classes)[rank * n_classes // len(signal)]


def curved_classes(n=150, n_inputs=5, n_classes=2, seed=0):
    """Return noisy classes of which a product of two inputs tells more than any one."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_inputs))
    signal = X[:, 0] * X[:, 1] + 0.5 * X[:, 2] + 0.2 * rng.normal(size=n)
    return X, split(signal, n_classes)


def voted_classes(n=200, n_inputs=12, n_classes=2, seed=0):
    """Return classes to which every input adds a little: more edges than a limit will allow."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_inputs))
    signal = X @ np.linspace(0.3, 1.0, n_inputs) + X[:, -1] * X[:, -2]
    return X, split(signal, n_classes)


class FixedSeed(np.random.RandomState):
    """A generator that draws one given seed."""

    def __init__(self, seed):
        super().__init__(0)
        self.drawn = seed

    def randint(self, *_, **__):
        return self.drawn
