"""The messages of an MQTT broker, acknowledged when the service has accepted them.

The session is persistent: the broker keeps messages with QoS 1 and 2 while this client is not
connected, and delivers again what was not acknowledged.
"""

import hashlib
import json
import logging
import queue
import ssl
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from dirad.client import Client
from dirad.sources.csv_tail import Pace
from dirad.sources.delivery import Item, deliver
from dirad.sources.errors import SourceError
from dirad.sources.samples import Layout, Naming, Sample

PORTS = {"mqtt": 1883, "mqtts": 8883}
QOS = 1
KEEP_ALIVE = 30  # seconds without a message after which the connection is tested
SESSION_SECONDS = 2**32 - 1  # that the broker keeps the session: for ever
TAKEN_OVER = "Session taken over"
REFUSALS = ("Not authorized", "Bad user name or password", "Banned", "Client identifier not valid")
LONGEST_WAIT = 30  # seconds between two attempts to connect

log = logging.getLogger("dirad.tail")


@dataclass(frozen=True)
class Broker:
    """Where messages come from."""

    host: str
    port: int
    topic: str
    is_secure: bool = False
    user: str | None = None
    password: str | None = None
    ca: str | None = None  # a file with the certificates of those who are trusted
    client_id: str = ""

    @classmethod
    def of_url(cls, url: str) -> "Broker":
        """Return the broker and topic of an address.

        >>> found = Broker.of_url("mqtt://ada:secret@plant:2000/pumps/#")
        >>> found.host, found.port, found.topic, found.user
        ('plant', 2000, 'pumps/#', 'ada')
        """
        scheme, _, rest = url.partition("://")
        place, _, topic = rest.partition("/")
        if scheme not in PORTS or not topic:
            raise SourceError(f"{_without_password(url)}: not of the form mqtt://host/topic")
        try:
            parts = urlsplit(f"//{place}")
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise SourceError(f"{_without_password(url)}: {error}") from None
        if not host:
            raise SourceError(f"{_without_password(url)}: names no host")
        user, password = (
            None if one is None else unquote(one) for one in (parts.username, parts.password)
        )
        is_secure = scheme == "mqtts"
        return cls(host, port or PORTS[scheme], unquote(topic), is_secure, user, password)


def _without_password(url: str) -> str:
    before, at, after = url.rpartition("@")
    return f"{before.partition('://')[0]}://…@{after}" if at else url


@dataclass(frozen=True)
class Message:
    """A message as it was received."""

    number: int  # its packet identifier, needed for its acknowledgement
    topic: str
    payload: bytes
    qos: int  # 0: it is delivered once or not at all, and not acknowledged
    is_repeated: bool  # was it delivered before?
    connection: int  # counts the connections


class MqttTail:
    """Lets a stream learn the messages of a topic.

    A message with an id is learned once. One without may be learned twice, if this process or the
    broker ends between its acceptance and its acknowledgement; with `distinct`, a message that
    equals an earlier one counts as that one.
    """

    def __init__(
        self,
        client: Client,
        broker: Broker,
        naming: Naming,
        pace: Pace,
        distinct: bool = False,
    ) -> None:
        self._client, self._broker, self._naming = client, broker, naming
        self._pace, self._distinct = pace, distinct
        self._layout: Layout | None = None
        self._received: queue.SimpleQueue[Message | Exception] = queue.SimpleQueue()
        self._connection = 0
        # Messages that were accepted, and whose acknowledgement could not be sent.
        self._unacknowledged: dict[int, Message] = {}
        self._mqtt = self._new_client()
        self.sent = 0  # rows

    def run(self) -> None:
        """Listen until interrupted."""
        self._mqtt.connect_async(
            self._broker.host,
            self._broker.port,
            KEEP_ALIVE,
            clean_start=False,
            properties=_session(self._pace.rows),
        )
        self._mqtt.loop_start()
        try:
            while True:
                self._deliver(self._gathered())
        finally:
            self._mqtt.disconnect()
            self._mqtt.loop_stop()

    # ---------------------------------------------------------------- the broker

    def _new_client(self) -> Any:
        try:
            import paho.mqtt.client as paho
            from paho.mqtt.enums import CallbackAPIVersion
        except ImportError:
            raise ImportError("MQTT needs paho-mqtt: pip install 'dirad[mqtt]'") from None
        broker = self._broker
        mqtt = paho.Client(
            CallbackAPIVersion.VERSION2,
            broker.client_id or self._default_id(),
            protocol=paho.MQTTv5,
            manual_ack=True,
        )
        if broker.user is not None:
            mqtt.username_pw_set(broker.user, broker.password)
        if broker.is_secure:
            mqtt.tls_set(broker.ca, cert_reqs=ssl.CERT_REQUIRED)
        mqtt.reconnect_delay_set(1, LONGEST_WAIT)
        mqtt.on_connect, mqtt.on_disconnect = self._on_connect, self._on_disconnect
        mqtt.on_message, mqtt.on_subscribe = self._on_message, self._on_subscribe
        mqtt.on_connect_fail = self._on_connect_fail
        return mqtt

    def _default_id(self) -> str:
        """Return the same name for the same stream and topic, so that the session goes on."""
        topic = hashlib.sha256(self._broker.topic.encode()).hexdigest()[:8]
        return f"dirad-{self._client.stream}-{topic}"

    def _on_connect(self, mqtt: Any, _: Any, flags: Any, reason: Any, *__: Any) -> None:
        if reason.is_failure:
            text = f"{self._broker.host}: the broker refuses the connection: {reason}"
            if str(reason) in REFUSALS:
                self._received.put(SourceError(text))
            else:
                log.warning("%s; trying again", text)
            return
        if not flags.session_present and self._connection:
            log.warning("%s: the broker has forgotten the session: messages may be missing",
                        self._broker.host)  # fmt: skip
        self._connection += 1
        from paho.mqtt.subscribeoptions import SubscribeOptions

        # 2: a retained message is an old one, and no sample.
        mqtt.subscribe(self._broker.topic, options=SubscribeOptions(qos=QOS, retainHandling=2))

    def _on_subscribe(self, _: Any, __: Any, ___: int, reasons: Any, *____: Any) -> None:
        for reason in reasons:
            if reason.is_failure:
                text = f"{self._broker.topic}: the broker refuses the subscription: {reason}"
                self._received.put(SourceError(text))

    def _on_disconnect(self, _: Any, __: Any, ___: Any, reason: Any, *____: Any) -> None:
        if str(reason) == TAKEN_OVER:
            text = "another process uses the same client id (--client-id sets that of this one)"
            self._received.put(SourceError(f"{self._broker.host}: {text}"))
        elif reason.is_failure:
            log.warning("%s: the connection is lost (%s); connecting again",
                        self._broker.host, reason)  # fmt: skip

    def _on_connect_fail(self, *_: Any) -> None:
        log.warning("%s:%d cannot be reached; trying again", self._broker.host, self._broker.port)

    def _on_message(self, _: Any, __: Any, message: Any) -> None:
        found = message.mid, message.topic, message.payload, message.qos, message.dup
        self._received.put(Message(*found, self._connection))

    # ---------------------------------------------------------------- the service

    def _gathered(self) -> list[Message]:
        """Wait for a message; return it and those that have come after it.

        It is no use to wait for more: some brokers send 20, and no more until they are answered.
        """
        found = [self._received.get()]
        while len(found) < self._pace.rows and not self._received.empty():
            found.append(self._received.get())
        for one in found:
            if isinstance(one, Exception):
                raise one
        return [one for one in found if isinstance(one, Message)]

    def _deliver(self, messages: list[Message]) -> None:
        """Let messages be learned, and acknowledge them.

        Those of an earlier connection are left: the broker delivers them again on this one.
        """
        current = [one for one in messages if one.qos == 0 or one.connection == self._connection]
        items = [self._item(one) for one in current if not self._is_known(one)]
        self.sent += deliver(self._client, items, lambda _: None, self._done, self._refused)

    def _is_known(self, message: Message) -> bool:
        """Acknowledge a message that was accepted before the connection was lost.

        Its number is not used for another one before it is acknowledged.
        """
        before = self._unacknowledged.pop(message.number, None) if message.qos else None
        if before is None or not message.is_repeated:
            return False
        if (before.topic, before.payload) != (message.topic, message.payload):
            return False
        self._acknowledge(message)
        return True

    def _item(self, message: Message) -> Item:
        try:
            if self._layout is None:
                names = _names(message.payload) or self._naming.columns
                self._layout = Layout.of_stream(self._client, self._naming, names)
            sample = self._layout.of_message(message.payload)
        except ValueError as error:
            return Item(message, None, str(error))
        if sample.id is None and self._distinct:
            content = message.topic.encode() + b"\0" + message.payload
            sample = Sample(sample.values, sample.label, hashlib.sha256(content).hexdigest())
        return Item(message, sample)

    def _done(self, part: list[Item]) -> None:
        for item in part:
            self._acknowledge(item.origin)

    def _acknowledge(self, message: Message) -> None:
        if message.qos == 0:
            return
        if message.connection == self._connection and self._mqtt.is_connected():
            self._mqtt.ack(message.number, message.qos)
        else:
            self._unacknowledged[message.number] = message  # it comes again

    def _refused(self, item: Item, why: str) -> None:
        message: Message = item.origin
        text = f"{message.topic}: {message.payload[:80]!r}: {why}"
        if not self._pace.skip_bad:
            raise SourceError(f"{text} (--skip-bad leaves out such messages)")
        log.warning("%s; the message is left out", text)


def _session(most: int) -> Any:
    """Return what the broker is asked for: to keep the session, and to send so many at once."""
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    found = Properties(PacketTypes.CONNECT)
    found.SessionExpiryInterval = SESSION_SECONDS
    found.ReceiveMaximum = min(most, 65535)
    return found


def _names(payload: bytes) -> list[str]:
    """Return the names of a message's fields; none if it has none."""
    try:
        found = json.loads(payload)
    except (ValueError, RecursionError):
        return []
    return list(found) if isinstance(found, dict) else []
