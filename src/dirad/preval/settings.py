"""The constants of PREVAL, with the paper's symbols, and the two presets."""

import dataclasses
from dataclasses import dataclass, field, fields
from typing import Any

from dirad.params import Params, preset
from dirad.preval.connectivity import CONNECTIVITY


@dataclass(frozen=True)
class Settings:
    """Chosen before a system begins, constant while it lives. Defaults are the paper's."""

    l0: Params = field(default_factory=lambda: preset("paper"))
    l1: Params = field(default_factory=lambda: preset("paper"))

    # --- L1
    connectivity: str = "strict"  # which nodes may predict which
    T_CP: float = 0.10  # T_CP: mean error below which a node is confidently predicted

    # --- validation
    T_conf: float = 1.5  # T_conf: a node is conflicted above μ + T_conf·σ
    T_SV: float = 0.01  # T_SV: share of conflicted nodes from which a sample is invalid
    epsilon_IS: float = 0.2  # ε_IS: margin on R_IS up to which a batch is validated
    false_alarms: float = 1e-4  # ours: chance that a batch of a known task is taken for new

    # --- the stream
    standardize: bool = False  # inputs and states, by their mean and spread, instead of [0, 1]
    buffer_size: int = 0  # samples of the task at hand that are kept; 0: a batch is one step
    begin: int = 0  # samples of a new task that are collected before the first step
    steps_per_batch: int = 1  # steps after each batch
    held_out: float = 0.0  # share of the buffer that calibrates and is not fitted to

    def __post_init__(self) -> None:
        if self.connectivity not in CONNECTIVITY:
            raise ValueError(
                f"connectivity must be one of {CONNECTIVITY}, got {self.connectivity!r}"
            )
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, (int, float)) and not 0 <= value < float("inf"):
                raise ValueError(f"{item.name} must be finite and not negative, got {value!r}")
        if 0 < self.buffer_size < self.l0.batch_size:
            raise ValueError(
                f"buffer_size must hold a batch of {self.l0.batch_size}, got {self.buffer_size}"
            )
        if self.begin > self.buffer_size:
            raise ValueError(
                f"begin must not exceed buffer_size = {self.buffer_size}, got {self.begin}"
            )
        if not 0 < self.false_alarms < 1:
            raise ValueError(f"false_alarms must be between 0 and 1, got {self.false_alarms!r}")
        if self.steps_per_batch < 1:
            raise ValueError(f"steps_per_batch must be at least 1, got {self.steps_per_batch!r}")
        if not 0 <= self.held_out < 1:
            raise ValueError(f"held_out must be in [0, 1), got {self.held_out!r}")

    def replace(self, **changes: Any) -> "Settings":
        """Return a copy with some constants changed; an unknown name is an error."""
        known = [item.name for item in fields(self)]
        for name in changes:
            if name not in known:
                raise TypeError(f"unknown setting {name!r}; known: {', '.join(sorted(known))}")
        return dataclasses.replace(self, **changes)


PRESETS: dict[str, Settings] = {
    "paper": Settings(),
    "default": Settings(
        l0=preset("default", max_edges=100, settle_steps=1500, max_steps=6000),
        l1=preset(
            "default",
            cost="squared",
            gamma=0.01,
            max_edges=80,
            growth_rate=0.2,
            overshoot=1.0,
            swaps=0,
            breadth=0,
            product_order=2,
            growth_batch=2000,
            settle_steps=500,
            max_steps=2500,
        ),
        standardize=True,
        buffer_size=10_000,
        begin=2000,
        steps_per_batch=100,
        held_out=0.2,
    ),
}
