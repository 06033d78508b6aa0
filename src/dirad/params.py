"""Every constant of the method, with its symbol in the paper, and the two presets.

`paper` is the paper plus a reading of each point that it leaves open; `default` is our own.
`docs/deviations.md` tells why each reading was chosen.
"""

import dataclasses
from collections import namedtuple
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import numpy as np

# Text choices and the numbers by which kernels know them.
CHOICES: dict[str, tuple[str, ...]] = {
    "cost": ("squared", "cross-entropy"),
    "optimizer": ("sgd", "adam"),
    "ordering": ("v1", "unrestricted", "gain"),
    "K_rule": ("decay", "decay-signed", "follow", "constant"),
    "ties": ("first", "random"),
    "precision": ("float32", "float64"),
}


def check_constants(record: Any, choices: Mapping[str, tuple[str, ...]]) -> None:
    """Refuse a dataclass whose constants are no choice, not whole, not finite or negative."""
    for name, allowed in choices.items():
        if getattr(record, name) not in allowed:
            raise ValueError(f"{name} must be one of {allowed}, got {getattr(record, name)!r}")
    for field in fields(record):
        if field.type not in (int, float, bool):
            continue
        name, value = field.name, getattr(record, field.name)
        if not isinstance(value, (int, float, np.number)):
            raise TypeError(f"{name} must be a number, got {value!r}")
        if not abs(value) < float("inf"):  # nor NaN
            raise ValueError(f"{name} must be finite, got {value!r}")
        if value < 0:
            raise ValueError(f"{name} must not be negative, got {value!r}")
        if field.type is int and value != int(value):
            raise ValueError(f"{name} must be a whole number, got {value!r}")


def replaced(record: Any, changes: Mapping[str, Any]) -> Any:
    """Return a copy of a dataclass with some constants changed; an unknown name is an error."""
    known = {field.name for field in fields(record)}
    for name in changes:
        if name not in known:
            raise TypeError(f"unknown constant {name!r}; known: {', '.join(sorted(known))}")
    return dataclasses.replace(record, **changes)


@dataclass(frozen=True)
class Params:
    """The constants of one network. Defaults are those of the paper."""

    # --- adaptation of parameters
    gamma: float = 2.0  # γ: step size of parameter adaptation
    batch_size: int = 100  # N_m: samples in a batch, which changes every step
    acceptable_mismatch: float = 0.01  # |a − ŷ| below which the error of an output counts as 0
    perturbation: float = 0.05  # noise on ∂Cᵐ/∂w of zero weights, as a share of |∂Cᵐ/∂w|
    cost: str = "squared"  # C: ½Σ(a−ŷ)², or the cross-entropy of the outputs
    optimizer: str = "sgd"  # w ← w − γ·∂C/∂w, or Adam with γ as its rate
    momentum: float = 0.9  # Adam's β₁
    scale_memory: float = 0.99  # Adam's β₂
    prior: float = 0.0  # precision of a Gaussian prior on weights: adds prior·w/n to the gradient

    # --- exhaustion
    delta_min: float = 0.01  # δ_min: deltas below it count as 0 in potentials
    R1: float = 5.0  # R₁: an edge is exhausted if R₁·|net| < (total + |net|)/2
    R2: float = 0.1  # R₂: or if |net| < R₂·|w|

    # --- generative processes
    ordering: str = "v1"  # which process goes first: Algorithm 1, none, or gain per edge
    enc: bool = True  # is edge-node conversion allowed?
    k_w: float = 1.0  # k_w: ENC makes weights k_w·w (out) and 1/k_w (in)
    K_rule: str = "decay-signed"  # how K changes after ENC
    K_decay: float = 0.1  # K(t+1) = K(t)·(1 − 0.1) + 0.1·K_final
    K_final: float = 1.0  # K_final
    refraction: int = 5  # steps after a process in which the parts it changed undergo no other
    outputs_as_sources: bool = False  # may an output feed other nodes?
    ties: str = "random"  # which of several equally good sources is chosen
    fresh_first: bool = True  # a new node's term 1 gets its edge before anything is converted
    perturbation_in_exhaustion: bool = False  # does the noise enter the exhaustion test?

    # --- destructive processes
    protection: int = 5  # steps for which a new edge is safe from removal
    node_removal: float = 0.3  # probability per step that a node without out-edges is removed

    # --- stabilization
    patience: int = 50  # steps without a decrease of the error until a network is stable
    error_smoothing: float = 1.0  # weight of the newest batch in the error that patience uses
    settle_steps: int = 0  # steps after growth, from the best snapshot, with γ falling to 0

    # --- our own growth (ordering = "gain")
    interval: int = 25  # steps between two rounds of growth
    growth_batch: int = 2000  # samples on which a round's candidates are compared
    growth_rate: float = 0.1  # edges added per round, as a share of all edges (at least one)
    significance: float = 0.05  # share of a term's edges that noise may have grown
    breadth: int = 0  # samples per input below which all significant sources grow at once
    product_order: int = 10  # largest number of factors in a product of sources
    product_budget: int = 20000  # largest number of products of one length that are tried
    edge_price: float = 0.0  # description length of an edge in ½·ln(samples): 1 is BIC; 0: none
    gates: bool = False  # are nodes with a scanned threshold among the candidates?
    first_gate: int = 0  # of two sources that are multiplied, one is this node or a later one
    gate_floor: float = 0.0  # |w| below which ENC partly closes the gate (0: the paper's ENC)
    term_0_bias: bool = False  # may term 0 of a modulatory node have a bias?
    overshoot: float = 1.0  # grow to this many times max_edges, then fade the weakest out
    swaps: int = 0  # rounds in which the weakest edges are exchanged for better ones
    swap_share: float = 0.2  # share of edges exchanged in the first of them
    fading: float = 0.7  # factor per step on the weight of an edge that is being removed

    # --- nodes shared by several outputs (ordering = "gain", where max_edges is given)
    shared_nodes: int = 0  # most nodes of the layer that all outputs share; 0: no such layer
    thinning_steps: int = 16_000  # steps in which its edges are thinned to max_edges
    thinning_gamma: float = 0.01  # γ at the first of them; it falls to 0
    thinning_prior: float = 10.0  # `prior` meanwhile
    input_noise: float = 0.4  # on the inputs meanwhile, in standard deviations

    # --- limits and arithmetic
    max_edges: int = 1_000_000  # growth stops here
    max_hidden: int = 1_000_000
    max_steps: int = 5000  # a network is stable then at the latest
    precision: str = "float32"  # of states and deltas while adapting; parameters are float64

    def __post_init__(self) -> None:
        check_constants(self, CHOICES)
        for name in ("batch_size", "interval", "growth_batch", "max_steps", "gamma", "k_w"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)!r}")

    def replace(self, **changes: Any) -> "Params":
        """Return a copy with some constants changed; an unknown name is an error."""
        return replaced(self, changes)

    def constants(self) -> "Constants":
        """Return the same as plain numbers, for kernels."""
        return _constants(self)


Constants = namedtuple("Constants", [field.name for field in fields(Params)])


@lru_cache(maxsize=1024)  # thousands of networks have the same
def _constants(params: Params) -> Constants:
    values = []
    for field in fields(params):
        value = getattr(params, field.name)
        if field.name in CHOICES:
            value = CHOICES[field.name].index(value)
        values.append(float(value) if field.type in (float, "float") else int(value))
    return Constants(*values)


PRESETS: dict[str, Params] = {
    "paper": Params(),
    "default": Params(
        gamma=0.03,
        perturbation=0.0,
        cost="cross-entropy",
        optimizer="adam",
        prior=1.0,
        batch_size=200,
        ordering="gain",
        K_rule="constant",
        ties="first",
        node_removal=1.0,
        significance=0.3,
        breadth=50,
        growth_batch=10_000,
        gate_floor=1.0,
        edge_price=0.7,
        gates=True,
        term_0_bias=True,
        overshoot=2.0,
        swaps=8,
        shared_nodes=100,
        settle_steps=4000,
        max_steps=20_000,
    ),
}


def preset(name: str, **changes: Any) -> Params:
    """Return a preset by name, with some constants changed.

    >>> preset("paper").gamma
    2.0
    >>> preset("paper", R1=3).R1
    3
    """
    if name not in PRESETS:
        raise ValueError(f"preset must be one of {sorted(PRESETS)}, got {name!r}")
    return PRESETS[name].replace(**changes)
