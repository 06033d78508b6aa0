"""Every code block of the README and of the site runs, and prints what the page says."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread
from sphinx.util.inventory import InventoryFile

import dirad
from dirad import export, images, plot, storage, tables
from dirad.cli import app
from experiments.commands import app as experiments

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
sys.path.append(str(DOCS))

from blocks import PageError, blocks  # noqa: E402
from pages import PICTURES, pages, pictures, run_page  # noqa: E402

LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)")
BLOCKS = [block for page in pages() for block in blocks(page)]
LEFT_OUT = [block for block in BLOCKS if block.not_run]
ALIKE = 0.02  # mean difference of pixels, from 0 to 1, up to which two pictures are the same


def name_of(page):
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", dict.fromkeys(block.page for block in BLOCKS), ids=name_of)
def test_the_blocks_of_a_page_do_what_it_says(page, tmp_path):
    run_page(page, tmp_path)
    for name in pictures(page):
        drawn, kept = imread(tmp_path / name), imread(PICTURES / name)
        assert drawn.shape == kept.shape, f"{name} is of old: python docs/pages.py --update"
        assert np.abs(drawn - kept).mean() < ALIKE, name


@pytest.mark.parametrize("block", LEFT_OUT, ids=lambda block: f"{name_of(block.page)}:{block.line}")
def test_a_block_that_is_not_run_says_why(block):
    assert len(block.not_run) > 10
    pytest.skip(block.not_run)


NEEDING = [block for block in BLOCKS if block.needs]


@pytest.mark.parametrize("block", NEEDING, ids=lambda block: f"{name_of(block.page)}:{block.line}")
def test_a_block_is_left_out_only_where_programs_are_missing(block):
    if block.missing:
        pytest.skip(f"missing: {', '.join(block.missing)}")


def test_a_block_that_needs_a_program_is_left_out_without_it(tmp_path):
    page = tmp_path / "page.md"
    for program, is_run in (("no-such-program, sh", False), ("sh", True)):
        page.write_text(f"<!-- needs: {program} -->\n```sh\ntouch ran\n```\n")
        run_page(page, tmp_path)
        assert (tmp_path / "ran").exists() == is_run


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_links_lead_somewhere(page):
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_every_picture_kept_is_shown():
    shown = {name for page in pages() for name in pictures(page)}
    assert shown == {path.name for path in PICTURES.glob("*.png")}


def test_tutorials_are_run():
    """Guards the tests above: a change of the marks must not leave all blocks out."""
    for name in (
        "first-network",
        "stream",
        "microcontroller",
        "device-learning",
        "reading",
        "images",
    ):
        page = DOCS / "tutorials" / f"{name}.md"
        run = [block for block in BLOCKS if block.page == page and not block.not_run]
        assert sum(block.language == "python" for block in run) >= 3, name
        assert sum(block.language == "console" for block in run) >= 1, name


# ------------------------------------------------------------------ the site


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built as `make docs` does."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    done = subprocess.run(
        [*command, str(DOCS), str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_the_reference_has_every_public_name(site):
    with (site / "objects.inv").open("rb") as file:
        inventory = InventoryFile.load(file, "", lambda base, target: target)
    found = {name.rsplit(".", 1)[-1] for kind in inventory for name in inventory[kind]}
    for module in (dirad, export, images, plot, storage, tables):
        assert set(module.__all__) - found == set(), module.__name__


def test_every_command_and_constant_has_its_place(site):
    text = (site / "commands.html").read_text()
    for program, least in ((app, 7), (experiments, 9)):
        commands = [name for name in program if not name.startswith("-")]
        assert len(commands) > least
        called = [f"{program.name[0]} {name}" for name in commands]
        assert [call for call in called if f"<h3>{call}<" not in text] == []
    text = (site / "api" / "constants.html").read_text()
    constants = [*dirad.Params.__dataclass_fields__, "T_CP", "false_alarms", "merge_after"]
    assert [name for name in constants if f'<span class="pre">{name}</span>' not in text] == []
    assert "step size of parameter adaptation" in text


# ------------------------------------------------------------------ how blocks are marked


def checked(tmp_path, text):
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    folder = tmp_path / "run"
    folder.mkdir(exist_ok=True)
    run_page(page, folder)
    return folder


def test_one_namespace_files_commands_and_outputs(tmp_path):
    folder = checked(
        tmp_path,
        "```python\nx = 3\n```\n\ntext\n\n```python\nprint(x)\nprint('from 1 to 9')\n```\n"
        "```text\n3\nfrom ... to 9\n```\n"
        "```{code-block} c\n:caption: a.c\n\nint main(void) { return 0; }\n```\n"
        "```console\n$ cat a.c  # all of it\nint main(void) { return 0; }\n$ touch b\n```\n"
        "```sh\n# a remark\ntouch c\n```\n",
    )
    assert {path.name for path in folder.iterdir()} == {"a.c", "b", "c"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("```python\nprint(1)\n```\n```text\n2\n```\n", "prints something else"),
        ("```python\nx = 1\n\n1 / 0\n```\n", "page.md:2: ZeroDivisionError"),
        ("```console\n$ echo yes\nno\n```\n", "prints something else"),
        ("```console\n$ false\n```\n", "ends with 1"),
        ("```sh\ndirad fit no-such.csv --target y\n```\n", "no-such.csv"),
        ("```console\n$ dirad --version\ndirad: refused\n```\n", "ends with 0"),
        ("```console\n$ dirad inspect no-such.dirad\ndirad: other\n```\n", "something else"),
        ("```console\nno command\n```\n", "begins with \\$"),
        ("```ruby\nputs 1\n```\n", "'ruby'"),
        ("```\nx\n```\n", "nobody knows how to run ''"),
        ("```text\nof nothing\n```\n", "output of the block above"),
        ("```python\nprint(1)\n```\nAnd:\n```text\n1\n```\n", "output of the block above"),
        ("```python\nprint(1)\n", "no end"),
    ],
)
def test_what_is_wrong_is_told(tmp_path, text, said):
    with pytest.raises(PageError, match=said):
        checked(tmp_path, text)


def test_what_a_command_refuses_can_be_shown(tmp_path):
    checked(tmp_path, "```console\n$ dirad inspect no-such\ndirad: no-such: ...\n```\n")


def test_update_writes_what_is_printed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nprint('a\\nb')\n```\n```text\n?\n```\n\nAnd:\n\n"
        "```console\n$ echo one\n?\n$ echo two; echo three\n?\n?\n$ echo four\n```\n"
    )
    run_page(page, tmp_path, update=True)
    assert page.read_text() == (
        "```python\nprint('a\\nb')\n```\n```text\na\nb\n```\n\nAnd:\n\n"
        "```console\n$ echo one\none\n$ echo two; echo three\ntwo\nthree\n$ echo four\n```\n"
    )
    run_page(page, tmp_path)


def test_fields_are_told_by_the_remarks_beside_them():
    from extensions.fields import table

    lines = table(dirad.Params, dirad.PRESETS).splitlines()
    assert lines[0] == "| name | `paper` | `default` | meaning |"
    assert "| `gamma` | `2.0` | `0.03` | γ: step size of parameter adaptation |" in lines
    names = [line.split("`")[1] for line in lines[2:] if line.startswith("| `")]
    assert names == list(dirad.Params.__dataclass_fields__)
