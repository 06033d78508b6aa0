"""Models for tests of pictures: a network with a random history, and a continual learner."""

import numpy as np
from sklearn.datasets import load_digits

from dirad import DIRADClassifier, PREVALClassifier
from dirad.core.network import MODULATORY, N_EDGES, N_UNITS, SOFTMAX, new_network
from dirad.history import (
    EDGE,
    EDGE_REMOVED,
    ENC,
    NODE_REMOVED,
    PHASE,
    RECORD,
    SETTLING,
    STABLE,
    History,
)


class RandomGrowth:
    """Adds, converts and removes edges at random; ranks of nodes keep the network acyclic."""

    def __init__(self, n_inputs, n_outputs, seed):
        self.rng = np.random.default_rng(seed)
        self.n_inputs, self.n_outputs = n_inputs, n_outputs
        self.edges = {}  # number -> (source, term)
        self.rank = dict.fromkeys(range(n_inputs), 0.0)
        self.rank |= dict.fromkeys(range(n_inputs, n_inputs + n_outputs), 1.0)
        self.n_units = n_outputs
        self.rows = []
        self.sizes = []  # (edges, hidden) after each step

    def free_number(self):
        return next(i for i in range(len(self.edges) + 1) if i not in self.edges)

    def hidden(self):
        return [n for n in self.rank if n >= self.n_inputs + self.n_outputs]

    def add_edge(self):
        """Add an edge between two nodes that have none."""
        while True:
            target = int(self.rng.choice([n for n in self.rank if n >= self.n_inputs]))
            source = int(
                self.rng.choice([n for n, r in self.rank.items() if r < self.rank[target]])
            )
            modulatory = target >= self.n_inputs + self.n_outputs
            term = 2 * (target - self.n_inputs) + int(modulatory and self.rng.random() < 0.6)
            if (source, term) not in self.edges.values():
                break
        e = self.free_number()
        self.edges[e] = (source, term)
        self.record(EDGE, e, source, term)

    def insert_node(self):
        """Insert a node into an edge."""
        e = int(self.rng.choice(list(self.edges)))
        source, term = self.edges[e]
        unit, self.n_units = self.n_units, self.n_units + 1
        node = self.n_inputs + unit
        self.rank[node] = (self.rank[source] + self.rank[self.n_inputs + term // 2]) / 2
        self.edges[e] = (node, term)
        second = self.free_number()
        self.edges[second] = (source, 2 * unit)
        self.record(ENC, e, node, term, unit, second)

    def remove_edge(self):
        """Remove an edge out of an input."""
        some = [e for e, (source, _) in self.edges.items() if source < self.n_inputs]
        e = int(self.rng.choice(some))
        source, term = self.edges.pop(e)
        self.record(EDGE_REMOVED, e, source, term)

    def remove_node(self):
        """Remove a hidden node with all its edges."""
        hidden = self.hidden()
        if not hidden:
            return
        node = int(self.rng.choice(hidden))
        for e, (source, term) in list(self.edges.items()):
            if node in (source, self.n_inputs + term // 2):
                del self.edges[e]
                self.record(EDGE_REMOVED, e, source, term)
        del self.rank[node]
        self.record(NODE_REMOVED, -1, unit=node - self.n_inputs)

    def record(self, kind, part, source=-1, term=-1, unit=-1, second=-1):
        self.rows.append((len(self.sizes), kind, part, source, term, unit, second, 0.0))

    def history(self):
        error = 2.3 * np.exp(-np.arange(len(self.sizes)) / 200) + 0.02
        edges, hidden = np.array(self.sizes, np.int64).reshape(-1, 2).T
        return History(np.array(self.rows, RECORD), error, edges, hidden)

    def network(self):
        network = new_network(
            self.n_inputs, self.n_outputs, SOFTMAX, self.n_units, max(self.edges, default=-1) + 1
        )
        network.counts[N_UNITS], network.counts[N_EDGES] = self.n_units, len(network.edges)
        for node in self.hidden():
            network.units["kind"][node - self.n_inputs] = MODULATORY
        for e, (source, term) in self.edges.items():
            network.edges["source"][e] = source
            network.edges["term"][e] = term
            network.edges["weight"][e] = self.rng.normal()
        return network


def grown_classifier(n_inputs, n_outputs, n_edges, n_events, seed=0, hidden=25):
    """Return an unfitted classifier with the given numbers of edges and events."""
    growth = RandomGrowth(n_inputs, n_outputs, seed)
    margin = min(60, n_events // 4)  # events reserved for reaching the number of edges
    while len(growth.rows) < n_events - 1:
        missing = n_edges - len(growth.edges)
        spare = n_events - 1 - len(growth.rows) - missing  # events that need not be new edges
        chance = growth.rng.random()
        if spare <= 0:
            growth.add_edge()
        elif missing < 0 or (chance < 0.3 and growth.edges and spare > margin):
            growth.remove_edge()
        elif missing == 0 and spare <= margin:
            growth.record(PHASE, SETTLING)
        elif chance < 0.4 and growth.edges and len(growth.hidden()) < hidden and spare > margin:
            growth.insert_node()
        elif chance < 0.42 and spare > 2 * margin:
            growth.remove_node()
        else:
            growth.add_edge()
        growth.sizes.append((len(growth.edges), len(growth.hidden())))
    growth.record(PHASE, STABLE)
    growth.sizes.append(growth.sizes[-1])
    model = DIRADClassifier()
    model.network_, model.history_ = growth.network(), growth.history()
    model.classes_ = np.arange(n_outputs)
    model.n_features_in_ = n_inputs
    model.feature_importances_ = np.full(n_inputs, 1.0 / n_inputs)
    model.input_mean_ = np.zeros(model.n_features_in_)
    model.input_spread_ = np.ones(model.n_features_in_)
    model.n_steps_ = len(growth.sizes)
    model.n_edges_, model.n_hidden_ = model.network_.n_edges, model.network_.n_hidden
    model.n_parameters_ = model.network_.n_parameters
    return model


def digits():
    """Return shuffled images of 8 × 8 pixels in [0, 1], and their digits."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order] / 16, y[order]


def continual_classifier():
    """Return a classifier that learned 300 samples of 0 and 1, of 2 and 3, of 0 and 1 again."""
    X, y = digits()
    model = PREVALClassifier(batch_size=100, begin=100, random_state=0)
    for task in (0, 1, 0):
        some = np.flatnonzero(y // 2 == task)[:300]
        model.partial_fit(X[some], y[some])
    return model.finish()
