"""What is written to and read from a store, one function for each: `Store` gives the connection."""

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from dirad.serve import schema
from dirad.serve.errors import Conflict, NotFound, Refused
from dirad.serve.records import Record
from dirad.serve.specification import Specification

PART = 1000  # rows per score
KEPT_IDS = 100_000  # rows of a stream whose ids are remembered
IDS_AT_ONCE = 5_000
KEPT_EVENTS = 10_000  # of a stream
REQUEST_SECONDS = 24 * 3600.0  # that the answer to a request with an Idempotency-Key is kept

# Statements of every request are made once: to make them takes longer than to carry them out.
_FIND = sa.select(schema.streams).where(schema.streams.c.id == sa.bindparam("stream"))
_ADD = schema.journal.insert()
_ADVANCE = (
    schema.streams.update()
    .where(schema.streams.c.id == sa.bindparam("stream"))
    .values({one: sa.bindparam(f"new_{one}") for one in ("seq", "samples", "label_type")})
)
_RAISE_SCORE = (
    schema.scores.update()
    .where(
        schema.scores.c.stream == sa.bindparam("its_stream"),
        schema.scores.c.part == sa.bindparam("its_part"),
    )
    .values(
        labelled=schema.scores.c.labelled + sa.bindparam("more_labelled"),
        total=schema.scores.c.total + sa.bindparam("more_total"),
    )
)


@dataclass(frozen=True)
class StreamRow:
    """A stream as the store knows it."""

    id: int
    name: str
    specification: Specification
    created: float
    samples: int
    seq: int
    label_type: str | None


@dataclass(frozen=True)
class Score:
    """How well the rows of a request were predicted."""

    labelled: int
    total: float  # right answers, or the sum of absolute errors


@dataclass(frozen=True)
class Request:
    """A request that changes a stream, as it is accepted."""

    record: Record
    answer: bytes  # JSON without the number of the first row
    key: str | None = None
    digest: str = ""
    ids: Sequence[str] | None = None
    label_type: str | None = None
    score: Score | None = None


def all_streams(connection: Connection) -> list[StreamRow]:
    """Return all streams, oldest first."""
    found = connection.execute(sa.select(schema.streams).order_by(schema.streams.c.id))
    return [_stream(row) for row in found.mappings()]


def create_stream(
    connection: Connection, name: str, specification: Specification, most: int
) -> tuple[StreamRow, bool]:
    """Return the stream of this name, and whether it is new; refuse if there is a different one."""
    streams = schema.streams
    found = connection.execute(sa.select(streams).where(streams.c.name == name)).mappings().first()
    if found is not None:
        if Specification.of_text(found["specification"]) != specification:
            raise Conflict(f"there is a stream {name!r} already, and it is different")
        return _stream(found), False
    if connection.execute(sa.select(sa.func.count()).select_from(streams)).scalar_one() >= most:
        raise Refused(f"there are {most} streams already, and no more are allowed", 409)
    values = {"name": name, "specification": specification.text, "created": time.time()}
    connection.execute(streams.insert().values(**values))
    created = connection.execute(sa.select(streams).where(streams.c.name == name)).mappings().one()
    return _stream(created), True


def has_stream(connection: Connection, stream: int) -> bool:
    """Say whether a stream is there still."""
    streams = schema.streams
    return (
        connection.execute(sa.select(streams.c.id).where(streams.c.id == stream)).first()
        is not None
    )


def delete_stream(connection: Connection, stream: int) -> None:
    """Delete a stream and everything that belongs to it."""
    connection.execute(schema.streams.delete().where(schema.streams.c.id == stream))


def append(connection: Connection, stream: int, request: Request) -> tuple[bytes, StreamRow]:
    """Add a request to the journal; return its answer, and the stream afterwards.

    The answer to a request whose key was seen before is the earlier answer, and nothing is added.
    """
    row = connection.execute(_FIND, {"stream": stream}).mappings().first()
    if row is None:
        raise NotFound("the stream was deleted")
    if request.key is not None:
        repeated = answered(connection, stream, request.key, request.digest)
        if repeated is not None:
            return repeated, _stream(row)
    if None not in (request.label_type, row["label_type"]) and (
        request.label_type != row["label_type"]
    ):
        raise Refused(f"labels: those before are of type {row['label_type']}, these are not")
    record, seq, first = request.record, row["seq"] + 1, row["samples"]
    entry = {"stream": stream, "seq": seq, "kind": record.kind, "rows": record.rows}
    connection.execute(_ADD, entry | {"payload": record.payload})
    changes = {"seq": seq, "samples": first + record.rows}
    changes["label_type"] = row["label_type"] or request.label_type
    new = {f"new_{name}": value for name, value in changes.items()}
    connection.execute(_ADVANCE, {"stream": stream} | new)
    if request.ids is not None:
        _add_ids(connection, stream, request.ids, first)
    if request.score is not None and request.score.labelled:
        _add_score(connection, stream, first // PART, request.score)
    answer = request.answer
    if record.rows:
        answer = json.dumps({"first_row": first}).encode()[:-1] + b"," + answer[1:]
    if request.key is not None:
        entry = {"stream": stream, "key": request.key, "digest": request.digest, "answer": answer}
        connection.execute(schema.requests.insert().values(**entry, created=time.time()))
    return answer, _stream({**row, **changes})


def answered(connection: Connection, stream: int, key: str, digest: str) -> bytes | None:
    """Return what was answered to an earlier request with this key."""
    table = schema.requests
    query = sa.select(table.c.digest, table.c.answer).where(
        table.c.stream == stream, table.c.key == key
    )
    found = connection.execute(query).first()
    if found is None:
        return None
    if found.digest != digest:
        raise Refused("this Idempotency-Key was used for a request with another content")
    return found.answer


def _add_ids(connection: Connection, stream: int, ids: Sequence[str], first: int) -> None:
    table = schema.sample_ids
    repeated = _known_ids(connection, stream, ids)
    if repeated:
        raise Conflict(f"there is a sample with the id {next(iter(repeated))!r:.80} already")
    entries = [{"stream": stream, "id": one, "row": first + i} for i, one in enumerate(ids)]
    connection.execute(table.insert(), entries)
    old = first + len(ids) - KEPT_IDS
    connection.execute(table.delete().where(table.c.stream == stream, table.c.row < old))


def rows_of_ids(connection: Connection, stream: int, ids: Sequence[str]) -> list[int]:
    """Return the rows that clients named by their own ids."""
    known = _known_ids(connection, stream, ids)
    missing = [one for one in ids if one not in known]
    if missing:
        raise Refused(f"there is no sample with the id {missing[0]!r:.80}, or it is too old")
    return [known[one] for one in ids]


def _known_ids(connection: Connection, stream: int, ids: Sequence[str]) -> dict[str, int]:
    """Return the rows of those ids that are known; databases limit the values of one query."""
    table, known = schema.sample_ids, {}
    for i in range(0, len(ids), IDS_AT_ONCE):
        some = table.c.id.in_(ids[i : i + IDS_AT_ONCE])
        query = sa.select(table.c.id, table.c.row).where(table.c.stream == stream, some)
        known |= {found.id: found.row for found in connection.execute(query)}
    return known


def _add_score(connection: Connection, stream: int, part: int, score: Score) -> None:
    here = {"its_stream": stream, "its_part": part}
    more = {"more_labelled": score.labelled, "more_total": score.total}
    if connection.execute(_RAISE_SCORE, here | more).rowcount == 0:
        values = {"stream": stream, "part": part} | vars(score)
        connection.execute(schema.scores.insert().values(**values))


def scores_of(connection: Connection, stream: int, points: int = 200) -> list[dict[str, Any]]:
    """Return the scores over time, joined so that there are at most `points` of them."""
    table = schema.scores
    own = table.c.stream == stream
    last = connection.execute(sa.select(sa.func.max(table.c.part)).where(own)).scalar()
    if last is None:
        return []
    width = last // points + 1
    query = (
        sa.select(
            (table.c.part // width).label("place"),
            sa.func.sum(table.c.labelled).label("labelled"),
            sa.func.sum(table.c.total).label("total"),
        )
        .where(own)
        .group_by(sa.text("place"))
        .order_by(sa.text("place"))
    )
    return [
        {
            "row": int(one.place) * width * PART,
            "labelled": int(one.labelled),
            "mean": float(one.total) / int(one.labelled),
        }
        for one in connection.execute(query)
    ]


# ------------------------------------------------------------------ learning


def pending(
    connection: Connection, stream: int, after: int, max_records: int, max_rows: int, max_bytes: int
) -> list[Any]:
    """Return the next records of a stream, in order: within the limits, and at least one."""
    table = schema.journal
    sizes = sa.select(table.c.seq, table.c.rows, sa.func.length(table.c.payload).label("size"))
    own = table.c.stream == stream
    query = sizes.where(own, table.c.seq > after).order_by(table.c.seq).limit(max_records)
    last, rows, size = after, 0, 0
    for one in connection.execute(query):
        rows, size = rows + one.rows, size + one.size
        if last > after and (rows > max_rows or size > max_bytes):
            break
        last = one.seq
    if last == after:
        return []
    chosen = sa.select(table).where(own, table.c.seq > after, table.c.seq <= last)
    return list(connection.execute(chosen.order_by(table.c.seq)))


def skip_record(connection: Connection, stream: int, seq: int) -> None:
    """Mark a record as one that can never be carried out."""
    table = schema.journal
    here = (table.c.stream == stream) & (table.c.seq == seq)
    connection.execute(table.update().where(here).values(skipped=True))


def snapshot_of(connection: Connection, stream: int) -> tuple[int, bytes | None]:
    """Return the last snapshot of a stream, and the last record it includes."""
    table = schema.snapshots
    found = connection.execute(sa.select(table).where(table.c.stream == stream)).first()
    return (0, None) if found is None else (found.seq, found.state)


def store_snapshot(connection: Connection, stream: int, seq: int, state: bytes) -> None:
    """Replace the snapshot of a stream, and delete what it makes unnecessary.

    Nothing is stored of a stream that was deleted.
    """
    if not has_stream(connection, stream):
        return
    table, journal = schema.snapshots, schema.journal
    here = table.c.stream == stream
    values = {"seq": seq, "state": state}
    if connection.execute(table.update().where(here).values(**values)).rowcount == 0:
        connection.execute(table.insert().values(stream=stream, **values))
    connection.execute(journal.delete().where(journal.c.stream == stream, journal.c.seq <= seq))
    requests, events = schema.requests, schema.events
    old = time.time() - REQUEST_SECONDS
    connection.execute(
        requests.delete().where(requests.c.stream == stream, requests.c.created < old)
    )
    last = sa.select(sa.func.max(events.c.number)).where(events.c.stream == stream)
    newest = connection.execute(last).scalar() or 0
    connection.execute(
        events.delete().where(events.c.stream == stream, events.c.number <= newest - KEPT_EVENTS)
    )


def add_events(
    connection: Connection, stream: int, found: Iterable[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Store events, and what hooks are to deliver; return those that were not stored before.

    After a crash, learning produces the same events again, with the same numbers. Nothing is stored
    of a stream that was deleted.
    """
    if not has_stream(connection, stream):
        return []
    table = schema.events
    last = sa.select(sa.func.max(table.c.number)).where(table.c.stream == stream)
    newest = connection.execute(last).scalar()
    now = time.time()
    new = [{**event, "at": now} for event in found if newest is None or event["number"] > newest]
    for event in new:
        values = {"stream": stream, "number": event["number"], "created": now}
        connection.execute(table.insert().values(**values, content=json.dumps(event)))
    if new:
        _add_deliveries(connection, stream, new, now)
    return new


def _add_deliveries(
    connection: Connection, stream: int, new: list[dict[str, Any]], now: float
) -> None:
    hooks = schema.hooks
    for hook in connection.execute(sa.select(hooks).where(hooks.c.stream == stream)):
        kinds = json.loads(hook.kinds)
        for event in new:
            if event["kind"] in kinds or ("alarm" in kinds and event.get("alarm")):
                values = {"hook": hook.id, "number": event["number"], "due": now}
                connection.execute(schema.deliveries.insert().values(**values))


def events_of(
    connection: Connection, stream: int, after: int = -1, most: int = 1000
) -> list[dict[str, Any]]:
    """Return the events after a number, oldest first."""
    table = schema.events
    query = sa.select(table.c.content).where(table.c.stream == stream, table.c.number > after)
    found = connection.execute(query.order_by(table.c.number).limit(most)).scalars()
    return [json.loads(content) for content in found]


def count_events(connection: Connection, stream: int) -> int:
    """Return how many events there were, including very old ones."""
    table = schema.events
    last = sa.select(sa.func.max(table.c.number)).where(table.c.stream == stream)
    newest = connection.execute(last).scalar()
    return 0 if newest is None else newest + 1


def _stream(row: Any) -> StreamRow:
    return StreamRow(
        row["id"],
        row["name"],
        Specification.of_text(row["specification"]),
        row["created"],
        row["samples"],
        row["seq"],
        row["label_type"],
    )
