"""Exported C on emulated boards: the same answers, flash, RAM and instructions per answer."""

from experiments.boards.build import Sizes, image, sizes
from experiments.boards.machines import BOARDS, Board
from experiments.boards.run import Measured, host_answers, measure

__all__ = [
    "BOARDS",
    "Board",
    "Measured",
    "Sizes",
    "host_answers",
    "image",
    "measure",
    "sizes",
]
