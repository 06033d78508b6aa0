"""Constants of peers that a data set needs its own of.

Those of MNIST (`docs/comparison-notes.md`) serve all sets of images of ten classes. Elsewhere the
variance of the inputs or the number of samples differs by more than a constant of MNIST can bear:
what it adds to variances would hide those of letters. So they were chosen for each data set in the
same way, on training samples that were held out.
"""

from typing import NamedTuple

from experiments.peers.factor_analysers import LEAST_NOISE
from experiments.peers.fecam import SHRINKAGE, TUKEY
from experiments.peers.gradient import GDUMB, JOINT, ONLINE, Training
from experiments.peers.prediction_error import RATE
from experiments.peers.random_projection import RANDUMB_WIDTH, RANPAC_PENALTY


class Constants(NamedTuple):
    """Constants of peers."""

    qda: float = 0.05  # added to every variance of a class,
    task: float = 0.05  # of a task,
    lda: float = 0.01  # of the shared covariance
    least_noise: float = LEAST_NOISE  # of factor analysers
    vae_variance: float | None = None  # of inputs in autoencoders; None: cross-entropy
    features_ridge: float = 1.0  # of random features with biases
    ranpac_ridge: float = RANPAC_PENALTY
    randumb_width: float = RANDUMB_WIDTH
    fecam_shrinkage: tuple[float, float] = SHRINKAGE
    fecam_power: float = TUKEY
    pec_rate: float = RATE
    online: Training = ONLINE  # of the perceptron that is fine-tuned, and of replay
    gdumb: Training = GDUMB
    joint: Training = JOINT


LETTERS = Constants(
    qda=1e-4, task=0.002, lda=1e-4, least_noise=0.001, vae_variance=0.001,
    features_ridge=0.01, ranpac_ridge=1.0, randumb_width=2.0, fecam_power=1.0, pec_rate=0.03,
    gdumb=GDUMB._replace(passes=100), joint=JOINT._replace(least=20_000),
)  # fmt: skip
CIFAR = Constants(
    qda=0.002, lda=0.0001, task=0.02, features_ridge=10.0, ranpac_ridge=1000.0, randumb_width=0.25,
    fecam_shrinkage=(1.0, 1.0), gdumb=GDUMB._replace(passes=10), joint=JOINT._replace(least=0),
)  # fmt: skip
QUICKDRAW_FEATURES = Constants(
    qda=0.01, lda=0.002, least_noise=0.005, ranpac_ridge=1000.0, randumb_width=0.1,
    fecam_shrinkage=(3.0, 3.0), pec_rate=0.03, gdumb=GDUMB._replace(rate=0.001),
    joint=JOINT._replace(least=0),
)  # fmt: skip
QUICKDRAW = Constants(
    qda=0.02, lda=0.2, least_noise=0.1, features_ridge=10.0, ranpac_ridge=1000.0,
    fecam_shrinkage=(1.0, 1.0), online=ONLINE._replace(rate=1.0),
    gdumb=GDUMB._replace(passes=10), joint=JOINT._replace(least=500),
)  # fmt: skip
