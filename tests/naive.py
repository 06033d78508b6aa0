"""Slow twins of the kernels: plain lists and loops, one sample at a time.

Nothing here comes from the package, so no shared fault can pass. A network is a `Net`; states and
deltas are dictionaries of one sample. Nodes, units, terms and edges are numbered as in the
package: node s is input s, or unit s − n_inputs; term t of unit u is 2u + t.
"""

import itertools
import math
from dataclasses import dataclass, field

import numpy as np

# ------------------------------------------------------------------ the network


@dataclass
class Unit:
    kind: str  # "output" or "modulatory"
    bias: list  # of term 0, of term 1
    gain: float = 1.0  # K
    output: int = -1  # column of the target
    frozen: bool = False
    rest: int = -(10**9)  # in refraction until this step


@dataclass
class Edge:
    source: int
    term: int
    weight: float
    frozen: bool = False
    rest: int = -(10**9)


@dataclass
class Net:
    n_inputs: int
    transfer: str  # "logistic", "linear" or "softmax"
    units: dict = field(default_factory=dict)  # number -> Unit
    edges: dict = field(default_factory=dict)  # number -> Edge
    usable: list = field(default_factory=list)


def terms_of(net, u):
    return [2 * u] if net.units[u].kind == "output" else [2 * u, 2 * u + 1]


def in_edges(net, term):
    return [e for e in sorted(net.edges) if net.edges[e].term == term]


def out_edges(net, u):
    return [e for e in sorted(net.edges) if net.edges[e].source == net.n_inputs + u]


def lowest_free(used):
    return next(i for i in itertools.count() if i not in used)


# ------------------------------------------------------------------ order


def reaches(net, u, v):
    """Is there a path from unit u to unit v? (Every unit reaches itself.)"""
    if u == v:
        return True
    return any(reaches(net, net.edges[e].term // 2, v) for e in out_edges(net, u))


def has_cycle(net):
    """Remove units without in-edges from units until nothing changes."""
    left = set(net.units)
    while True:
        free = {
            u
            for u in left
            if not any(
                net.edges[e].source - net.n_inputs in left
                for e in net.edges
                if net.edges[e].term // 2 == u
            )
        }
        if not free:
            return bool(left)
        left -= free


# ------------------------------------------------------------------ states


def logistic(z):
    return 1.0 / (1.0 + math.exp(-z)) if z >= 0 else math.exp(z) / (1.0 + math.exp(z))


def sigma_1(z, K):
    return 4.0 * logistic(K * z) - 1.0


def sigma_1_slope(z, K):
    p = logistic(K * z)
    return 4.0 * K * p * (1.0 - p)


def states(net, x):
    """Return (state of every node, activation z of every term) for one sample."""
    state = {s: float(x[s]) for s in range(net.n_inputs)}
    z = {}

    def value(s):
        if s not in state:
            u = s - net.n_inputs
            for t in terms_of(net, u):
                z[t] = net.units[u].bias[t % 2]
                for e in in_edges(net, t):
                    z[t] += net.edges[e].weight * value(net.edges[e].source)
            if net.units[u].kind == "modulatory":
                state[s] = z[2 * u] * sigma_1(z[2 * u + 1], net.units[u].gain)
            elif net.transfer == "logistic":
                state[s] = logistic(z[2 * u])
            else:
                state[s] = z[2 * u]
        return state[s]

    for u in net.units:
        value(net.n_inputs + u)
    if net.transfer == "softmax":
        outputs = [u for u in net.units if net.units[u].kind == "output"]
        top = max(z[2 * u] for u in outputs)
        total = sum(math.exp(z[2 * u] - top) for u in outputs)
        for u in outputs:
            state[net.n_inputs + u] = math.exp(z[2 * u] - top) / total
    return state, z


def cost_of_sample(net, state, y, cost):
    total = 0.0
    for u, unit in net.units.items():
        if unit.kind != "output":
            continue
        a, target = state[net.n_inputs + u], y[unit.output]
        if cost == "squared":
            total += 0.5 * (a - target) ** 2
            continue
        a = min(max(a, 1e-12), 1 - 1e-12)
        if net.transfer == "logistic":
            total -= target * math.log(a) + (1 - target) * math.log(1 - a)
        else:
            total -= target * math.log(a)
    return total


def mean_cost(net, X, Y, cost, weights):
    costs = [
        w * cost_of_sample(net, states(net, x)[0], y, cost)
        for x, y, w in zip(X, Y, weights, strict=True)
    ]
    return sum(costs) / sum(weights)


# ------------------------------------------------------------------ deltas


def deltas(net, state, z, y, cost, tolerance=0.0, weight=1.0):
    """Return δ = ∂C/∂z of every term for one sample."""
    delta = {}

    def of_unit(u):
        if 2 * u in delta:
            return
        pull = 0.0  # ∂C/∂a through the nodes it feeds
        for e in out_edges(net, u):
            of_unit(net.edges[e].term // 2)
            pull += net.edges[e].weight * delta[net.edges[e].term]
        unit, a = net.units[u], state[net.n_inputs + u]
        if unit.kind == "modulatory":
            z_0, z_1 = z[2 * u], z[2 * u + 1]
            delta[2 * u] = pull * sigma_1(z_1, unit.gain)
            delta[2 * u + 1] = pull * z_0 * sigma_1_slope(z_1, unit.gain)
            return
        mismatch = a - y[unit.output]
        if abs(mismatch) < tolerance:
            mismatch = 0.0
        slope = a * (1 - a) if net.transfer == "logistic" else 1.0
        # For cross-entropy with its own transfer, ∂C/∂a · σ′ is the mismatch itself.
        own = mismatch * slope if cost == "squared" else mismatch
        delta[2 * u] = weight * own + pull * slope

    for u in net.units:
        of_unit(u)
    return delta


def passes(net, X, Y, cost, tolerance=0.0, weights=None):
    """Return (list of states, list of deltas), one dictionary per sample."""
    weights = [1.0] * len(X) if weights is None else weights
    all_states, all_deltas = [], []
    for x, y, w in zip(X, Y, weights, strict=True):
        state, z = states(net, x)
        all_states.append(state)
        all_deltas.append(deltas(net, state, z, y, cost, tolerance, w))
    return all_states, all_deltas


# ------------------------------------------------------------------ potentials


def felt(delta, delta_min):
    return delta if abs(delta) >= delta_min else 0.0


def potential(per_sample, per_sample_felt, weight):
    """Return (gradient, net, total) from per-sample pulls."""
    return (
        sum(per_sample) / weight,
        sum(per_sample_felt) / weight,
        sum(abs(g) for g in per_sample_felt) / weight,
    )


def pulls_on_edge(net, e, all_states, all_deltas, delta_min=0.0):
    """Return ∂Cᵐ/∂w for every sample."""
    edge = net.edges[e]
    return [
        a[edge.source] * felt(d[edge.term], delta_min)
        for a, d in zip(all_states, all_deltas, strict=True)
    ]


def pulls_on_term(t, all_deltas, delta_min=0.0):
    """Return δᵐ for every sample."""
    return [felt(d[t], delta_min) for d in all_deltas]


def conflicted(pulls, weight, R1):
    """∃ direction: R₁·|net| < |mean of the pulls in that direction|."""
    net = abs(sum(pulls) / weight)
    up = abs(sum(g for g in pulls if g > 0) / weight)
    down = abs(sum(g for g in pulls if g < 0) / weight)
    return R1 * net < up or R1 * net < down


def edge_exhausted(pulls, weight, w, R1, R2):
    if all(g == 0 for g in pulls):
        return True
    return conflicted(pulls, weight, R1) or abs(sum(pulls) / weight) < R2 * abs(w)


def bias_exhausted(pulls, weight, delta_min, R1):
    if all(d == 0 for d in pulls):
        return True
    return abs(sum(pulls) / weight) < delta_min or conflicted(pulls, weight, R1)


# ------------------------------------------------------------------ Algorithm 1


class NearTie(Exception):
    """Two numbers are so close that rounding may decide between them."""


def distinct(values):
    """Raise NearTie if the two largest of some positive numbers nearly agree."""
    top = sorted(values)[-2:]
    if len(top) == 2 and top[1] > 0 and top[1] - top[0] < 1e-5 * top[1]:
        raise NearTie


class V1:
    """Algorithm 1 on one batch. `events` lists what it did, in the numbers of the package."""

    def __init__(self, net, all_states, all_deltas, weight, now, params):
        self.net, self.states, self.now, self.p = net, all_states, now, params
        self.deltas, self.weight = all_deltas, weight
        self.events = []
        self.new_units, self.new_edges = set(), set()
        dm = params.delta_min
        self.edge_pulls = {e: pulls_on_edge(net, e, all_states, all_deltas, dm) for e in net.edges}
        self.term_pulls = {
            t: pulls_on_term(t, all_deltas, dm) for u in net.units for t in terms_of(net, u)
        }

    def edge_total(self, e):
        return 0.0 if e in self.new_edges else sum(abs(g) for g in self.edge_pulls[e])

    def term_total(self, t):
        return 0.0 if t // 2 in self.new_units else sum(abs(d) for d in self.term_pulls[t])

    def unit_total(self, u):
        return sum(self.term_total(t) for t in terms_of(self.net, u))

    def edge_is_exhausted(self, e):
        if e in self.new_edges:
            return True
        w = self.net.edges[e].weight
        return edge_exhausted(self.edge_pulls[e], self.weight, w, self.p.R1, self.p.R2)

    def term_is_exhausted(self, t):
        if t // 2 in self.new_units:
            return True
        has_bias = t % 2 == 1 or self.net.units[t // 2].kind == "output" or self.p.term_0_bias
        pulls = self.term_pulls[t]
        if has_bias and not bias_exhausted(pulls, self.weight, self.p.delta_min, self.p.R1):
            return False
        return all(self.edge_is_exhausted(e) for e in in_edges(self.net, t))

    def pathway_exhausted(self, target):
        return all(
            self.term_is_exhausted(t)
            for u in self.net.units
            if reaches(self.net, u, target)
            for t in terms_of(self.net, u)
        )

    def score(self, s, t):
        pairs = zip(self.states, self.deltas, strict=True)
        return abs(sum(a[s] * felt(d[t], self.p.delta_min) for a, d in pairs))

    def candidates(self, t):
        net = self.net
        result = [s for s in range(net.n_inputs) if net.usable[s]]
        for u in sorted(net.units):
            if u in self.new_units or reaches(net, t // 2, u):
                continue  # a node made in this very step has no state yet
            if net.units[u].kind == "output" and not self.p.outputs_as_sources:
                continue
            result.append(net.n_inputs + u)
        feeding = {net.edges[e].source for e in in_edges(net, t)}
        return [s for s in result if s not in feeding]

    def generate(self, t):
        net, unit = self.net, self.net.units[t // 2]
        if unit.frozen or unit.rest > self.now or self.term_total(t) <= 0:
            return False
        if not self.term_is_exhausted(t):
            return False
        scores = {s: self.score(s, t) for s in self.candidates(t)}
        if not scores or len(net.edges) + 1 > self.p.max_edges:
            return False
        distinct(scores.values())
        s = max(scores, key=lambda s: (scores[s], -s))
        e = lowest_free(net.edges)
        net.edges[e] = Edge(s, t, 0.0, rest=self.now + self.p.refraction)
        self.new_edges.add(e)
        unit.rest = self.now + self.p.refraction
        self.events.append(("edge", e, s, t, -1, -1))
        return True

    def convert(self, e):
        net, edge = self.net, self.net.edges[e]
        if not self.p.enc or edge.frozen or edge.rest > self.now:
            return False
        if edge.weight == 0 and self.p.gate_floor == 0:
            return False
        hidden = sum(unit.kind == "modulatory" for unit in net.units.values())
        if len(net.edges) + 1 > self.p.max_edges or hidden + 1 > self.p.max_hidden:
            return False
        if self.edge_total(e) <= 0 or not self.edge_is_exhausted(e):
            return False
        k, first = lowest_free(net.units), lowest_free(net.edges)
        rest = self.now + self.p.refraction
        net.units[k] = Unit("modulatory", [0.0, 0.0], math.nan, rest=rest)
        net.edges[first] = Edge(edge.source, 2 * k, 1.0, rest=rest)
        edge.source, edge.rest = net.n_inputs + k, rest
        net.units[edge.term // 2].rest = rest
        self.new_units.add(k)
        self.new_edges.add(first)
        self.events.append(("ENC", e, edge.source, edge.term, k, first))
        return True

    def grow_once_on_pathway(self, target):
        net, current, done = self.net, target, set()
        while True:
            modulatory = net.units[current].kind == "modulatory"
            if self.p.fresh_first and modulatory and not in_edges(net, 2 * current + 1):
                return self.generate(2 * current + 1)
            edges = [e for t in terms_of(net, current) for e in in_edges(net, t)]
            totals = {e: self.edge_total(e) for e in edges if e not in done}
            totals = {e: total for e, total in totals.items() if total > 0}
            if not totals:
                terms = sorted(terms_of(net, current), key=self.term_total, reverse=True)
                distinct([self.term_total(t) for t in terms])
                return any(self.generate(t) for t in terms)
            distinct(totals.values())
            e = max(totals, key=totals.__getitem__)
            done.add(e)
            source = net.edges[e].source - net.n_inputs
            if source >= 0 and self.unit_total(source) > 0:
                current = source
            elif self.convert(e):
                return True

    def run(self):
        targets = [u for u, unit in self.net.units.items() if unit.kind == "output"]
        targets = [u for u in targets if not self.net.units[u].frozen]
        totals = sorted(self.term_total(2 * u) for u in targets)
        for a, b in itertools.pairwise(totals):
            distinct([a, b])
        for u in sorted(targets, key=lambda u: -self.term_total(2 * u)):
            if self.pathway_exhausted(u):
                self.grow_once_on_pathway(u)
        return self.events


# ------------------------------------------------------------------ evidence


def evidence(score, variance, n):
    share = min(score**2 / (variance * n), 1 - 1e-12) if variance > 0 else 0.0
    return -n * math.log(1 - share)


def fisher(own, delta, ridge=1e-6):
    """F = Σ (δᵐ)² x xᵀ of the parameters whose sources are the rows of `own`."""
    F = np.einsum("im,m,jm->ij", own, delta**2, own)
    return F + np.eye(len(F)) * (ridge * max(np.diag(F), default=0.0) + 1e-30)


def efficient_deltas(own, delta):
    """δ̃ = δ − δ²·Σ βₑxₑ, β = F⁻¹ Σ xδ."""
    if len(own) == 0:
        return delta
    return delta - delta**2 * (np.linalg.solve(fisher(own, delta), own @ delta) @ own)


def source_evidence(own, delta, p):
    """G of the candidate p for a term with deltas `delta`, fed by the rows of `own` already."""
    variance = np.sum((p * delta) ** 2)
    left = variance
    if len(own):
        cross = own @ (delta**2 * p)
        left = variance - cross @ np.linalg.solve(fisher(own, delta), cross)
    if left < 1e-4 * variance:
        return 0.0
    return evidence(p @ efficient_deltas(own, delta), left, len(delta))


def product_evidence(own, delta, sources):
    """G of the product of some sources; its variance is not projected."""
    p = np.prod(sources, axis=0)
    return evidence(p @ efficient_deltas(own, delta), np.sum((p * delta) ** 2), len(delta))


def saliency(own, delta, i, w):
    """½·w²/[F⁻¹]ᵢᵢ."""
    return 0.5 * w**2 / np.linalg.inv(fisher(own, delta))[i, i]


# ------------------------------------------------------------------ thinning


def edges_left(net, spread, keep, fading):
    """Return the `keep` edges of the largest |w|·(deviation of the source) that do not fade."""
    found = [e for e in net.edges if e not in fading]
    found.sort(key=lambda e: -abs(net.edges[e].weight) * spread[net.edges[e].source])
    return set(found[:keep])


def possible_edges(net, all_states, all_deltas):
    """Return {(source, term): G} of every edge that a round of thinning may add."""
    found = {}
    for u, unit in net.units.items():
        sources = [s for s in range(net.n_inputs) if net.usable[s]]
        if unit.kind == "output":
            sources += [net.n_inputs + v for v, one in net.units.items() if one.kind != "output"]
        for t in terms_of(net, u):
            delta = np.array([one[t] for one in all_deltas])
            for s in sources:
                if all((e.source, e.term) != (s, t) for e in net.edges.values()):
                    row = np.array([one[s] for one in all_states])
                    found[s, t] = product_evidence([], delta, [row])
    return found


def noisy(row, size, seed, purpose, step, s):
    """Return an input's row with ±size added to every sample, a random bit each."""
    words = -(-len(row) // 64)
    result = []
    for m, x in enumerate(row):
        bit = bits(seed, purpose, step, s * words + m // 64) >> (m % 64) & 1
        result.append(x - size if bit else x + size)
    return result


# ------------------------------------------------------------------ how parameters move


def adam(gradients, rate, momentum, scale_memory):
    """Return the total change of a parameter that meets these gradients from its birth on."""
    mean = square = change = 0.0
    for t, g in enumerate(gradients, start=1):
        mean = momentum * mean + (1 - momentum) * g
        square = scale_memory * square + (1 - scale_memory) * g * g
        scale = math.sqrt(square / (1 - scale_memory**t)) + 1e-8
        change -= rate * mean / (1 - momentum**t) / scale
    return change


def steps_until_stable(errors, smoothing, patience):
    """Return after how many steps no decrease of the smoothed error was seen for `patience`."""
    smoothed, best, since = 0.0, math.inf, 0
    for i, error in enumerate(errors):
        weight = max(smoothing, 1.0 / (i + 1))
        smoothed = (1 - weight) * smoothed + weight * error
        if smoothed < best:
            best, since = smoothed, 0
        else:
            since += 1
        if since >= patience:
            return i + 1
    return None


# ------------------------------------------------------------------ random numbers

MASK = (1 << 64) - 1


def mix(x):
    """splitmix64, one output."""
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def bits(*key):
    x = 0
    for i, part in enumerate(key):
        x = mix(part) if i == 0 else mix(x ^ part)
    return x


def uniform(*key):
    return (bits(*key) >> 11) / (1 << 53)


def shuffled(seed, purpose, step, n):
    order = list(range(n))
    base = bits(seed, purpose, step, 0)
    for i in range(n - 1, 0, -1):
        j = mix(base ^ i) % (i + 1)
        order[i], order[j] = order[j], order[i]
    return order


# ------------------------------------------------------------------ compact networks


def compact_outputs(net, x):
    """The output rows of a compact network for one sample of bytes, in Python's integers."""
    nodes = list(x)
    outputs = []
    z = 0
    for row in range(len(net.bias)):
        total = int(net.bias[row]) * 2**net.bias_shift
        for e in range(net.start[row], net.start[row + 1]):
            total += int(net.weight[e]) * nodes[net.source[e]]
        if row >= 2 * net.n_hidden:
            outputs.append(total)
        elif row % 2 == 0:
            z = total
        else:
            t = min(max(total * 64 // 2 ** int(net.gate_shift[row // 2]), -256), 256)
            sigma = 64 + t - t * abs(t) // 512
            state = z * sigma // 2 ** int(net.product_shift[row // 2])
            nodes.append(min(max(state, -32767), 32767))
    return outputs


def compact_loss(net, weight, bias, samples, targets, scale):
    """Mean cross-entropy of a compact network in real numbers, nothing rounded."""
    losses = []
    for x, target in zip(samples, targets, strict=True):
        nodes, logits, z = [float(v) for v in x], [], 0.0
        for row in range(len(bias)):
            total = float(bias[row])
            for e in range(net.start[row], net.start[row + 1]):
                total += float(weight[e]) * nodes[net.source[e]]
            if row >= 2 * net.n_hidden:
                logits.append(total * scale)
            elif row % 2 == 0:
                z = total
            else:
                t = min(max(total / 2.0 ** net.gate_shift[row // 2], -4.0), 4.0)
                nodes.append(z * (1 + t - t * abs(t) / 8) * 64 / 2.0 ** net.product_shift[row // 2])
        log_sum = math.log(sum(math.exp(v) for v in logits))
        losses.append(sum(float(p) * (log_sum - v) for p, v in zip(target, logits, strict=True)))
    return sum(losses) / len(losses)
