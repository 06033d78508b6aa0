"""Which samples are held out where their order matters: stretches, not single samples.

A single sample held out among neighbours that it resembles says little about samples to come: what
was fitted to the neighbours fits it too. Stretches that are few say little as well, because all
samples of one may be unusual together: so there is one in each autocorrelation time, as many as the
stream has independent samples.
"""

from dirad.core.random import uniform

STRETCHES_KEY = 102, 2  # purpose and step of the random keys
EARLY_SAMPLES, EARLY_HOLD_OUT_SHARE = 200, 0.2  # of the first ones, at least this share is held out
MIN_STRETCHES = 4  # among the first samples, and whenever the number of samples has doubled
LONGEST = 1000.0  # samples
LENGTH_IF_SAID = 20.0  # where the user says that the order matters; the data may not yet tell how


def length_for(tau: float, share: float) -> float:
    """Return how long stretches should be, given the autocorrelation time of the inputs."""
    return min(max(share * tau, 1.0), LONGEST)


def in_stretch(number: int, seed: int, share: float, length: float) -> bool:
    """Is a sample held out, counted from 0 in the order of its task?

    Time is divided into periods of equal length; each holds one stretch, at a random place. While
    there are few samples, stretches are shorter than `length`, so that there are several.

    >>> held = [in_stretch(i, 0, 0.1, 20.0) for i in range(3000)]
    >>> sum(held[:200]), sum(held[200:])
    (40, 280)
    """
    if not share:
        return False
    first, size = 0, EARLY_SAMPLES
    while number >= first + size:
        first, size = first + size, first + size
    if not first:
        share = max(share, EARLY_HOLD_OUT_SHARE)
    length = max(min(length, share * size / MIN_STRETCHES), 1.0)
    period = length / share
    which = int((number - first) / period)
    begin = first + which * period
    begin += float(uniform(seed, *STRETCHES_KEY, first + which)) * (period - length)
    return begin <= number + 0.5 < begin + length
