"""Files are written whole or not at all: through links, and with clear words where it fails."""

import os
import subprocess
import sys

import pytest

from dirad.atomic import replacing


def write(path, content=b"new"):
    with replacing(path) as part:
        part.write_bytes(content)


# ------------------------------------------------------------------ links and other places


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_and_its_target_is_written(tmp_path, there):
    (tmp_path / "store").mkdir()
    true = tmp_path / "store" / "true.dirad"
    if there:
        true.write_bytes(b"old")
    first, second = tmp_path / "first", tmp_path / "second"
    first.symlink_to("store/true.dirad")
    second.symlink_to(first)
    write(second)
    assert first.is_symlink()
    assert second.is_symlink()
    assert true.read_bytes() == b"new"
    assert {path.name for path in tmp_path.rglob("*")} == {"store", "true.dirad", "first", "second"}


def a_folder(path):
    path.mkdir()


def a_link_to_itself(path):
    path.symlink_to(path)


def a_pipe(path):
    os.mkfifo(path)


def a_device(path):
    path.symlink_to("/dev/null")


def in_a_missing_folder(path):
    path.symlink_to("missing/file")


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (a_folder, "this is a folder"),
        (a_link_to_itself, "a symbolic link that leads back to itself"),
        (a_pipe, "not a regular file"),
        (a_device, "not a regular file"),
        (in_a_missing_folder, "there is no folder"),
    ],
)
def test_what_cannot_be_replaced_is_refused_before_the_work(tmp_path, made, said):
    path = tmp_path / "model.dirad"
    made(path)
    before = path.lstat()
    with pytest.raises(OSError, match=said) as found, replacing(path):
        pytest.fail("this is the work")
    assert found.value.filename == str(path)
    assert path.lstat().st_ino == before.st_ino
    assert os.listdir(tmp_path) == ["model.dirad"]


def test_a_name_may_be_as_long_as_names_are(tmp_path):
    path = tmp_path / ("ä" * 125)
    write(path)
    assert path.read_bytes() == b"new"


# ------------------------------------------------------------------ disks that are full


FULL = """
import resource, signal, sys
from dirad.atomic import replacing
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    with replacing(sys.argv[1]) as part:
        part.write_bytes(bytes(5000))
except OSError as error:
    print(error.filename, error.strerror, sep=": ", end="")
"""


def test_a_file_that_becomes_too_large_is_named(tmp_path):
    path = tmp_path / "model.dirad"
    path.write_bytes(b"old")
    done = subprocess.run([sys.executable, "-c", FULL, path], capture_output=True, text=True)
    assert done.stdout == f"{path}: cannot be written: File too large"
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["model.dirad"]


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="there is no folder such as /proc")
def test_a_folder_that_cannot_be_written_is_told_before_the_work():
    with pytest.raises(OSError, match="cannot be written") as found, replacing("/proc/model.dirad"):
        pytest.fail("this is the work")
    assert found.value.filename == "/proc/model.dirad"
