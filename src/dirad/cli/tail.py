"""The command `dirad tail`: rows of a growing file, or messages of a broker, go to a service."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from dirad.cli.app import TALKATIVE, Flag, Output, PositiveInt, Stopped, Usage, app
from dirad.cli.options import ColumnNames
from dirad.cli.printing import notice

if TYPE_CHECKING:
    from dirad.client import Client
    from dirad.sources.csv_tail import CsvTail, Pace
    from dirad.sources.mqtt import MqttTail
    from dirad.sources.samples import Naming

TOKEN, USER, PASSWORD = "DIRAD_TOKEN", "DIRAD_MQTT_USER", "DIRAD_MQTT_PASSWORD"
SCHEMES = ("mqtt://", "mqtts://")


@Parameter(name="*")
@dataclass(frozen=True)
class ServiceOptions:
    """Which service."""

    url: str = "http://127.0.0.1:8000"
    """Where the service is."""
    token: str | None = None
    """Its token [default: DIRAD_TOKEN in the environment, where other users cannot see it]."""


@Parameter(name="*")
@dataclass(frozen=True)
class NamingOptions:
    """What is what in a row."""

    target: str = "label"
    """The column or field of labels; it may be missing, or empty."""
    id: str = "id"
    """The column or field of the samples' own names, for late labels; it may be missing."""
    text_labels: Flag = False
    """Labels are texts, even where they look like whole numbers."""
    create: Literal["classifier", "regressor", "detector"] | None = None
    """Create the stream, as one of these, if there is none."""
    column: ColumnNames = None
    """A column of the stream to create; repeat it for several [default: all others]."""
    category: ColumnNames = None
    """A column of categories of the stream to create, such as colour=red,blue; all others count as
    one more. Repeat it for several."""
    gaps: Flag = False
    """Values of the stream to create may be missing: empty, or null."""


@Parameter(name="*")
@dataclass(frozen=True)
class FileOptions:
    """Of files."""

    state: Path | None = None
    """Where to keep how far FILE was read [default: a hidden file beside it]."""
    delimiter: str = ","
    """Delimiter."""
    every: Annotated[float, Parameter(validator=Number(gt=0))] = 1.0
    """Seconds between two looks at the file."""
    once: Flag = False
    """Send what there is, and end."""


@Parameter(name="*")
@dataclass(frozen=True)
class BrokerOptions:
    """Of MQTT."""

    client_id: str | None = None
    """The name of the session [default: made from stream and topic]."""
    distinct: Flag = False
    """Messages differ (each has a time, say): one that equals an earlier one is left out."""
    ca: Path | None = None
    """Certificates to trust with mqtts:// [default: those that the system trusts]."""


SERVICE, NAMES, FILES, BROKERS = ServiceOptions(), NamingOptions(), FileOptions(), BrokerOptions()


@app.command
def tail(
    source: str,
    *,
    stream: str,
    service: ServiceOptions = SERVICE,
    naming: NamingOptions = NAMES,
    rows: PositiveInt = 500,
    skip_bad: Flag = False,
    file: FileOptions = FILES,
    broker: BrokerOptions = BROKERS,
    talk: Output = TALKATIVE,
) -> None:
    """Let a stream of a service learn the rows of a growing CSV file, or the messages of a broker.

    Each complete line of a file is learned once, in order, also if this command, the service or the
    machine is interrupted. Files may be rotated by renaming, or by copying and truncating. The
    first line names the columns; those that the stream does not have are left out.

    ```
    dirad tail pump.csv --stream pump --create classifier
    dirad tail pump.csv --stream pump --target fault --skip-bad
    dirad tail mqtt://broker/plant/pump --stream pump
    dirad tail 'mqtts://broker/plant/#' --stream pump --ca plant.pem
    ```

    A message is a JSON object by column names, or a list in the order of the columns. It is
    acknowledged when the service has accepted it. One with an `id` is learned once; others may be
    learned twice if this command or the broker ends at the wrong moment.

    Parameters
    ----------
    source
        A CSV file, or mqtt://host[:port]/topic, mqtts:// for TLS. User and password of a broker
        are given as mqtt://user:password@host, or in DIRAD_MQTT_USER and DIRAD_MQTT_PASSWORD.
    stream
        The name of the stream.
    rows
        Rows of a request, at most.
    skip_bad
        Leave out rows that the service refuses, instead of ending.
    """
    from dirad.client import Client
    from dirad.sources.csv_tail import Pace
    from dirad.sources.samples import Naming

    level = logging.ERROR if talk.quiet else logging.WARNING
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(message)s")
    columns = tuple(naming.column or ())
    categories = dict(map(_category, naming.category or ()))
    named = Naming(naming.target, naming.id, naming.text_labels, naming.create, columns)
    named = replace(named, categories=categories, gaps=naming.gaps)
    pace = Pace(rows, file.every, skip_bad)
    token = service.token or os.environ.get(TOKEN)
    _check_stream(stream)
    with Client(service.url, stream, token, patience=None) as client:
        if source.startswith(SCHEMES):
            _follow_broker(source, client, named, pace, file, broker, talk)
        else:
            _follow_file(source, client, named, pace, file, talk)


def _category(option: str) -> tuple[str, tuple[str, ...]]:
    """Return the name of a column and its categories."""
    name, _, listed = option.rpartition("=")
    found = tuple(dict.fromkeys(one.strip() for one in listed.split(",") if one.strip()))
    if not name or not found:
        raise Usage(f"--category {option}: give a column and its categories, as colour=red,blue")
    return name, found


def _check_stream(name: str) -> None:
    from dirad.serve.errors import Refused
    from dirad.serve.specification import check_name

    try:
        check_name(name)
    except Refused as error:
        raise Usage(f"--stream: {error}") from None


def _follow_file(
    source: str,
    client: "Client",
    naming: "Naming",
    pace: "Pace",
    options: FileOptions,
    talk: Output,
) -> None:
    from dirad.atomic import claimed
    from dirad.sources.csv_tail import CsvTail

    path = Path(source)
    if len(options.delimiter) != 1:
        raise Usage(f"--delimiter must be one character, got {options.delimiter!r}")
    if not path.parent.is_dir():
        raise Usage(f"{path}: there is no folder {path.parent}")
    if path.is_dir():
        raise Usage(f"{path}: this is a folder; name a file in it")
    state = options.state or path.with_name(f".{path.name}.{client.stream}.tail")
    with claimed(state):
        tail = CsvTail(client, path, state, naming, pace, options.delimiter)
        notice(talk, f"Following {path} for stream {client.stream} at {client.url}  (Ctrl-C ends)")
        if not path.exists():
            notice(talk, f"There is no {path} yet: waiting for it.")
        with _counted(tail):
            tail.run(options.once)
    notice(talk, f"{tail.sent:,} rows sent")


def _follow_broker(
    source: str,
    client: "Client",
    naming: "Naming",
    pace: "Pace",
    files: FileOptions,
    options: BrokerOptions,
    talk: Output,
) -> None:
    from dirad.sources.mqtt import Broker, MqttTail

    if files.once or files.state is not None:
        raise Usage("--once and --state are for files")
    broker = Broker.of_url(source)
    broker = replace(
        broker,
        user=broker.user or os.environ.get(USER),
        password=broker.password or os.environ.get(PASSWORD),
        ca=None if options.ca is None else str(options.ca),
        client_id=options.client_id or "",
    )
    tail = MqttTail(client, broker, naming, pace, options.distinct)
    place = f"{broker.topic} of {broker.host}:{broker.port}"
    notice(talk, f"Following {place} for stream {client.stream} at {client.url}  (Ctrl-C ends)")
    with _counted(tail):
        tail.run()


@contextmanager
def _counted(tail: "CsvTail | MqttTail") -> Iterator[None]:
    """Say at an interruption how many rows were sent."""
    try:
        yield
    except KeyboardInterrupt:
        text = f"stopped; {tail.sent:,} rows were sent, and the next start goes on there"
        raise Stopped(text) from None
