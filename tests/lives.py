"""Lives for pictures: a made-up network with many events, and a learner of a short stream."""

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


class Life:
    """Adds, converts and removes edges at random; ranks between 0 and 1 keep it acyclic."""

    def __init__(self, n_inputs, n_outputs, seed):
        self.rng = np.random.default_rng(seed)
        self.n_inputs, self.n_outputs = n_inputs, n_outputs
        self.edges = {}  # place -> (source, term)
        self.rank = dict.fromkeys(range(n_inputs), 0.0)
        self.rank |= dict.fromkeys(range(n_inputs, n_inputs + n_outputs), 1.0)
        self.n_units = n_outputs
        self.rows = []
        self.sizes = []  # (edges, hidden) after each step

    def place(self):
        return next(i for i in range(len(self.edges) + 1) if i not in self.edges)

    def hidden(self):
        return [n for n in self.rank if n >= self.n_inputs + self.n_outputs]

    def grow(self):
        """Place an edge between two nodes that have none yet."""
        while True:
            target = int(self.rng.choice([n for n in self.rank if n >= self.n_inputs]))
            source = int(
                self.rng.choice([n for n, r in self.rank.items() if r < self.rank[target]])
            )
            modulatory = target >= self.n_inputs + self.n_outputs
            term = 2 * (target - self.n_inputs) + int(modulatory and self.rng.random() < 0.6)
            if (source, term) not in self.edges.values():
                break
        e = self.place()
        self.edges[e] = (source, term)
        self.note(EDGE, e, source, term)

    def convert(self):
        """Put a new node on an edge."""
        e = int(self.rng.choice(list(self.edges)))
        source, term = self.edges[e]
        unit, self.n_units = self.n_units, self.n_units + 1
        node = self.n_inputs + unit
        self.rank[node] = (self.rank[source] + self.rank[self.n_inputs + term // 2]) / 2
        self.edges[e] = (node, term)
        second = self.place()
        self.edges[second] = (source, 2 * unit)
        self.note(ENC, e, node, term, unit, second)

    def remove(self):
        """Remove an edge out of an input."""
        some = [e for e, (source, _) in self.edges.items() if source < self.n_inputs]
        e = int(self.rng.choice(some))
        source, term = self.edges.pop(e)
        self.note(EDGE_REMOVED, e, source, term)

    def bury(self):
        """Remove a hidden node with all its edges."""
        hidden = self.hidden()
        if not hidden:
            return
        node = int(self.rng.choice(hidden))
        for e, (source, term) in list(self.edges.items()):
            if node in (source, self.n_inputs + term // 2):
                del self.edges[e]
                self.note(EDGE_REMOVED, e, source, term)
        del self.rank[node]
        self.note(NODE_REMOVED, -1, unit=node - self.n_inputs)

    def note(self, kind, part, source=-1, term=-1, unit=-1, second=-1):
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


def lived(n_inputs, n_outputs, n_edges, n_events, seed=0, hidden=25):
    """Return a classifier with exactly so many edges and events, none of which was fitted."""
    life = Life(n_inputs, n_outputs, seed)
    margin = min(60, n_events // 4)  # events kept for coming to the number of edges in the end
    while len(life.rows) < n_events - 1:
        lacks = n_edges - len(life.edges)
        spare = n_events - 1 - len(life.rows) - lacks  # events that need not be new edges
        chance = life.rng.random()
        if spare <= 0:
            life.grow()
        elif lacks < 0 or (chance < 0.3 and life.edges and spare > margin):
            life.remove()
        elif lacks == 0 and spare <= margin:
            life.note(PHASE, SETTLING)
        elif chance < 0.4 and life.edges and len(life.hidden()) < hidden and spare > margin:
            life.convert()
        elif chance < 0.42 and spare > 2 * margin:
            life.bury()
        else:
            life.grow()
        life.sizes.append((len(life.edges), len(life.hidden())))
    life.note(PHASE, STABLE)
    life.sizes.append(life.sizes[-1])
    model = DIRADClassifier()
    model.network_, model.history_ = life.network(), life.history()
    model.classes_ = np.arange(n_outputs)
    model.n_features_in_ = n_inputs
    model.feature_importances_ = np.full(n_inputs, 1.0 / n_inputs)
    model.input_spread_ = np.ones(model.n_features_in_)
    model.n_steps_ = len(life.sizes)
    model.n_edges_, model.n_hidden_ = model.network_.n_edges, model.network_.n_hidden
    model.n_parameters_ = model.network_.n_parameters
    return model


def digits():
    """Return images of 8 × 8 pixels in [0, 1], and their digits, in no order."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order] / 16, y[order]


def streamed():
    """Return a learner that was shown 300 samples each of 0 and 1, 2 and 3, 0 and 1 again."""
    X, y = digits()
    model = PREVALClassifier(batch_size=100, begin=100, random_state=0)
    for task in (0, 1, 0):
        some = np.flatnonzero(y // 2 == task)[:300]
        model.partial_fit(X[some], y[some])
    return model.finish()
