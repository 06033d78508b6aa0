"""How tests run: Hypothesis with the same examples every time.

HYPOTHESIS_PROFILE=explore tries new ones.
"""

import os

from hypothesis import HealthCheck, settings

# The first call of a kernel compiles it, which no deadline survives.
LENIENT = {"deadline": None, "suppress_health_check": list(HealthCheck), "print_blob": True}
settings.register_profile("quick", max_examples=30, derandomize=True, database=None, **LENIENT)
settings.register_profile("explore", max_examples=1000, **LENIENT)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
