"""DIRAD: networks that start from inputs and outputs alone and grow what they need."""

__version__ = "0.1.0"
