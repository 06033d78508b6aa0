"""A file of finished results, one JSON line each, so that a run is never repeated or lost.

A line is written whole and flushed to the disk before the run counts as done. What a killed
process left half-written is not a line, and is run again. Lines of other settings are ignored, and
so are lines that other code made, unless they are rechecked: results are reproducible to the last
bit, so one run of a kind shows whether a change of the code concerns that kind. (A change that
alters results only rarely must not be rechecked in this way, but needs all runs again.)

`joblib.Memory` does not replace this: it keeps pickles in folders, not lines of text that belong
in a repository, and it notices changes of the function alone, not of what the function calls.
"""

import ast
import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Container, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import dirad
from dirad.atomic import named, replacing
from dirad.engine import Progress, run_all

PACKAGE = Path(dirad.__file__).parent
MODEL_FOLDERS = ("core", "growth", "preval")
MODEL_CODE = ("dirad.params", "dirad.datasets", "experiments.reproduction.protocol")
OTHER_CODE = ("dirad.datasets",)


def code_digest(modules: Sequence[str] = (), *, models: bool = True) -> str:
    """Return a short hash of all code that a result may depend on, these modules included.

    Comments, docstrings and layout do not count, nor the code of our models if `models` is False.
    """
    folders = MODEL_FOLDERS if models else ()
    paths = [path for folder in folders for path in sorted((PACKAGE / folder).rglob("*.py"))]
    paths += [source_file(name) for name in (*(MODEL_CODE if models else OTHER_CODE), *modules)]
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.name.encode() + bare_code(path.read_text("utf-8")).encode())
    return digest.hexdigest()[:12]


def source_file(module: str) -> Path:
    """Return the file of a module."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(module)
    return Path(spec.origin)


def bare_code(source: str) -> str:
    """Return code without its comments, docstrings and layout.

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
    """Return the record of a line, or None if the line is not whole."""
    try:
        entry = json.loads(line)
        whole = line.endswith(b"\n") and {"code", "key", "result"} <= entry.keys()
    except (ValueError, AttributeError):
        return None
    return entry if whole else None


def timeless(result: Any) -> str:
    """Return a result as text without the seconds it took; as text, NaN equals NaN.

    >>> timeless({"value": 1.0, "parts": [{"seconds": 3.0, "n": 2}]})
    '{"parts": [{"n": 2}], "value": 1.0}'
    """

    def less(part: Any) -> Any:
        if isinstance(part, Mapping):
            return {key: less(value) for key, value in part.items() if key != "seconds"}
        return [less(value) for value in part] if isinstance(part, list) else part

    return json.dumps(less(result), sort_keys=True)


class ResultCache:
    """The results in a file, by what they depend on."""

    def __init__(self, path: Path, modules: Sequence[str] = (), *, models: bool = True) -> None:
        self.path = path
        self.code = code_digest(modules, models=models)
        self.results: dict[str, Mapping[str, Any]] = {}
        # Results of other code, with its digest; if there are several, the last.
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
        if whole != self.path.read_bytes():  # else the next line would continue one that was cut
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
        """Save the result of a finished run."""
        plain = json.loads(json.dumps(dataclasses.asdict(result), allow_nan=True))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with named(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(self._line(key, plain))
            file.flush()
            os.fsync(file.fileno())
        self.results[key] = plain

    def _line(self, key: str, plain: Mapping[str, Any]) -> str:
        return json.dumps({"code": self.code, "key": key, "result": plain}) + "\n"

    def run(
        self,
        function: Callable[..., Any],
        jobs: Sequence[Sequence[Any]],
        keys: Sequence[str],
        *,
        workers: int = 1,
        progress: Progress | None = None,
    ) -> list[Mapping[str, Any]]:
        """Return the results of jobs by their keys; only those that are missing are run."""
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
        """Run the first job again of every kind that has results of other code.

        If its result is the same, but for the seconds it took, the other results of its kind by
        the same code are accepted, with the seconds they took then. Returns the kinds whose
        result has changed, now or in an earlier recheck: none of their results is accepted.
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
        first_jobs, first_keys = [jobs[i] for i in firsts], [keys[i] for i in firsts]
        self.run(function, first_jobs, first_keys, workers=workers, progress=progress)
        changed, settled = [], set()
        for (kind, _), places in groups.items():
            own = [keys[place] for place in places]
            again = [key for key in own if key in self.results]
            same = all(timeless(self.results[key]) == timeless(self.older[key][1]) for key in again)
            if same:
                self.results |= {key: self.older[key][1] for key in own if key not in self.results}
            if same or len(again) == len(own):  # all are accepted, or all were run again
                settled.update(own)
            else:
                changed.append(kind)
        self._settle(settled)
        return changed

    def _settle(self, keys: Container[str]) -> None:
        """Replace all lines of some runs, by whatever code, by one line each that counts."""
        if not self.older:
            return
        lines = []
        for line in self.path.read_bytes().splitlines(keepends=True):
            entry = _entry(line)
            if entry is not None and entry["key"] not in keys:
                lines.append(line)
        own = [self._line(key, plain) for key, plain in self.results.items() if key in keys]
        self._write(b"".join(lines) + "".join(own).encode())
