"""A growing file, line by line, through rotation and truncation.

A rotated file is done as soon as the next one has content: there is one writer, which has left it.
"""

import logging
import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from dirad.sources.errors import SourceError
from dirad.sources.position import Finished, Position
from dirad.sources.rotation import (
    MARK,
    Changed,
    Found,
    files_of,
    is_prefix,
    mark_at,
    mark_of,
    opened,
)

CHUNK = 1_000_000  # bytes that are read at once; no line is longer

log = logging.getLogger("dirad.tail")


class Line(NamedTuple):
    """A complete line."""

    raw: bytes  # without its end
    end: int  # the place after it
    number: int  # from 1
    mark: str  # of the place after it


class GrowingFile:
    """Reads what is new in a file, and in those that it was rotated to."""

    def __init__(
        self, path: Path, stream: str, position: Position | None, save: Callable[[Position], None]
    ) -> None:
        self.path, self._stream, self._save = path, stream, save
        self.position = position
        self.name = path  # of the file that is read at the moment
        self._handle: int | None = None
        self._is_finished: dict[Found, bool] = {}

    def lines(self, most: int) -> list[Line]:
        """Return the next complete lines; none if there are none at the moment.

        After a crash, they are those that were being sent.
        """
        while True:
            files = files_of(self.path)
            try:
                if self._handle is None and not self._open(files):
                    return []
                if not self._go_back(files):
                    return []
                following = self._following(files)
                found = self._read(most)
                if found or following is None:
                    return found
                self._leave(following, files)
            except Changed:
                self._close()

    def accepted(self, line: Line, header: Sequence[str], rows: int = 0) -> None:
        """Move on behind a line, after so many rows."""
        assert self.position is not None
        self.position = self.position.after(line.end, line.number, line.mark, header, rows)
        self._save(self.position)

    def sending(self, line: Line) -> str:
        """Write down that everything up to a line is about to be sent; return a key for it."""
        position = self.position
        assert position is not None
        self.position = position.sending(line.end, line.mark)
        self._save(self.position)
        return f"{position.reading}.{position.offset}-{line.end}"

    def _close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    # ---------------------------------------------------------------- which file

    def _open(self, files: list[Found]) -> bool:
        """Open the file of the position, or the first one that was not read; False if none is."""
        position = self.position
        if position is None:
            if not files or files[-1].path != self.path:
                return False
            self._begin(files[-1], [_all_of(one) for one in files[:-1]])
            return True
        there = self._located(position, files)
        if there is not None:
            self._use(there)
            self.position = replace(position, device=there.device, inode=there.inode)
            return True
        unread = [one for one in files if not self._is_read(one)]
        if not unread:
            return False
        if position.offset:
            log.warning(
                "%s: what was read up to byte %d is gone, or was truncated: rows that were written "
                "after it may be missing", self.path, position.offset,
            )  # fmt: skip
        self._begin(unread[0], position.finished)
        return True

    def _located(self, position: Position, files: list[Found]) -> Found | None:
        """Return the file that the position is in: under its name, another one, or a copy of it."""
        candidates = [one for one in files if not self._is_read(one)]
        same = [one for one in candidates if one.identity == (position.device, position.inode)]
        others = [one for one in candidates if one not in same] if position.end else []
        for one in same + others:
            with opened(one) as handle:
                if mark_at(handle, position.end) == position.end_mark:
                    return one
        return None

    def _is_read(self, one: Found) -> bool:
        """Say whether everything in a file was read.

        The system may give the inode number of a deleted file to a new one.
        """
        assert self.position is not None
        known = [
            other
            for other in self.position.finished
            if (other.device, other.inode) == one.identity
            and (other.size == one.size or (other.size < one.size and other.has_rows))
        ]
        if not known:
            return False
        if one not in self._is_finished:
            with opened(one) as handle:
                marks = [mark_at(handle, other.size) == other.mark for other in known]
            self._is_finished[one] = any(marks)
        return self._is_finished[one]

    def _go_back(self, files: list[Found]) -> bool:
        """Before the first row of a file is sent, read the file that it was copied to before.

        Return whether this file can be read. As long as it has no more than the beginning of a
        copy, it is not known whether it is about to be truncated, or was already.
        """
        position = self.position
        assert position is not None
        if position.rows or position.end > position.offset:
            return True
        here = [one for one in files if one.identity == (position.device, position.inode)]
        if not here:
            return True
        for one in files[: files.index(here[0])]:
            if one.size == 0 or self._is_read(one):
                continue
            if not is_prefix(one, here[0]):
                self._begin(one, position.finished)
                return True
            if here[0].path == self.path and here[0].size <= one.size:
                return False
        return True

    def _following(self, files: list[Found]) -> Found | None:
        """Return the file to read after this one; None as long as there is none with content."""
        position = self.position
        assert position is not None
        here = [
            i for i, one in enumerate(files) if one.identity == (position.device, position.inode)
        ]
        later = files[here[0] + 1 :] if here else files
        return next((one for one in later if one.size and not self._is_read(one)), None)

    def _use(self, found: Found) -> None:
        """Open a file."""
        self._close()
        with opened(found) as handle:
            self._handle = os.dup(handle)
        self.name = found.path

    def _begin(self, found: Found, finished: Sequence[Finished]) -> None:
        """Open a file that was not read yet."""
        self._use(found)
        header = () if self.position is None else self.position.header
        self.position = Position(
            self._stream,
            uuid.uuid4().hex,
            found.device,
            found.inode,
            header=header,
            finished=tuple(finished),
        )
        self._save(self.position)

    def _leave(self, following: Found, files: list[Found]) -> None:
        """Go on to the next file."""
        position, handle = self.position, self._handle
        assert position is not None
        assert handle is not None
        rest = os.pread(handle, CHUNK, position.offset)
        if rest.strip():
            log.warning(
                "%s, line %d: the last line has no end, and is left out",
                self.name, position.line + 1,
            )  # fmt: skip
        here = (position.device, position.inode)
        passed = files[: files.index(following)]
        done = [_all_of(one) for one in passed if one.identity != here]
        done.append(_finished(handle))
        self._is_finished.clear()
        self._begin(following, done)

    # ---------------------------------------------------------------- lines

    def _read(self, most: int) -> list[Line]:
        position, handle = self.position, self._handle
        assert position is not None
        assert handle is not None
        before = min(position.offset, MARK)
        raw = os.pread(handle, before + CHUNK, position.offset - before)
        if len(raw) < before or mark_of(raw[:before]) != position.mark:
            raise Changed
        if position.end > position.offset:  # the lines that were being sent
            raw, most = raw[: before + position.end - position.offset], CHUNK
            if mark_of(raw[-min(position.end, MARK) :]) != position.end_mark:
                raise Changed
        found: list[Line] = []
        place, number = before, position.line
        while len(found) < most:
            end = raw.find(b"\n", place) + 1
            if not end:
                break
            number += 1
            at = position.offset - before + end
            mark = mark_of(raw[max(0, end - MARK) : end])
            found.append(Line(raw[place:end].rstrip(b"\r\n"), at, number, mark))
            place = end
        if not found and len(raw) == before + CHUNK:
            raise SourceError(f"{self.name}, line {number + 1}: longer than {CHUNK:,} bytes")
        return found


def _all_of(one: Found) -> Finished:
    with opened(one) as handle:
        return _finished(handle)


def _finished(handle: int) -> Finished:
    stat = os.fstat(handle)
    size = stat.st_size
    end = os.pread(handle, MARK, max(0, size - MARK))
    return Finished(stat.st_dev, stat.st_ino, size, mark_of(end), end.count(b"\n") > 1)
