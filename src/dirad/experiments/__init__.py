"""Experiments: streams of tasks, metrics, baselines and the tables of the paper."""
