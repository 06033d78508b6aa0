"""The tables of a store: SQLite in a folder, or PostgreSQL."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)

VERSION = 1  # of these tables; a server reads its own and older ones

tables = MetaData()

about = Table("about", tables, Column("version", Integer, nullable=False))

# Who may write. Each server that takes over the store adds 1 to the epoch, and every change names
# the epoch of its server, so that nothing of an earlier one is written any more.
lease = Table(
    "lease",
    tables,
    Column("id", Integer, primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("holder", Text, nullable=False),
)

_STREAM = ("stream", Integer)


def _of_stream() -> Column:
    return Column(*_STREAM, ForeignKey("streams.id", ondelete="CASCADE"), primary_key=True)


streams = Table(
    "streams",
    tables,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("specification", Text, nullable=False),  # JSON
    Column("created", Float, nullable=False),  # seconds since 1970, as everywhere here
    Column("samples", BigInteger, nullable=False, default=0),  # rows that were accepted
    Column("seq", BigInteger, nullable=False, default=0),  # of the last record
    Column("label_type", Text),  # "text" or "number", by the first label
    sqlite_autoincrement=True,  # the number of a deleted stream is never used again
)

journal = Table(  # what was accepted, and is not part of the snapshot
    "journal",
    tables,
    _of_stream(),
    Column("seq", BigInteger, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("rows", Integer, nullable=False),
    Column("payload", LargeBinary, nullable=False),
    Column("skipped", Boolean, nullable=False, default=False),  # it ended the learning process
)

snapshots = Table(  # the state of each learner after a record
    "snapshots",
    tables,
    _of_stream(),
    Column("seq", BigInteger, nullable=False),
    Column("state", LargeBinary, nullable=False),  # a model file
)

requests = Table(  # what was answered to requests that may be repeated
    "requests",
    tables,
    _of_stream(),
    Column("key", Text, primary_key=True),
    Column("digest", Text, nullable=False),  # of the content
    Column("answer", LargeBinary, nullable=False),
    Column("created", Float, nullable=False),
    Index("requests_by_age", "stream", "created"),
)

sample_ids = Table(  # the client's own names of rows, for late labels
    "sample_ids",
    tables,
    _of_stream(),
    Column("id", Text, primary_key=True),
    Column("row", BigInteger, nullable=False),
    Index("sample_ids_by_row", "stream", "row"),
)

events = Table(
    "events",
    tables,
    _of_stream(),
    Column("number", BigInteger, primary_key=True),
    Column("created", Float, nullable=False),
    Column("content", Text, nullable=False),  # JSON
)

scores = Table(  # how well rows were predicted before they were learned, by thousands of rows
    "scores",
    tables,
    _of_stream(),
    Column("part", BigInteger, primary_key=True),  # row // 1000
    Column("labelled", BigInteger, nullable=False),
    Column("total", Float, nullable=False),  # right answers, or the sum of absolute errors
)

hooks = Table(
    "hooks",
    tables,
    Column("id", Integer, primary_key=True),
    Column(*_STREAM, ForeignKey("streams.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("url", Text, nullable=False),
    Column("secret", Text, nullable=False),
    Column("kinds", Text, nullable=False),  # JSON: kinds of events, or ["alarm"]
    Column("format", Text, nullable=False),
    Column("created", Float, nullable=False),
    sqlite_autoincrement=True,
)

deliveries = Table(  # events that are still to be delivered
    "deliveries",
    tables,
    Column("hook", ForeignKey("hooks.id", ondelete="CASCADE"), primary_key=True),
    Column("number", BigInteger, primary_key=True),
    Column("attempts", Integer, nullable=False, default=0),
    Column("due", Float, nullable=False),
    Column("error", Text),
    Index("deliveries_by_time", "due"),
)

tokens = Table(
    "tokens",
    tables,
    Column("id", Text, primary_key=True),
    Column("digest", Text, nullable=False),  # SHA-256 of the secret
    Column("name", Text, nullable=False),
    Column("scope", Text, nullable=False),
    Column("streams", Text),  # JSON: the only streams it is for; NULL: all
    Column("created", Float, nullable=False),
)
