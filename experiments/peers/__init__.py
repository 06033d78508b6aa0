"""Continual learners that ours is compared with.

A peer takes batches (`learn`), answers samples (`predict`), and says how many numbers it keeps
(`n_stored`) and how many samples as they came (`n_samples_stored`). Each batch comes once, and none
is told where a task ends, except by a call of `EWC.new_task`.
"""

from experiments.peers.gradient import EWC, FineTuned, GDumb, Joint, Replay, Training
from experiments.peers.memory import Balanced, Reservoir
from experiments.peers.peer import Peer
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
    "AdwinDetector",
    "Balanced",
    "ClassGaussians",
    "FineTuned",
    "GDumb",
    "Gaussian",
    "HoeffdingTree",
    "Joint",
    "Moments",
    "NearestMean",
    "Peer",
    "RandomFeatures",
    "Replay",
    "Reservoir",
    "StreamingLDA",
    "TaskGaussians",
    "Training",
]
