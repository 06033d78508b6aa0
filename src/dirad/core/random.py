"""Random numbers keyed by (seed, step, place), not drawn from a shared stream.

A draw depends on nothing but its key, so the order in which parts of a network are visited, or
the number of workers that visit them, changes no result. The mixing function is splitmix64's
finalizer, applied once per part of the key.
"""

import math

import numpy as np

from dirad.core.compilation import kernel

# What a draw is for. Two purposes never share a key.
PERTURBATION = 1
TIE = 2
NODE_REMOVAL = 3
SHUFFLE = 4
GROWTH_SAMPLE = 5
LAYER_SOURCES = 6
LAYER_WEIGHTS = 7
INPUT_NOISE = 8


@kernel
def splitmix64(x):
    """Scramble 64 bits."""
    x = np.uint64(x) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel
def bits(seed, purpose, step, place):
    """Return 64 random bits for a key."""
    x = splitmix64(np.uint64(seed))
    x = splitmix64(x ^ np.uint64(purpose))
    x = splitmix64(x ^ np.uint64(step))
    return splitmix64(x ^ np.uint64(place))


@kernel
def uniform(seed, purpose, step, place):
    """Return a number in [0, 1) for a key."""
    return np.float64(bits(seed, purpose, step, place) >> np.uint64(11)) * (1.0 / (1 << 53))


@kernel
def normal(seed, purpose, step, place):
    """Return a standard normal number for a key (Box-Muller)."""
    u = uniform(seed, purpose, step, 2 * place)
    v = uniform(seed, purpose, step, 2 * place + 1)
    return math.sqrt(-2.0 * math.log(1.0 - u)) * math.cos(2.0 * math.pi * v)


@kernel
def write_permutation(seed, purpose, step, order):
    """Write a random permutation that depends on the key alone into `order`."""
    n = order.shape[0]
    for i in range(n):
        order[i] = i
    base = bits(seed, purpose, step, 0)
    for i in range(n - 1, 0, -1):
        j = np.int64(splitmix64(base ^ np.uint64(i)) % np.uint64(i + 1))
        order[i], order[j] = order[j], order[i]
