"""Deliver samples to the service: in one request if possible, in halves if it is refused."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from dirad.client import Client, ClientError
from dirad.sources.samples import Sample

REFUSED = (400, 409, 413, 422)  # statuses that say something of the samples, not of the service
KNOWN = 409  # a sample with this id was accepted before


@dataclass(frozen=True)
class Item:
    """A line or a message, and the sample that it is, or why it is none."""

    origin: Any
    sample: Sample | None
    error: str = ""


def deliver(
    client: Client,
    items: Sequence[Item],
    begin: Callable[[list[Item]], str | None],
    done: Callable[[list[Item]], None],
    refused: Callable[[Item, str], None],
) -> int:
    """Deliver items in their order; return how many samples were accepted.

    `begin` is called before a part is sent, and returns its key; `done` is called when the part
    needs no more attention. An item that is refused, or is no sample, is given to `refused`, which
    may raise an error. If a part is refused, its halves are sent, so that only single items are
    refused in the end. A sample whose id is known has been accepted before.
    """
    accepted = 0
    for _, run in groupby(items, _sort):
        parts = [list(run)]
        while parts:
            part = parts.pop()
            if part[0].sample is None:
                for item in part:
                    refused(item, item.error)
                done(part)
                continue
            try:
                _send(client, [item.sample for item in part if item.sample], begin(part))
                accepted += len(part)
            except ClientError as error:
                if error.status not in REFUSED:
                    raise
                if len(part) > 1:
                    half = len(part) // 2
                    parts += [part[half:], part[:half]]
                    continue
                if error.status != KNOWN:
                    refused(part[0], error.detail)
            done(part)
    return accepted


def _sort(item: Item) -> int:
    """Return a key: only items with the same key can be in one request."""
    return 0 if item.sample is None else 1 if item.sample.id is None else 2


def _send(client: Client, samples: list[Sample], key: str | None) -> None:
    labels = [one.label for one in samples]
    ids = None if samples[0].id is None else [one.id for one in samples]
    has_labels = any(label is not None for label in labels)
    rows = [one.values for one in samples]
    client.partial_fit(rows, labels if has_labels else None, ids, key)
