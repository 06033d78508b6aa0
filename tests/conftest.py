"""How tests run: kernels compiled before, Hypothesis with the same examples every time.

HYPOTHESIS_PROFILE=explore tries new ones.
"""

import os
import subprocess
import sys

from hypothesis import HealthCheck, settings

# The first call of a kernel compiles it, which no deadline survives.
LENIENT = {"deadline": None, "suppress_health_check": list(HealthCheck), "print_blob": True}
settings.register_profile("quick", max_examples=30, derandomize=True, database=None, **LENIENT)
settings.register_profile("explore", max_examples=1000, **LENIENT)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

COMPILE = """
from dirad.experiments.runner import fit_little
for preset in ("default", "paper"):
    fit_little(preset)
"""


def pytest_sessionstart() -> None:
    """Fill the cache of kernels in a process of its own.

    A process that compiles may round otherwise than those that load what it compiled: kernels
    share helpers, which are then linked in another order. Tests compare processes bit by bit.
    """
    subprocess.run([sys.executable, "-c", COMPILE], check=True)
