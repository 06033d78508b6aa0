"""Continual learners that ours is compared with.

A peer takes batches (`learn`), answers samples (`predict`), and says how many numbers it keeps
(`n_stored`) and how many samples as they came (`n_samples_stored`). Each batch comes once, and none
is told where a task ends, except by a call of `EWC.new_task`.
"""

from experiments.peers.autoencoder import fit_autoencoder
from experiments.peers.class_models import ModelPerClass
from experiments.peers.factor_analysers import fit_mixture
from experiments.peers.fecam import FeCAM
from experiments.peers.gradient import EWC, FineTuned, GDumb, Joint, Replay, Training
from experiments.peers.memory import Balanced, Reservoir
from experiments.peers.peer import Peer
from experiments.peers.prediction_error import PEC
from experiments.peers.prototypes import fit_prototypes
from experiments.peers.random_projection import RanDumb, RanPAC
from experiments.peers.statistical import (
    ClassGaussians,
    Gaussian,
    Moments,
    NearestMean,
    RandomFeatures,
    StreamingLDA,
    TaskGaussians,
)
from experiments.peers.trees import AdwinDetector, HoeffdingTree

__all__ = [
    "EWC",
    "PEC",
    "AdwinDetector",
    "Balanced",
    "ClassGaussians",
    "FeCAM",
    "FineTuned",
    "GDumb",
    "Gaussian",
    "HoeffdingTree",
    "Joint",
    "ModelPerClass",
    "Moments",
    "NearestMean",
    "Peer",
    "RanDumb",
    "RanPAC",
    "RandomFeatures",
    "Replay",
    "Reservoir",
    "StreamingLDA",
    "TaskGaussians",
    "Training",
    "fit_autoencoder",
    "fit_mixture",
    "fit_prototypes",
]
