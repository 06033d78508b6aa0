"""`dirad tail mqtt://…` with a real broker that is restarted, and a reader that is killed."""

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest

from commands import DIRAD
from dirad import Client
from dirad.sources import mqtt
from dirad.sources.csv_tail import Pace
from dirad.sources.errors import SourceError
from dirad.sources.mqtt import Broker
from dirad.sources.samples import Layout, Naming, Sample
from service import serving

pytest.importorskip("fastapi")
paho = pytest.importorskip("paho.mqtt.client")
MOSQUITTO = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
needs_broker = pytest.mark.skipif(MOSQUITTO is None, reason="needs mosquitto")
TOPIC = "plant/pump"


class Mosquitto:
    """A broker that keeps everything on disk; it keeps its port through restarts."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.config, self.log = folder / "mosquitto.conf", folder / "mosquitto.log"
        self.config.write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\npersistence true\n"
            f"persistence_location {folder}/\nmax_queued_messages 0\n"
            f"log_dest file {self.log}\nlog_type subscribe\n"
            f"{'user root' if os.getuid() == 0 else ''}\n"
        )
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [MOSQUITTO, "-c", self.config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        end = time.monotonic() + 10
        while time.monotonic() < end:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        raise RuntimeError("mosquitto did not start")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()

    @property
    def subscriptions(self) -> int:
        """How often somebody has subscribed to the topic."""
        return self.log.read_text().count(f" {TOPIC}\n") if self.log.exists() else 0


@pytest.fixture
def broker(tmp_path):
    running = Mosquitto(tmp_path)
    yield running
    running.stop()


class Publisher:
    """Publishes messages, and knows which of them the broker has acknowledged."""

    def __init__(self, port: int) -> None:
        self.mqtt = paho.Client(paho.CallbackAPIVersion.VERSION2, "publisher", clean_session=False)
        self.mqtt.reconnect_delay_set(0.1, 0.2)
        self.mqtt.max_inflight_messages_set(1000)
        self.mqtt.connect("127.0.0.1", port)
        self.mqtt.loop_start()

    def publish(self, first: int, last: int, pause: float = 0.0, id: bool = True) -> None:
        for i in range(first, last):
            message = {"u": i, "v": i / 7, "other": "text", "label": i % 2}
            if id:
                message["id"] = f"m{i}"
            self.last = self.mqtt.publish(TOPIC, json.dumps(message), qos=1)
            time.sleep(pause)

    def wait(self) -> None:
        self.last.wait_for_publish(20)
        assert self.last.is_published()

    def close(self) -> None:
        self.mqtt.disconnect()
        self.mqtt.loop_stop()


def start_tail(broker, server, *options):
    """Start to follow the topic, and wait until the broker knows of it."""
    source, before = f"mqtt://127.0.0.1:{broker.port}/{TOPIC}", broker.subscriptions
    command = [*DIRAD, "tail", source, "--stream", "s", "--url", server.url, *options]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=os.environ | {"COLUMNS": "500"}
    )
    end = time.monotonic() + 60
    while broker.subscriptions == before and process.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    return process


def wait_for(client: Client, samples: int, seconds: float = 30.0) -> int:
    """Wait until a stream has so many samples, and a little more; return how many it has."""
    end = time.monotonic() + seconds
    while client.state()["samples"] < samples and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.3)
    return client.state()["samples"]


def subscribed(client: Client, publisher: Publisher) -> None:
    """Wait until the reader listens: the first message that it takes creates the stream's rows."""
    end = time.monotonic() + 20
    while client.state()["samples"] == 0 and time.monotonic() < end:
        publisher.publish(0, 1)
        publisher.wait()
        time.sleep(0.2)


def ids_of(store: Path) -> list[str]:
    """Return the ids of all samples, in the order of the stream."""
    with sqlite3.connect(store / "dirad.sqlite") as database:
        return [one for (one,) in database.execute("SELECT id FROM sample_ids ORDER BY row")]


@needs_broker
def test_restarts_of_everything_lose_nothing_that_was_acknowledged(broker, tmp_path):
    store = tmp_path / "store"
    with serving(store) as server:
        client = Client(server.url, "s").create("classifier", ["u", "v"])
        publisher = Publisher(broker.port)
        reader = start_tail(broker, server)
        subscribed(client, publisher)
        publisher.publish(1, 200, 0.002)
        broker.stop()
        publisher.publish(200, 250)
        broker.start()
        publisher.publish(250, 400, 0.002)
        reader.send_signal(signal.SIGKILL)
        reader.wait()
        publisher.publish(400, 600)
        publisher.wait()
        broker.stop()  # while it holds messages for a reader that is away
        broker.start()
        reader = start_tail(broker, server)
        publisher.publish(600, 800, 0.002)
        server.restart()
        publisher.publish(800, 1000)
        publisher.wait()
        assert wait_for(client, 1000) == 1000
        assert sorted(ids_of(store)) == sorted(f"m{i}" for i in range(1000))
        reader.send_signal(signal.SIGTERM)
        _, said = reader.communicate(timeout=120)
        assert reader.returncode == 130
        assert "stopped; " in said
        publisher.close()


@needs_broker
def test_messages_without_ids_are_learned_at_least_once_or_once_if_distinct(broker, tmp_path):
    with serving(tmp_path / "store") as server:
        publisher = Publisher(broker.port)
        for stream, options, least, most in (("s", [], 300, 400), ("s", ["--distinct"], 300, 300)):
            client = Client(server.url, stream).create("detector", ["u", "v"])
            reader = start_tail(broker, server, *options)
            publisher.publish(0, 150, 0.002, id=False)
            reader.send_signal(signal.SIGKILL)
            reader.wait()
            publisher.publish(150, 300, id=False)
            publisher.wait()
            reader = start_tail(broker, server, *options)
            assert least <= wait_for(client, 300) <= most
            reader.kill()
            reader.communicate()
            client.delete()
        publisher.close()


@needs_broker
def test_a_message_that_is_refused_ends_it_or_is_left_out(broker, tmp_path):
    with serving(tmp_path / "store") as server:
        publisher = Publisher(broker.port)
        reader = start_tail(broker, server, "--create", "detector", "--column", "u")
        for payload in ('{"u": 1, "id": 1}', "[2]", "no JSON", '{"v": 1}', '{"u": "x"}', "[3]"):
            publisher.last = publisher.mqtt.publish(TOPIC, payload, qos=1)
        publisher.wait()
        _, said = reader.communicate(timeout=120)
        assert reader.returncode == 1
        assert "plant/pump: b'no JSON': the message is no JSON (--skip-bad" in said
        client = Client(server.url, "s")
        assert client.state()["samples"] == 2
        reader = start_tail(broker, server, "--skip-bad")
        assert wait_for(client, 3) == 3
        reader.send_signal(signal.SIGTERM)
        _, said = reader.communicate(timeout=120)
        assert "b'no JSON': the message is no JSON; the message is left out" in said
        assert "column 'u' is missing; the message is left out" in said
        publisher.close()


def test_addresses():
    found = Broker.of_url("mqtts://ada:s%40cret@[::1]/a/+/b#c")
    assert (found.host, found.port, found.topic) == ("::1", 8883, "a/+/b#c")
    assert (found.user, found.password, found.is_secure) == ("ada", "s@cret", True)
    for wrong in ("mqtt://host", "mqtt:///topic", "mqtt://ada:secret@host:port/topic"):
        with pytest.raises(SourceError) as caught:
            Broker.of_url(wrong)
        assert "secret" not in str(caught.value)


def test_messages_become_samples():
    layout = Layout(("u", "v"), False, Naming(target="y"))
    assert layout.of_message(b"[1, null]") == Sample([1, None])
    message = b'{"v": 2, "u": NaN, "y": "a", "id": 7, "more": []}'
    assert layout.of_message(message) == Sample([None, 2], "a", "7")
    for wrong, why in ((b"[1]", "1 values"), (b"3", "neither"), (b'{"u": 1}', "'v' is missing"),
                       (b"{", "no JSON"), (b"[1, Infinity]", "infinite")):  # fmt: skip
        with pytest.raises(ValueError, match=why):
            layout.of_message(wrong)
    numbers = Layout(("u",), True, Naming())
    assert numbers.of_message(b'{"u": 1, "label": "2.5"}').label == 2.5


def test_messages_that_nobody_keeps_wait_in_bounds(monkeypatch, caplog):
    """Those of quality 0 are left out beyond a number, and this is told."""
    monkeypatch.setattr(mqtt, "MOST_WAITING", 10)
    with Client("http://127.0.0.1:9", "s") as client:
        tail = mqtt.MqttTail(client, Broker("host", 1883, TOPIC), Naming(), Pace())

    def receive(n, qos):
        for _ in range(n):
            message = paho.MQTTMessage(1, TOPIC.encode())
            message.payload, message.qos = b"[1]", qos
            tail._on_message(None, None, message)

    receive(15, qos=0)
    receive(2, qos=1)
    assert tail._received.qsize() == 12
    assert len(tail._gathered()) == 12
    receive(1, qos=0)
    assert tail._received.qsize() == 1
    first, last = caplog.messages
    assert "until it takes them" in first
    assert last == "5 messages of quality 0 were left out"
