"""Measurements for Prometheus."""

from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from dirad.serve.errors import NotFound

LATENCIES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 30.0)


class Metrics:
    """Counts of requests, and what the streams of a service are like at the moment."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "dirad_requests", "Requests", ["method", "route", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "dirad_request_seconds",
            "Time until the answer was complete",
            ["route"],
            buckets=LATENCIES,
            registry=self.registry,
        )
        self.deliveries = Counter(
            "dirad_hook_deliveries", "Calls of webhooks", ["result"], registry=self.registry
        )

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        method = method if method in ("GET", "PUT", "POST", "DELETE") else "other"
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def watch(self, service: Any) -> None:
        """Include the streams of a service."""
        self.registry.register(_Streams(service))

    def text(self) -> bytes:
        """Return all measurements as Prometheus reads them."""
        return generate_latest(self.registry)


class _Streams(Collector):
    def __init__(self, service: Any) -> None:
        self._service = service

    def collect(self) -> Iterator[Any]:
        accepted = CounterMetricFamily("dirad_samples_accepted", "Rows accepted", labels=["stream"])
        learned = CounterMetricFamily("dirad_samples_learned", "Rows learned", labels=["stream"])
        events = CounterMetricFamily("dirad_events", "Events", labels=["stream"])
        models = GaugeMetricFamily("dirad_models", "Models", labels=["stream"])
        for name, live in list(self._service.streams.items()):
            try:
                work = self._service.learned(name)
            except NotFound:  # it was deleted just now
                continue
            accepted.add_metric([name], live.row.samples)
            learned.add_metric([name], work.rows)
            events.add_metric([name], live.events)
            found = live.answers
            models.add_metric([name], 0 if found is None else len(found.system.models))
        starts = CounterMetricFamily(
            "dirad_learning_process_starts", "Starts of learning processes"
        )
        starts.add_metric([], sum(one.starts for one in self._service.engine.processes))
        yield from (accepted, learned, events, models, starts)
