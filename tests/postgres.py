"""PostgreSQL as tests start it: in a temporary folder, with a port of its own.

Debian keeps its programs off the PATH. They refuse to run as root: there, the user `postgres` runs
them.
"""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

USER = "postgres"
PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin")


def programs() -> Path | None:
    """Return the folder of PostgreSQL's programs, the newest of several; None if there is none."""
    found = shutil.which("initdb")
    if found is not None and shutil.which("pg_ctl") is not None:
        return Path(found).resolve().parent
    folders = [path for place in PLACES for path in Path("/").glob(place[1:])]
    return max((one for one in folders if (one / "initdb").exists()), default=None)


class Postgres:
    """A database server that can be stopped and started again; it keeps its port."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder, self._programs = folder, programs
        self.port = _free_port()
        if os.geteuid() == 0:
            shutil.chown(folder, USER, USER)
        arguments = ["-D", folder / "data", "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C"]
        self._run("initdb", *arguments)

    @property
    def url(self) -> str:
        """The address of its first database."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        """Return the address of a database."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    def create(self, database: str) -> str:
        """Create an empty database, and return its address."""
        self.execute(f'CREATE DATABASE "{database}"')
        return self.url_of(database)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = f"-c listen_addresses=127.0.0.1 -c port={self.port} -k {self.folder}"
        log = self.folder / "log"
        self._run("pg_ctl", "-D", self.folder / "data", "-l", log, "-o", options, "-w", "start")

    def stop(self, mode: str = "immediate") -> None:
        """Stop it: "immediate" as a crash does, "fast" after what is under way was rolled back."""
        self._run("pg_ctl", "-D", self.folder / "data", "-m", mode, "-w", "stop")

    def execute(self, statement: str) -> list[tuple]:
        """Carry out a statement, as an administrator would, and return the rows."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            found = connection.execute(statement)
            return found.fetchall() if found.description else []

    def dump(self, database: str, file: Path) -> None:
        """Make a backup of a database, as the operating guide says."""
        self._run("pg_dump", *self._address, "--format=custom", "--file", file, database)

    def restore(self, file: Path, database: str) -> None:
        """Restore a backup into an empty database."""
        self._run("pg_restore", *self._address, "--dbname", database, file)

    @property
    def _address(self) -> tuple[str, ...]:
        return "--host=127.0.0.1", f"--port={self.port}", f"--username={USER}"

    def _run(self, program: str, *arguments: object) -> None:
        command = [str(self._programs / program), *map(str, arguments)]
        if os.geteuid() == 0:
            command = ["runuser", "-u", USER, "--", *command]
        # What it starts must not hold a pipe open for which this process would wait.
        with tempfile.TemporaryFile() as said:
            done = subprocess.run(command, stdout=said, stderr=said, cwd="/")
            if done.returncode:
                said.seek(0)
                raise RuntimeError(f"{program}: {said.read().decode()}")


@contextmanager
def running() -> Iterator[Postgres]:
    """Run a database server while the block runs; skip the tests where it is not installed."""
    pytest.importorskip("psycopg", reason="the extra dirad[postgres] is not installed")
    place = programs()
    if place is None or (os.geteuid() == 0 and not shutil.which("runuser")):
        pytest.skip("PostgreSQL is not installed")
    folder = Path(tempfile.mkdtemp(prefix="dirad-postgres-"))
    try:
        server = Postgres(folder, place)
        server.start()
        try:
            yield server
        finally:
            with suppress(RuntimeError):
                server.stop()
    finally:
        shutil.rmtree(folder)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]
