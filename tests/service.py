"""`dirad serve` as tests start it: in a process of its own, which can be killed and restarted."""

import os
import re
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from commands import DIRAD

READY_SECONDS = 60.0
END_SECONDS = 60.0
ADDRESS = re.compile(r"at http://([^ ]+):(\d+)")


class Server:
    """A server; it keeps its port through restarts, so that clients find it again."""

    def __init__(self, store: Path | str, *options: str) -> None:
        self.store, self.options = store, options
        self.port = 0
        self.said: deque[str] = deque(maxlen=1000)  # the last lines on its standard error
        self.process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> "Server":
        """Start it, and wait until it listens."""
        command = [*DIRAD, "serve", "--store", self.store, "--port", self.port, *self.options]
        self.process = process = subprocess.Popen(
            list(map(str, command)),
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"COLUMNS": "500"},  # a line of its output is never broken
            start_new_session=True,  # its children end with it, also if it is killed
        )
        ready = threading.Event()
        threading.Thread(target=self._listen, args=(process, ready), daemon=True).start()
        if not ready.wait(READY_SECONDS) or process.poll() is not None:
            self.kill()
            raise RuntimeError("the server did not start:\n" + "".join(self.said))
        return self

    def _listen(self, process: "subprocess.Popen[str]", ready: threading.Event) -> None:
        for line in process.stderr or ():
            self.said.append(line)
            found = ADDRESS.search(line)
            if found:
                self.port = int(found[2])
                ready.set()
        ready.set()  # it has ended

    def kill(self) -> None:
        """End it and its children at once, as a power failure does."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def stop(self) -> int:
        """Let it end by itself; return its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def restart(self) -> "Server":
        """Kill it, and start it again on the same store and port."""
        self.kill()
        return self.start()


@contextmanager
def serving(store: Path | str, *options: str) -> Iterator[Server]:
    """Serve a store while the block runs."""
    server = Server(store, *options).start()
    try:
        yield server
    finally:
        server.kill()


class SilentProcess:
    """A learning process without any streams."""

    starts = 0

    def __init__(self, name=""):
        pass

    def ask(self, head, body=b"", seconds=None):
        return {}, b""

    def kill(self):
        pass

    close = kill
