"""The constants of PREVAL, with the paper's symbols, and the two presets."""

from dataclasses import dataclass, field
from typing import Any

from dirad.params import Params, check_constants, preset, replaced
from dirad.preval.connectivity import CONNECTIVITY
from dirad.preval.targets import CLASSES, NUMBERS

BATCHES_OF_HALF = 500  # in which half of the false alarms of a whole stream are allowed for
MIN_SAMPLES_FOR_FULL_DECAY = 1600  # samples from which the weight decay of L0 is full
CHOICES = {
    "connectivity": CONNECTIVITY,
    "false_alarms_per": ("batch", "stream"),
    "error": ("squared", "absolute"),
    "models": ("separate", "shared"),
    "order_matters": ("auto", "yes", "no"),
    "prediction": ("sparse", "linear", "mean"),
    "score": ("squared", "modes", "conflicts"),
    "targets": (CLASSES, NUMBERS),
}


@dataclass(frozen=True)
class Settings:
    """The constants of a system, chosen before it starts. Defaults are the paper's."""

    l0: Params = field(default_factory=lambda: preset("paper"))
    l1: Params = field(default_factory=lambda: preset("paper"))

    # --- L1
    connectivity: str = "strict"  # which nodes may predict which
    error: str = "squared"  # E: (prediction − state)², or its absolute value
    T_CP: float = 0.10  # T_CP: mean error below which a node is confidently predicted
    modes: int = 0  # ours: most clusters of a class, each with predictors of its own; 0: one
    mode_samples: int = 80  # ours: least average number of samples per cluster
    near: float = 0.0  # ours: closest inputs that predict no input, per input beyond 200
    prediction: str = "sparse"  # ours: L1, or in its place "linear" regression or the "mean"
    score: str = "squared"  # ours: error that routes samples; "modes": of each cluster by itself
    ridge: float = 0.0  # ours: added to the variances from which L1's weights are solved for
    pooled: bool = False  # ours: may all models share a covariance that tells classes apart?

    # --- validation
    T_conf: float = 1.5  # T_conf: a node is conflicted above μ + T_conf·σ
    T_SV: float = 0.01  # T_SV: share of conflicted nodes from which a sample is invalid
    epsilon_IS: float = 0.2  # ε_IS: margin on R_IS up to which a batch is validated
    false_alarms: float = 1e-4  # ours: probability that what is known is called new
    false_alarms_per: str = "batch"  # ours: of any one batch, or ever in a "stream"
    labels_in_detection: bool = True  # ours: are errors of L0 evidence of a new task?

    # --- the stream
    targets: str = CLASSES  # ours: what L0 predicts, "classes" or "numbers"
    standardize: bool = False  # inputs and states by mean and deviation, instead of to [0, 1]
    buffer_size: int = 0  # stored samples of the current task; 0: one step per batch
    begin: int = 0  # samples of a new task that are collected before training
    steps_per_batch: int = 1  # steps after each batch
    held_out: float = 0.0  # share for calibration; of the first 200 samples at least a fifth
    order_matters: str = "auto"  # do samples depend on those before? "auto": found from the data
    too_few: int = 0  # fewer samples than this make no model when the stream ends
    models: str = "separate"  # or "shared": a new one grows on top of the frozen earlier ones
    max_models: int = 0  # beyond it, the model unused for longest is removed; 0: no limit
    max_versions: int = 0  # most corrections of a model that are kept as versions; 0: none
    merge_after: int = 0  # two models that both know this many samples are merged; 0: never

    def __post_init__(self) -> None:
        check_constants(self, CHOICES)
        if 0 < self.buffer_size < self.l0.batch_size:
            raise ValueError(
                f"buffer_size must hold a batch of {self.l0.batch_size}, got {self.buffer_size}"
            )
        if self.begin > self.buffer_size:
            raise ValueError(
                f"begin must not exceed buffer_size = {self.buffer_size}, got {self.begin}"
            )
        if not 0 <= self.false_alarms < 1:
            raise ValueError(f"false_alarms must be in [0, 1), got {self.false_alarms!r}")
        if self.steps_per_batch < 1:
            raise ValueError(f"steps_per_batch must be at least 1, got {self.steps_per_batch!r}")
        for name in ("held_out", "near"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be in [0, 1), got {getattr(self, name)!r}")

    def batch_rate(self, number: int) -> float:
        """Return the probability of a false alarm that is allowed for a batch, counted from 0.

        For a whole stream these add up to `false_alarms`, whatever its length: by the inequality of
        Boole, the probability that there is ever one is at most that.

        >>> rates = [PRESETS["default"].replace(false_alarms=0.1, false_alarms_per="stream")]
        >>> rates = [rates[0].batch_rate(number) for number in range(500)]
        >>> round(sum(rates), 4), rates[0] > rates[-1]
        (0.05, True)
        """
        if self.false_alarms_per == "batch":
            return self.false_alarms
        k = number + BATCHES_OF_HALF
        return self.false_alarms * BATCHES_OF_HALF / (k * (k + 1))

    def __deepcopy__(self, memo: dict[int, Any]) -> "Settings":
        return self  # immutable: copies share it

    def replace(self, **changes: Any) -> "Settings":
        """Return a copy with some constants changed; an unknown name is an error."""
        return replaced(self, changes)


def weight_decay_for(params: Params, n_samples: int) -> float:
    """Return the weight decay for a number of samples: in proportion to them while they are few."""
    return params.prior * min(1.0, n_samples / MIN_SAMPLES_FOR_FULL_DECAY)


PRESETS: dict[str, Settings] = {
    "paper": Settings(),
    "default": Settings(
        l0=preset(
            "default",
            prior=20.0,
            growth_batch=1000,
            shared_nodes=0,
            swaps=2,
            settle_steps=1000,
            max_steps=8000,
        ),
        l1=Params(max_edges=32),
        connectivity="apart",
        error="absolute",
        modes=20,
        mode_samples=30,
        near=0.025,
        score="modes",
        ridge=0.2,
        pooled=True,
        standardize=True,
        buffer_size=10_000,
        begin=200,
        steps_per_batch=1000,
        held_out=0.1,
        too_few=100,
        max_models=100,
        max_versions=8,
        merge_after=1000,
    ),
}

REGRESSION = PRESETS["default"].replace(  # the settings of a stream of numbers
    targets=NUMBERS, l0=PRESETS["default"].l0.replace(cost="squared", prior=1.0)
)
