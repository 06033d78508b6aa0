"""Run the code blocks of pages as a reader would, and compare their output.

    python docs/pages.py                     # check all pages
    python docs/pages.py docs/index.md       # or some
    python docs/pages.py --update            # rewrite outputs and pictures

`blocks.py` describes how blocks are marked. The pictures in `_static` whose names begin with the
name of a page are those that its blocks save.
"""

import argparse
import contextlib
import difflib
import doctest
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["MPLBACKEND"] = "Agg"

from blocks import Block, PageError, blocks, sample_files

HERE = Path(__file__).parent
PICTURES = HERE / "_static"
PICTURE = re.compile(r"!\[[^\]]*\]\((?:\.\./)?_static/([\w-]+\.png)\)")
SHELL = re.compile(r"[|<>;&`$*]")  # what needs a shell
REFUSED = "dirad: "  # how error messages of the command line begin
CHECKER = doctest.OutputChecker()


def pages() -> list[Path]:
    """Return all pages: those of the site, and the README."""
    return [HERE.parent / "README.md", *sorted(HERE.rglob("*.md"))]


def run_page(page: Path, folder: Path, *, update: bool = False) -> None:
    """Run all blocks of a page in a folder; raise PageError if the page is wrong.

    With `update`, its outputs and pictures are rewritten instead.
    """
    import samples
    from matplotlib import pyplot

    for name in sample_files(page):
        samples.write(name, folder)
    found = list(_run(page, folder))
    pyplot.close("all")
    if update:
        _write_outputs(page, found)
        for name in pictures(page):
            shutil.copy(folder / name, PICTURES / name)
        return
    for block, printed in found:
        if block.output is not None and not _alike(block.output, printed):
            raise PageError(f"{block.place}: prints something else\n{_differences(block, printed)}")


def pictures(page: Path) -> list[str]:
    """Return the names of the pictures in `_static` that a page shows and its blocks save."""
    shown = PICTURE.findall(page.read_text(encoding="utf-8"))
    return [name for name in shown if name.startswith(f"{page.stem}-")]


# ------------------------------------------------------------------ running


def _run(page: Path, folder: Path) -> Iterator[tuple[Block, str]]:
    """Run block after block; yield each with its output."""
    space: dict[str, Any] = {"__name__": "__main__"}
    with contextlib.chdir(folder), _importing_from(folder):
        for block in blocks(page):
            if block.not_run or block.missing:
                continue
            if block.file is not None:
                Path(block.file).write_text(block.text, encoding="utf-8")
            elif block.language == "python":
                yield block, _run_python(block, space)
            elif block.language in ("console", "sh", "bash"):
                yield from _run_commands(block)
            else:
                raise PageError(f"{block.place}: nobody knows how to run {block.language!r}")


@contextlib.contextmanager
def _importing_from(folder: Path) -> Iterator[None]:
    """Let Python import from the folder, as if it were the working directory of a script."""
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            place = getattr(sys.modules[name], "__file__", None)
            if place and Path(place).parent == folder:
                del sys.modules[name]


def _run_python(block: Block, space: dict[str, Any]) -> str:
    lines = "\n" * (block.line - 1) + block.text  # so that errors name the line of the page
    with _caught() as printed:
        try:
            exec(compile(lines, str(block.page), "exec"), space)
        except Exception as error:
            raise PageError(f"{block.place}: {type(error).__name__}: {error}") from error
    return printed.text()


def _run_commands(block: Block) -> Iterator[tuple[Block, str]]:
    """Run the commands of a block; yield a block for each, with its output."""
    for one in commands(block):
        code, printed = _run_command(one.text)
        refused = one.output is not None and one.output.startswith(REFUSED)
        if (code != 0) != refused:
            raise PageError(f"{one.place}: {one.text.strip()} ends with {code}\n{printed}")
        yield one, printed


def commands(block: Block) -> list[Block]:
    """Return the commands of a block, each with its expected output."""
    lines = block.text.splitlines()
    if block.language != "console":
        bare = [line for line in lines if line.strip() and not line.startswith("#")]
        return [block._replace(text=line, output=None) for line in bare]
    result: list[Block] = []
    for number, line in enumerate(lines):
        if line.startswith("$ "):
            result.append(block._replace(text=line[2:], line=block.line + number, output=None))
        elif not result:
            raise PageError(f"{block.place}: a console block begins with $ and a command")
        else:
            last = result[-1]
            result[-1] = last._replace(output=(last.output or "") + line + "\n")
    return result


def _run_command(command: str) -> tuple[int, str]:
    """Run a command (`dirad` in this process, if no shell is needed); return code and output."""
    from dirad import cli

    words = shlex.split(command, comments=True)
    if words[0] == "dirad" and not SHELL.search(" ".join(words)):
        with _caught() as printed:
            code = cli.run(words[1:])
        return code, printed.text()
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], env=os.environ | {"PATH": path},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


class _Printed(io.TextIOWrapper):
    """Standard output that accepts text and bytes."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def text(self) -> str:
        """Return the output so far."""
        self.flush()
        raw: Any = self.buffer
        return raw.getvalue().decode()


@contextlib.contextmanager
def _caught() -> Iterator[_Printed]:
    printed = _Printed()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        yield printed


# ------------------------------------------------------------------ comparing and writing


def _alike(expected: str, printed: str) -> bool:
    """Are both the same, up to the number of spaces between words?"""
    one, other = (re.sub(" +", " ", _trimmed(text)) for text in (expected, printed))
    return CHECKER.check_output(one, other, doctest.ELLIPSIS)


def _trimmed(text: str) -> str:
    """Return a text without trailing spaces, without blank lines around it, and without the bar
    that the first run on a machine shows while it compiles.
    """
    from dirad.estimators.progress import COMPILING

    lines = (line.rstrip() for line in text.splitlines() if not line.startswith(COMPILING))
    return "\n".join(lines).strip("\n") + "\n"


def _differences(block: Block, printed: str) -> str:
    lines = [_trimmed(text).splitlines() for text in (block.output or "", printed)]
    return "\n".join(difflib.unified_diff(*lines, "the page", "printed", lineterm=""))


def _write_outputs(page: Path, found: list[tuple[Block, str]]) -> None:
    """Replace the expected outputs of a page by the real ones, from the end to the beginning."""
    text = page.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    for block, printed in reversed(found):
        if block.output is None or _alike(block.output, printed):
            continue
        start = block.line - 1 + block.text.rstrip("\n").count("\n") + 1
        if block.language == "python":
            start = next(n for n in range(start, len(lines)) if lines[n].startswith("```text")) + 1
        length = len(block.output.splitlines())
        lines[start : start + length] = _trimmed(printed).splitlines(keepends=True)
    page.write_text("".join(lines), encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Check or update the pages named, or all of them; return 1 if one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", type=Path, help="default: all")
    parser.add_argument("--update", action="store_true", help="write what is printed and drawn")
    given = parser.parse_args(arguments)
    update, named = given.update, [page.resolve() for page in given.pages]
    wrong = 0
    for page in named or pages():
        with tempfile.TemporaryDirectory() as folder:
            try:
                run_page(page, Path(folder), update=update)
            except PageError as error:
                print(error, file=sys.stderr)
                wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
