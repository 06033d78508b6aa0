"""Accuracy in a given number of bytes of flash, model and code, on a Cortex-M0."""
