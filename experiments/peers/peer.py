"""What every peer can do."""

from typing import Protocol

from numpy.typing import NDArray


class Peer(Protocol):
    """A continual learner.

    Some also say how many of the numbers they keep are inputs and labels of samples as they came
    (`n_integers`), or random ones that a seed gives again (`n_reproducible`); and some take notice
    that the stream is over (`end`).
    """

    def learn(self, X: NDArray, y: NDArray) -> None:
        """Take one batch."""
        ...

    def predict(self, X: NDArray) -> NDArray:
        """Return the class of each sample."""
        ...

    @property
    def n_stored(self) -> int:
        """Return how many numbers are kept, those of stored samples among them."""
        ...

    @property
    def n_samples_stored(self) -> int:
        """Return how many samples are kept as they came."""
        ...
