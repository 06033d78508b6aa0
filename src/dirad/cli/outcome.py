"""What a command found out: printed, and written as Markdown, JSON and pictures."""

import dataclasses
import math
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dirad import __version__
from dirad.atomic import replacing
from dirad.cli.app import Common, as_json, stdout
from dirad.report.tables import Section, markdown, print_sections

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURE_DOTS = 150  # per inch


@dataclass(frozen=True)
class Outcome:
    """What a command found out."""

    command: str  # its name
    options: Mapping[str, Any]  # those that the result depends on
    title: str
    sections: Sequence[Section]
    runs: Sequence[Any] = ()  # dataclasses, one per run
    pictures: Mapping[str, "Figure"] = field(default_factory=dict)
    variant: str = ""  # appended to the names of files, so that variants do not overwrite another
    file: str = ""  # the name of files, where it is not the command's
    program: str = "dirad"  # that the command belongs to, as one calls it

    @property
    def stem(self) -> str:
        """The name of the files, without their endings."""
        name = self.file or self.command
        return f"{name}-{self.variant}" if self.variant else name


def deliver(outcome: Outcome, common: Common, show: bool = True) -> None:
    """Print the outcome, write it as Markdown, JSON and pictures, and name the folder."""
    folder = common.out or Path("results") / outcome.command
    folder.mkdir(parents=True, exist_ok=True)
    record = _record(outcome)
    text = as_json(record)
    with replacing(folder / f"{outcome.stem}.json") as part:
        part.write_text(text + "\n", encoding="utf-8")
    intro = f"Made by `{record['command']}`, dirad {__version__}."
    document = markdown(outcome.title, intro, outcome.sections)
    for name in outcome.pictures:
        document += f"\n![{name}]({outcome.stem}-{name}.png)\n"
    with replacing(folder / f"{outcome.stem}.md") as part:
        part.write_text(document, encoding="utf-8")
    for name, figure in outcome.pictures.items():
        with replacing(folder / f"{outcome.stem}-{name}.png") as part:
            figure.savefig(part, dpi=PICTURE_DOTS, format="png")
    if common.json:
        print(text)
    elif common.quiet:
        print(folder)
    else:
        console = stdout()
        if show:
            print_sections(console, outcome.sections)
        console.print(f"Results are in {folder}", markup=False)


def _record(outcome: Outcome) -> dict[str, Any]:
    """Return all of an outcome as JSON takes it."""
    import numba
    import numpy
    import sklearn

    flags = []
    for name, value in outcome.options.items():
        if value is True:
            flags.append(f"--{name}")
        elif value is not False:
            flags.append(f"--{name} {shlex.quote(str(value))}")
    return {
        "command": " ".join([outcome.program, outcome.command, *flags]),
        "title": outcome.title,
        "options": dict(outcome.options),
        "versions": {
            "dirad": __version__,
            "python": ".".join(map(str, sys.version_info[:3])),
            "numpy": numpy.__version__,
            "numba": numba.__version__,
            "scikit-learn": sklearn.__version__,
        },
        "sections": [
            {"title": section.title, "note": section.note, "rows": _plain(section.rows)}
            for section in outcome.sections
        ],
        "runs": _plain([dataclasses.asdict(run) for run in outcome.runs]),
    }


def _plain(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows in which what is not a number is null."""
    return [
        {
            key: None if isinstance(value, float) and math.isnan(value) else value
            for key, value in row.items()
        }
        for row in rows
    ]
