"""The settings among which DIRAD is tuned.

They are not in `methods`, so that the results of other methods stay valid when they change.
"""

from collections.abc import Mapping
from typing import Any

SETTINGS: tuple[Mapping[str, Any], ...] = (
    {"structure": "wide"},
    {"structure": "wide", "prior": 2.0, "committee": 4},
)
