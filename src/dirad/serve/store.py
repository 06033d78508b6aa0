"""Store: the database of a server, with exactly one writer at a time.

SQLite in a folder, in WAL mode with `synchronous=FULL`, or PostgreSQL. A change that was committed
is on disk. The lock that the store holds says who may start to write; the epoch in each change
fences off a server that has lost the lock without noticing.
"""

import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from dirad.serve import schema
from dirad.serve.errors import Fenced, StorageFull, StoreAway

FILE = "dirad.sqlite"
AWAY = "the database cannot be used at the moment"
POSTGRES = ("postgresql://", "postgres://", "postgresql+psycopg://")
LOCK_NUMBER = 0x64697261  # of PostgreSQL's advisory lock: "dira"
LOCK_SECONDS = 15.0  # that a new server waits for the lock of one that has just ended
DISK_FULL = (
    "disk is full",
    "no space left",
    "disk full",
    "could not extend file",
    "disk i/o error",
)
# PostgreSQL gives up a client whose machine is gone after 11 seconds, so that another can take
# over, and one that stops in the middle of a transaction after a minute.
SESSION = {
    "synchronous_commit": "on",  # whatever the server's own setting is
    "tcp_keepalives_idle": "5s",
    "tcp_keepalives_interval": "2s",
    "tcp_keepalives_count": "3",
    "idle_in_transaction_session_timeout": "60s",
    "lock_timeout": "30s",
}
CONNECTION = {
    "connect_timeout": 5,  # seconds
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 11_000,  # milliseconds
    "options": " ".join(f"-c {name}={value}" for name, value in SESSION.items()),
}
POOL_SECONDS = 10.0  # that a request waits for a connection
# Changes no number, but nobody else can change it before the transaction ends.
CHECK_OWNER = (
    schema.lease.update()
    .where(schema.lease.c.epoch == sa.bindparam("own"))
    .values(epoch=sa.bindparam("own"))
)


class StoreInUse(Exception):
    """Another server holds the store."""


class StoreError(Exception):
    """The store cannot be used: damaged, of a newer version, or not a store."""


def is_postgres(store: str) -> bool:
    """Say whether a store is a PostgreSQL database and not a folder."""
    return store.startswith(POSTGRES)


def shown(store: str) -> str:
    """Return the place of a store without the password.

    >>> shown("postgresql://user:secret@host/plant"), shown("plant")
    ('postgresql://user:***@host/plant', 'plant')
    """
    return re.sub(r"^(\w[\w+]*://[^/@:]*):[^/]*@", r"\1:***@", store)


class Store:
    """A database with the tables of `schema`; `own` makes this process its one writer."""

    def __init__(self, where: str | Path) -> None:
        self.where, self.shown = str(where), shown(str(where))
        self.is_postgres = is_postgres(self.where)
        self.engine = _postgres(self.where) if self.is_postgres else _sqlite(Path(self.where))
        self.epoch = 0
        self._write_lock = threading.Lock()
        self._lock: Any = None  # an open file, or a connection that holds the advisory lock
        with self._explained():
            self._check_tables()

    def _check_tables(self) -> None:
        try:
            with self.engine.begin() as connection:
                if self.is_postgres:  # two programs may open a new database at the same time
                    connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({LOCK_NUMBER + 1})"))
                schema.tables.create_all(connection)
                found = connection.execute(sa.select(schema.about.c.version)).scalar()
                if found is None:
                    connection.execute(schema.about.insert().values(version=schema.VERSION))
        except DBAPIError as error:
            if isinstance(error, OperationalError) or "not a database" not in str(error.orig):
                raise
            raise StoreError(f"{self.shown}: this is no store of dirad ({error.orig})") from None
        if found is not None and found > schema.VERSION:
            raise StoreError(
                f"{self.shown}: made by a newer dirad (version {found} of the store; this one "
                f"reads {schema.VERSION}): update dirad"
            )

    # ---------------------------------------------------------------- one writer

    def own(self, seconds: float = LOCK_SECONDS) -> None:
        """Become the one writer; wait for a server that has just ended, refuse if one goes on."""
        deadline = time.monotonic() + seconds
        while not self._try_lock():
            if time.monotonic() > deadline:
                raise StoreInUse(f"{self.shown}: in use by another server ({self._holder()})")
            time.sleep(0.2)
        holder = f"process {os.getpid()} on {socket.gethostname()}"
        with self._explained(), self.engine.begin() as connection:
            query = sa.select(schema.lease.c.epoch).with_for_update()
            epoch = connection.execute(query).scalar()
            self.epoch = (epoch or 0) + 1
            values = {"epoch": self.epoch, "holder": holder}
            change = schema.lease.insert().values(id=1) if epoch is None else schema.lease.update()
            connection.execute(change.values(**values))

    def keep(self) -> None:
        """Hold the lock again if the connection that held it was lost; called now and then.

        Whoever has taken the lock meanwhile has raised the epoch, or will: then this is fenced.
        """
        if self.is_postgres and not self._has_lock():
            self._try_lock()
        with self.reading() as connection:
            lease = connection.execute(sa.select(schema.lease)).first()
        if lease is None or lease.epoch != self.epoch:
            raise self._fenced("unknown" if lease is None else lease.holder)

    def _has_lock(self) -> bool:
        """Say whether the connection that holds PostgreSQL's lock is there still."""
        if self._lock is None:
            return False
        try:
            self._lock.execute(sa.text("SELECT 1"))
            return True
        except SQLAlchemyError:
            with suppress(SQLAlchemyError):
                self._lock.close()
            self._lock = None
            return False

    def close(self) -> None:
        """Give up the store."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        self.engine.dispose()

    def _try_lock(self) -> bool:
        if not self.is_postgres:
            return self._try_file_lock()
        with self._explained():
            connection = self.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            try:
                query = sa.text(f"SELECT pg_try_advisory_lock({LOCK_NUMBER})")
                if connection.execute(query).scalar():
                    self._lock = connection
                return self._lock is connection
            finally:
                if self._lock is not connection:
                    connection.close()

    def _try_file_lock(self) -> bool:
        try:
            import fcntl
        except ImportError:  # not on every system: there, the epoch alone protects
            return True
        handle = (Path(self.where) / "lock").open("a")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            handle.close()
            return False
        self._lock = handle
        return True

    def _holder(self) -> str:
        with self._explained(), self.engine.connect() as connection:
            return connection.execute(sa.select(schema.lease.c.holder)).scalar() or "unknown"

    # ---------------------------------------------------------------- transactions

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Give a connection for queries."""
        with self._explained(), self.engine.connect() as connection:
            yield connection.execution_options(is_query=True)

    @contextmanager
    def changing(self) -> Iterator[sa.Connection]:
        """Give a transaction that is on disk when the block ends; refuse it if this is fenced."""
        with self._write_lock, self._explained(), self.engine.begin() as connection:
            if connection.execute(CHECK_OWNER, {"own": self.epoch}).rowcount != 1:
                query = sa.select(schema.lease.c.holder)
                raise self._fenced(connection.execute(query).scalar() or "unknown")
            yield connection

    def _fenced(self, holder: str) -> Fenced:
        return Fenced(f"another server has taken over the store ({holder}): this one must end")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn the database's errors into those that a client can understand."""
        try:
            yield
        except OSError as error:
            raise StorageFull(f"the store cannot be written: {error.strerror}") from error
        except DBAPIError as error:
            text = str(error.orig).lower()
            if any(words in text for words in DISK_FULL):
                raise StorageFull("the disk of the store is full: nothing was accepted") from error
            if isinstance(error, OperationalError) or error.connection_invalidated:
                raise StoreAway(AWAY, _first_line(error.orig)) from error
            raise
        except PoolTimeout as error:
            raise StoreAway(AWAY, "every connection is busy") from error


def _first_line(error: Any) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def _sqlite(folder: Path) -> sa.Engine:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / FILE
    if not path.exists():
        path.touch(mode=0o600)
    engine = sa.create_engine(f"sqlite:///{path}", connect_args={"check_same_thread": False})

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # transactions begin below, not by the driver
        for pragma in (
            "busy_timeout=30000",
            "journal_mode=WAL",
            "synchronous=FULL",
            "foreign_keys=ON",
        ):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        is_query = connection.get_execution_options().get("is_query")
        connection.exec_driver_sql("BEGIN" if is_query else "BEGIN IMMEDIATE")

    return engine


def _postgres(url: str) -> sa.Engine:
    for prefix in POSTGRES:
        if url.startswith(prefix):
            url = POSTGRES[-1] + url[len(prefix) :]
            break
    try:
        return sa.create_engine(
            url,
            pool_pre_ping=True,
            pool_size=10,
            pool_timeout=POOL_SECONDS,
            connect_args=CONNECTION,
        )
    except ImportError:
        raise StoreError("PostgreSQL needs psycopg: pip install 'dirad[postgres]'") from None
    except SQLAlchemyError as error:
        raise StoreError(f"this is no address of a database: {_first_line(error)}") from None
