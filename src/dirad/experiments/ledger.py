"""Finished runs, one JSON line each: a run that was counted is never lost and never made twice.

A line is written whole and flushed to the disk before the run counts. What a killed process left
half-written is not a line, and is run again. Lines of other settings are ignored. So are lines of
other code, unless one asks to recheck them. Results are the same to the last bit whenever they are
made, so that one run of a kind shows a change of code that concerns all of them; one that seldom
makes a difference must not be rechecked so, but made anew.
"""

import ast
import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from typing import Any

from dirad.atomic import named, replacing
from dirad.experiments.runner import Progress, run_all

_PACKAGE = Path(__file__).resolve().parent.parent


def code_digest(files: Sequence[str] = (), *, models: bool = True) -> str:
    """Return a short hash of all code that a result may depend on, these files too.

    Comments, docstrings and layout do not count, nor the models' code where none takes part.
    """
    folders = ("core", "growth", "preval") if models else ()
    own = ("params.py", "datasets.py", "experiments/protocol.py") if models else ("datasets.py",)
    names = (*own, *files)
    paths = [path for folder in folders for path in sorted((_PACKAGE / folder).glob("*.py"))]
    digest = hashlib.sha256()
    for path in (*paths, *(_PACKAGE / name for name in names)):
        digest.update(path.name.encode() + bare_code(path.read_text("utf-8")).encode())
    return digest.hexdigest()[:12]


def bare_code(source: str) -> str:
    """Return what a piece of code does, less what is said about it.

    >>> bare_code("x = 1  # one") == bare_code("'Numbers.'; x = (1)")
    True
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            value = body[0].value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                del body[0]
    return ast.dump(tree)


def _entry(line: bytes) -> Any:
    """Return what a line holds, or None where it is not whole."""
    try:
        entry = json.loads(line)
        whole = line.endswith(b"\n") and {"code", "key", "result"} <= entry.keys()
    except (ValueError, AttributeError):
        return None
    return entry if whole else None


def timeless(result: Any) -> Any:
    """Return a result without the seconds that it took, as text: NaN is equal to NaN.

    >>> timeless({"value": 1.0, "parts": [{"seconds": 3.0, "n": 2}]})
    '{"parts": [{"n": 2}], "value": 1.0}'
    """

    def less(part: Any) -> Any:
        if isinstance(part, Mapping):
            return {key: less(value) for key, value in part.items() if key != "seconds"}
        return [less(value) for value in part] if isinstance(part, list) else part

    return json.dumps(less(result), sort_keys=True)


class Ledger:
    """A file of finished runs, by what they depend on."""

    def __init__(self, path: Path, files: Sequence[str] = (), *, models: bool = True) -> None:
        self.path = path
        self.code = code_digest(files, models=models)
        self.results: dict[str, Mapping[str, Any]] = {}
        # By other code: which, and what it made. Of several the last.
        self.older: dict[str, tuple[str, Mapping[str, Any]]] = {}
        if path.exists():
            self._read()

    def _read(self) -> None:
        whole = b""
        for line in self.path.read_bytes().splitlines(keepends=True):
            entry = _entry(line)
            if entry is not None:
                whole += line
                if entry["code"] == self.code:
                    self.results[entry["key"]] = entry["result"]
                else:
                    self.older[entry["key"]] = entry["code"], entry["result"]
        if whole != self.path.read_bytes():  # a line was cut off: the next must not be glued to it
            self._write(whole)

    def _write(self, lines: bytes) -> None:
        with replacing(self.path) as part:
            part.write_bytes(lines)

    @staticmethod
    def key(*parts: Any) -> str:
        """Return what a run depends on, as one text."""
        plain = [
            part if isinstance(part, int | str) else dataclasses.asdict(part) for part in parts
        ]
        return json.dumps(plain, sort_keys=True)

    def add(self, key: str, result: Any) -> None:
        """Record a finished run."""
        plain = json.loads(json.dumps(dataclasses.asdict(result), allow_nan=True))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with named(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(self._line(key, plain))
            file.flush()
            os.fsync(file.fileno())
        self.results[key] = plain

    def _line(self, key: str, plain: Mapping[str, Any]) -> str:
        return json.dumps({"code": self.code, "key": key, "result": plain}) + "\n"

    def recheck(
        self,
        function: Callable[..., Any],
        jobs: Sequence[Sequence[Any]],
        keys: Sequence[str],
        kinds: Sequence[str],
        *,
        workers: int = 1,
        progress: Progress | None = None,
    ) -> list[str]:
        """Make the first run of every kind anew of which there are runs by other code.

        Where it comes out as it did, but for the time it took, the others of its kind that the
        same code made count again; with the seconds they took then. Returns the kinds that came
        out otherwise, now or before: none of them counts.
        """
        groups: dict[tuple[str, str], list[int]] = {}  # by kind, and the code that made them
        for place, (key, kind) in enumerate(zip(keys, kinds, strict=True)):
            if key in self.older:
                groups.setdefault((kind, self.older[key][0]), []).append(place)
        firsts = [
            places[0]
            for places in groups.values()
            if not any(keys[place] in self.results for place in places)
        ]
        self.made(
            function,
            [jobs[place] for place in firsts],
            [keys[place] for place in firsts],
            workers=workers,
            progress=progress,
        )
        changed, settled = [], set()
        for (kind, _), places in groups.items():
            own = [keys[place] for place in places]
            again = [key for key in own if key in self.results]
            same = all(timeless(self.results[key]) == timeless(self.older[key][1]) for key in again)
            if same:
                self.results |= {key: self.older[key][1] for key in own if key not in self.results}
            if same or len(again) == len(own):  # all count, or all are made anew
                settled.update(own)
            else:
                changed.append(kind)
        self._settle(settled)
        return changed

    def _settle(self, keys: Container[str]) -> None:
        """Write what counts of some runs in place of all that any code made of them."""
        if not self.older:
            return
        lines = []
        for line in self.path.read_bytes().splitlines(keepends=True):
            entry = _entry(line)
            if entry is not None and entry["key"] not in keys:
                lines.append(line)
        own = [self._line(key, plain) for key, plain in self.results.items() if key in keys]
        self._write(b"".join(lines) + "".join(own).encode())

    def made(
        self,
        function: Callable[..., Any],
        jobs: Sequence[Sequence[Any]],
        keys: Sequence[str],
        *,
        workers: int = 1,
        progress: Progress | None = None,
    ) -> list[Mapping[str, Any]]:
        """Return the results of jobs by their keys; those that are here are not made again."""
        missing = [
            (key, job) for key, job in zip(keys, jobs, strict=True) if key not in self.results
        ]
        done = len(jobs) - len(missing)
        run_all(
            function,
            [job for _, job in missing],
            workers=workers,
            progress=lambda n, _: progress(done + n, len(jobs)) if progress else None,
            on_result=lambda place, result: self.add(missing[place][0], result),
        )
        return [self.results[key] for key in keys]
