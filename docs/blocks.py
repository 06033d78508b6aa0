"""Find the code blocks of a page, and how they are marked.

- ```` ```python ```` is run, in one namespace and one folder per page;
- ```` ```console ```` contains commands after `$`, each followed by its output;
- in ```` ```sh ```` and ```` ```bash ```` every line is a command;
- ```` ```text ```` directly below a block is its output; `...` matches anything;
- ```` ```{code-block} c ```` with `:caption: main.c` is a file of that name;
- `<!-- not run: why -->` directly before a block keeps it from being run;
- `<!-- needs: gcc, qemu-system-arm -->` directly before a block has it run only where these
  programs are installed;
- `<!-- files: flowers.csv, day1.csv -->` anywhere on the page creates sample files first.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FENCE = re.compile(r"^(?P<fence>`{3,})(?P<info>.*)$")
CODE = re.compile(r"^\{code-block\}\s*(?P<language>\w+)$")
CAPTION = re.compile(r"^:caption:\s*(?P<name>\S+)$", re.MULTILINE)
OPTIONS = re.compile(r"\A(:\w+:.*\n)+\n?")
NOT_RUN = re.compile(r"^<!-- not run: (?P<why>.+) -->$")
NEEDS = re.compile(r"^<!-- needs: (?P<programs>.+) -->$")
FILES = re.compile(r"^<!-- files: (?P<names>.+) -->$", re.MULTILINE)
OUTPUT = "text"


class PageError(Exception):
    """A page is wrong; the message names the page and the line."""


class Block(NamedTuple):
    """One code block."""

    page: Path
    line: int  # of its first line of code, from 1
    language: str
    text: str
    file: str | None = None  # the file that it is written to
    not_run: str | None = None  # why
    output: str | None = None  # expected output, if the page has one
    needs: tuple[str, ...] = ()  # programs without which it is left out

    @property
    def place(self) -> str:
        """The page and line, in the form that editors understand."""
        return f"{self.page}:{self.line}"

    @property
    def missing(self) -> list[str]:
        """The programs that it needs and that are not installed."""
        return [program for program in self.needs if shutil.which(program) is None]


def blocks(page: Path) -> list[Block]:
    """Return the code blocks of a page, each with the output below it."""
    result: list[Block] = []
    below = -1  # the line after the last block
    text = page.read_text(encoding="utf-8")
    for block, end, free_before in _fenced(page, text.splitlines()):
        if block.language != OUTPUT or block.not_run or block.file:
            result.append(block)
        elif result and free_before <= below:
            result[-1] = result[-1]._replace(output=block.text)
        else:
            raise PageError(
                f"{block.place}: a text block is the output of the block above, or not run"
            )
        below = end
    return result


def sample_files(page: Path) -> list[str]:
    """Return the names of the sample files that a page needs."""
    found = FILES.findall(page.read_text(encoding="utf-8"))
    return [name.strip() for names in found for name in names.split(",")]


def _fenced(page: Path, lines: list[str]) -> Iterator[tuple[Block, int, int]]:
    """Yield each block with the line after it, and the first blank line before it."""
    at = 0
    while at < len(lines):
        opening = FENCE.match(lines[at])
        if opening is None:
            at += 1
            continue
        end = next(
            (n for n in range(at + 1, len(lines)) if lines[n].rstrip() == opening["fence"]), None
        )
        if end is None:
            raise PageError(f"{page}:{at + 1}: the block has no end")
        block = _block(page, at, opening["info"].strip(), lines[at + 1 : end])
        if block is not None:
            free = at
            while free and not lines[free - 1].strip():
                free -= 1
            yield _marked(block, lines[at - 1] if at else ""), end + 1, free
        at = end + 1


def _marked(block: Block, before: str) -> Block:
    """Return a block with what the line before it says."""
    not_run, needs = NOT_RUN.match(before), NEEDS.match(before)
    programs = needs["programs"].split(",") if needs else []
    return block._replace(
        not_run=not_run["why"] if not_run else None, needs=tuple(map(str.strip, programs))
    )


def _block(page: Path, at: int, info: str, inside: list[str]) -> Block | None:
    """Return a block of code, or None for a directive that is not code."""
    text = "".join(f"{line}\n" for line in inside)
    if not info.startswith("{"):
        return Block(page, at + 2, info, text)
    code = CODE.match(info)
    if code is None:
        return None
    options = OPTIONS.match(text)
    caption = CAPTION.search(options[0]) if options else None
    skipped = options[0].count("\n") if options else 0
    return Block(
        page, at + 2 + skipped, code["language"], text[options.end() :] if options else text,
        caption["name"] if caption else None,
    )  # fmt: skip
