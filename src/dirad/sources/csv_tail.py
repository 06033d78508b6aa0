"""The rows of a growing CSV file, each delivered once, in order."""

import csv
import logging
import time
from dataclasses import dataclass
from pathlib import Path

from dirad.client import Client
from dirad.sources.delivery import Item, deliver
from dirad.sources.errors import SourceError
from dirad.sources.growing import GrowingFile, Line
from dirad.sources.position import Position
from dirad.sources.samples import Layout, Naming

log = logging.getLogger("dirad.tail")


@dataclass(frozen=True)
class Pace:
    """How often and how much is sent, and what is done about rows that are refused."""

    rows: int = 500  # of a request, at most
    seconds: float = 1.0  # between two looks
    skip_bad: bool = False  # go on after a row that is refused


class CsvTail:
    """Follows a CSV file with a header, and lets a stream learn its rows.

    A row is a line, and complete when the line has its end. The position is kept in a file of its
    own, so that a restart goes on where it was.
    """

    def __init__(
        self,
        client: Client,
        path: Path,
        state: Path,
        naming: Naming,
        pace: Pace,
        delimiter: str = ",",
    ) -> None:
        assert client.stream is not None
        self._client, self._naming, self._pace = client, naming, pace
        self._delimiter = delimiter
        position = Position.read(state, client.stream)
        self._file = GrowingFile(
            path, client.stream, position, lambda position: position.write(state)
        )
        self._header: tuple[str, ...] = () if position is None else position.header
        self._layout: Layout | None = None
        self.sent = 0  # rows

    def run(self, once: bool = False) -> None:
        """Follow the file until interrupted; with `once`, end where there is no more."""
        while True:
            n = self.step()
            if n < self._pace.rows:
                if once and n == 0:
                    return
                time.sleep(0.0 if once else self._pace.seconds)

    def step(self) -> int:
        """Deliver the next lines; return how many there were."""
        lines = self._file.lines(self._pace.rows)
        if not lines:
            return 0
        position = self._file.position
        rows = lines
        if position is not None and position.offset == 0:
            rows = self._without_header(lines)
        filled = [line for line in rows if line.raw.strip()]
        if filled:
            items = [self._item(line) for line in filled]
            self.sent += deliver(self._client, items, self._begin, self._done, self._refused)
        if not filled or lines[-1] is not filled[-1]:
            self._file.accepted(lines[-1], self._header)
        return len(lines)

    def _without_header(self, lines: list[Line]) -> list[Line]:
        """Take the header from the first lines of a file.

        After a file was truncated its writer may go on without one: then the last header holds.
        """
        first = next((i for i, line in enumerate(lines) if line.raw.strip()), None)
        if first is None:
            return lines
        line = lines[first]
        try:
            names = self._fields(line.raw.removeprefix(b"\xef\xbb\xbf"))
        except (ValueError, csv.Error) as error:
            raise SourceError(f"{self._place(line)}: no header: {error}") from None
        names = [name.strip() for name in names]
        if self._layout is None:
            self._layout = Layout.of_stream(self._client, self._naming, self._header or names)
        missing = self._layout.missing(names)
        if missing is None:
            if len(set(names)) < len(names):
                raise SourceError(f"{self._place(line)}: two columns have the same name")
            self._header = tuple(names)
            return lines[first + 1 :]
        if not self._header:
            raise SourceError(
                f"{self._place(line)}: the header has no column {missing!r}, which stream "
                f"{self._client.stream} has"
            )
        return lines

    def _item(self, line: Line) -> Item:
        if self._layout is None:
            self._layout = Layout.of_stream(self._client, self._naming, self._header)
        missing = self._layout.missing(self._header)
        if missing is not None:
            raise SourceError(f"{self._file.path}: there is no column {missing!r}")
        try:
            return Item(line, self._layout.of_fields(self._header, self._fields(line.raw)))
        except (ValueError, csv.Error) as error:
            return Item(line, None, str(error))

    def _fields(self, raw: bytes) -> list[str]:
        text = raw.decode("utf-8")
        return next(csv.reader([text], delimiter=self._delimiter, skipinitialspace=True))

    def _begin(self, part: list[Item]) -> str:
        return self._file.sending(part[-1].origin)

    def _done(self, part: list[Item]) -> None:
        self._file.accepted(part[-1].origin, self._header, len(part))

    def _refused(self, item: Item, why: str) -> None:
        text = f"{self._place(item.origin)}: {why}"
        if not self._pace.skip_bad:
            raise SourceError(f"{text} (--skip-bad leaves out such rows)")
        log.warning("%s; the row is left out", text)

    def _place(self, line: Line) -> str:
        return f"{self._file.name}, line {line.number}"
