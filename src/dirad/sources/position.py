"""How far a growing file was read: a small file, written before and after each delivery."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from dirad.atomic import replacing
from dirad.sources.errors import SourceError


@dataclass(frozen=True)
class Finished:
    """A rotated file of which everything was read."""

    device: int
    inode: int
    size: int
    mark: str  # of its end: see `rotation.mark_of`
    has_rows: bool  # more than a header, with which other files begin too


@dataclass(frozen=True)
class Position:
    """How far a file was read.

    Before lines are sent, `end` is written down. Whoever goes on after a crash sends the same lines
    with the same key, so that the service learns them once, whether or not it has them already.
    """

    stream: str
    reading: str  # a random text, new for each file: keys begin with it
    device: int
    inode: int
    offset: int = 0  # everything before it was accepted
    end: int = 0  # of the lines that are being sent; `offset` if there are none
    line: int = 0  # lines before the offset
    rows: int = 0  # rows among them
    mark: str = ""  # of what is before the offset
    end_mark: str = ""  # of what is before the end
    header: tuple[str, ...] = ()
    finished: tuple[Finished, ...] = ()

    def sending(self, end: int, mark: str) -> "Position":
        """Return the position while the lines up to `end` are sent."""
        return replace(self, end=end, end_mark=mark)

    def after(self, end: int, line: int, mark: str, header: Sequence[str], rows: int) -> "Position":
        """Return the position once the lines up to `end`, with so many rows, are accepted."""
        done = {"offset": end, "end": end, "line": line, "rows": self.rows + rows}
        return replace(self, **done, mark=mark, end_mark=mark, header=tuple(header))

    def write(self, path: Path) -> None:
        """Write it down, in one piece and onto the disk."""
        with replacing(path) as part:
            part.write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, path: Path, stream: str) -> "Position | None":
        """Return the position that was written last; None if there is none."""
        try:
            found: dict[str, Any] = json.loads(path.read_text())
        except FileNotFoundError:
            return None
        except ValueError:
            raise SourceError(f"{path}: not the position of a file (--state)") from None
        try:
            finished = tuple(Finished(**one) for one in found.pop("finished"))
            position = cls(**{**found, "header": tuple(found["header"])}, finished=finished)
        except (TypeError, KeyError, AttributeError):
            raise SourceError(f"{path}: not the position of a file (--state)") from None
        if position.stream != stream:
            raise SourceError(f"{path}: the position of stream {position.stream}, not of {stream}")
        return position
