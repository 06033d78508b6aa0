"""Gates of L1: which mode of its class a sample is of.

What predicts one mode of a class (a slanted seven) does not predict another (an upright one). The
modes are found by k-means within each class; a network that tells them apart is grown as any
other, and its outputs open and close the pathways of L1, each of which serves one mode.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2

from dirad.core.network import SOFTMAX, Network
from dirad.growth.adapt import Adaptation, Data, new_data
from dirad.growth.state import new_state
from dirad.history import History
from dirad.inference import respond
from dirad.params import Params
from dirad.preval.settings import prior_of

ROUNDS = 20  # of k-means


def find_modes(
    X: NDArray, groups: NDArray[np.int64], most: int, least: int, seed: int
) -> NDArray[np.int64]:
    """Return the mode of each sample: (samples,), numbered from 0, none in two groups.

    A group is divided into at most `most` modes, fewer where they would hold fewer than `least`
    samples on average.
    """
    result = np.zeros(len(X), np.int64)
    number = 0
    for group in np.unique(groups):
        members = np.flatnonzero(groups == group)
        wanted = min(most, len(members) // max(least, 1))
        found = np.zeros(len(members), np.int64)
        if wanted > 1 and np.ptp(X[members], axis=0).any():
            # An empty cluster is no mode: those that are left are numbered anew.
            _, label = kmeans2(
                X[members], wanted, minit="++", iter=ROUNDS, missing="warn", rng=seed % 2**32
            )
            found = np.unique(label, return_inverse=True)[1]
        result[members] = number + found
        number += int(found.max()) + 1
    return result


class Gates:
    """A network that says how much each mode is there: its outputs add up to 1."""

    def __init__(
        self,
        n_states: int,
        modes: NDArray[np.int64],
        groups: NDArray[np.int64],
        params: Params,
        seed: int,
    ) -> None:
        """Begin, for samples of these modes and groups. `params.max_edges` is meant per mode."""
        self.modes = modes
        self.n_modes = int(modes.max()) + 1
        self.group = np.zeros(self.n_modes, np.int64)  # of each mode
        self.group[modes] = groups
        self.params = params.replace(
            max_edges=params.max_edges * self.n_modes, prior=prior_of(params, len(modes))
        )
        state = new_state(n_states, self.n_modes, transfer=SOFTMAX, seed=seed, n_samples=len(modes))
        self.adaptation: Adaptation | None = Adaptation(state, self.params)
        self.network: Network = state.network
        self.history = History()

    @property
    def stable(self) -> bool:
        """Is there nothing left to adapt? One mode needs no telling apart."""
        return self.n_modes == 1 or self.adaptation is None or self.adaptation.stable

    def know(self, classes: Sequence[int]) -> bool:
        """Have they learned to tell modes of all these classes apart, and so the classes?"""
        return self.n_modes > 1 and bool(np.isin(classes, self.group).all())

    def data(self, states: NDArray) -> Data:
        """Return what they adapt to: the samples whose modes are known."""
        return new_data(states, np.eye(self.n_modes)[self.modes], self.params)

    def take(self, further: Adaptation, history: History) -> None:
        """Go on from where their adaptation has come to, here or elsewhere."""
        self.adaptation, self.network = further, further.state.network
        self.history.extend(history)

    def values(self, states: NDArray) -> NDArray[np.float64]:
        """Return how much each mode is there: (samples, modes)."""
        return respond(self.network, states)

    def forget(self) -> None:
        """Give up what only adaptation needs."""
        self.modes = np.zeros(0, np.int64)
        self.adaptation = None
