"""Options that several commands on data files and model files share.

The text below an option is its help.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from dirad.cli.app import Flag

DATA_FILE = "A data file: CSV, TSV, Parquet, NPZ or IDX, also gzipped (.gz)."

DataFile = Annotated[Path, Parameter(help=DATA_FILE)]
ModelPath = Annotated[Path, Parameter(help="A model file.")]
OutputFile = Annotated[Path, Parameter(name=["--output", "-o"])]
OptionalOutputFile = Annotated[Path | None, Parameter(name=["--output", "-o"])]
ColumnNames = Annotated[list[str] | None, Parameter(negative="", consume_multiple=False)]
Unseen = Literal["refuse", "zero"]


@Parameter(name="*")
@dataclass(frozen=True)
class Reading:
    """How to read a data file; by default this is detected."""

    format: Literal["csv", "tsv", "parquet", "npz", "idx"] | None = None
    """Format of the data file [default: by its name or its first bytes]."""
    delimiter: str | None = None
    """Delimiter of a text file [default: detected]."""
    header: bool | None = None
    """Whether the first line of a text file names columns [default: detected]."""
    labels: Path | None = None
    """For IDX images, the file of labels [default: by its name]."""


@Parameter(name="*")
@dataclass(frozen=True)
class Checkpoints:
    """When to save what has been learned so far, and whether to continue from it."""

    resume: Flag = False
    """Continue from the checkpoint of the same command."""
    checkpoint_every: Annotated[float, Parameter(validator=Number(gte=0))] = 10.0
    """Seconds between two checkpoints."""


DETECTED = Reading()
NO_RESUME = Checkpoints()
