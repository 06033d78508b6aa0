"""L0 of our models in training: outputs are added as classes appear."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dirad.core.network import LINEAR, LOGISTIC, Network
from dirad.growth.adapt import Adaptation, WorkspacePool, new_data
from dirad.growth.state import N_SAMPLES, new_state, with_output
from dirad.history import History
from dirad.preval.buffer import MIN_SAMPLES_TO_HOLD_OUT
from dirad.preval.frozen_base import grow_on_top_of
from dirad.preval.settings import Settings, weight_decay_for
from dirad.preval.targets import NUMBERS, TargetScaling, class_codes

# With many inputs, thresholds on single ones add little to products of them, and a bound on the
# edges ends growth sooner than their price does.
MANY_INPUTS, MAX_EDGES_OF_MANY_INPUTS, SETTLE_STEPS_OF_MANY_INPUTS = 100, 100, 300
REGROW_FACTOR = 2  # times as many labels as at its start, for which L0 is grown again
# In the middle of a task; of many inputs, the clusters of L1 tell the classes apart as well.
RESTART_FACTOR_OF_MANY_INPUTS = 32


@dataclass
class L0Training:
    """A network that is trained on the labelled samples at hand."""

    adaptation: Adaptation
    first_output: int  # outputs before it belong to the model that this one is built on
    classes: list[int] = field(default_factory=list)  # of each output from there on
    labels_at_start: int = 0  # labelled samples when the training began
    history: History = field(default_factory=History)
    target_scaling: TargetScaling | None = None  # of numbers; None: the targets are classes

    @property
    def network(self) -> Network:
        """The network as it is now."""
        return self.adaptation.state.network

    @property
    def begun(self) -> bool:
        """Was a training step taken?"""
        return self.adaptation.state.step > 0

    def grew_from_too_few_labels(self, y: NDArray) -> bool:
        """Was it grown from far fewer labels, or fewer classes, than there are now?"""
        if len(np.setdiff1d(np.unique(class_codes(y)), self.classes)):
            return True
        # Of the very first samples none was held out: L0 must not have learned from them.
        many = len(y) > REGROW_FACTOR * self.labels_at_start
        return many or self.labels_at_start <= MIN_SAMPLES_TO_HOLD_OUT

    def must_restart(self, y: NDArray) -> bool:
        """Is it stable, and grown from so few labels that it should be grown again?"""
        many_inputs = self.network.n_inputs > MANY_INPUTS
        factor = RESTART_FACTOR_OF_MANY_INPUTS if many_inputs else REGROW_FACTOR**2
        many = len(y) > factor * self.labels_at_start
        return self.adaptation.stable and many and self.grew_from_too_few_labels(y)

    def advance(
        self,
        X: NDArray,
        y: NDArray,
        settings: Settings,
        steps: int,
        weight: NDArray | None = None,
    ) -> None:
        """Take training steps on scaled inputs and their targets."""
        decay = weight_decay_for(settings.l0, len(y))
        if decay != self.adaptation.params.prior:
            params = self.adaptation.params.replace(prior=decay)
            self.adaptation = Adaptation(self.adaptation.state, params)
        for code in np.unique(class_codes(y)):
            if code not in self.classes:
                self.classes.append(int(code))
                self.adaptation.replace(with_output(self.adaptation.state))
        state = self.adaptation.state
        state.clock[N_SAMPLES] = len(y)
        targets = np.zeros((len(y), state.network.n_outputs))
        targets[:, self.first_output :] = self.network_targets(y)
        data = new_data(X, targets, settings.l0, weight)
        pool = WorkspacePool(settings.l0, len(y))
        self.history.extend(self.adaptation.advance(data, state.step + steps, pool))

    def network_targets(self, y: NDArray) -> NDArray:
        """Return what the outputs of the network should be: (samples, outputs)."""
        if self.target_scaling is not None:
            return self.target_scaling.standardize_and_clip(y)[:, None]
        return y[:, None] == np.array(self.classes)


def new_l0(settings: Settings, seed: int, n_inputs: int, base: Network | None) -> L0Training:
    """Return an L0 without classes: from inputs alone, or on top of a finished network."""
    params = settings.l0
    if n_inputs > MANY_INPUTS:
        most = min(params.max_edges, MAX_EDGES_OF_MANY_INPUTS)
        settle = min(params.settle_steps, SETTLE_STEPS_OF_MANY_INPUTS)
        params = params.replace(gates=False, edge_price=0.0, max_edges=most, settle_steps=settle)
    if base is None:
        transfer = LINEAR if settings.targets == NUMBERS else LOGISTIC
        state = new_state(n_inputs, 0, transfer=transfer, seed=seed)
    else:
        state = grow_on_top_of(base, seed)
        params = params.replace(max_edges=params.max_edges + state.network.n_edges)
    return L0Training(Adaptation(state, params), state.network.n_outputs)
