"""Baselines: what the same data and the same number of weights give without growth."""
