"""What a request can be refused for; each error knows its HTTP status."""


class Refused(Exception):
    """A request that is not carried out; the message says why, and names the offender."""

    status = 422
    headers: dict[str, str]

    def __init__(self, message: str, status: int | None = None, **headers: str) -> None:
        super().__init__(message)
        if status is not None:
            self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class NotFound(Refused):
    """There is no such thing, or the token may not know of it."""

    status = 404


class Conflict(Refused):
    """It exists already, and is different."""

    status = 409


class TooLarge(Refused):
    """More than the limits allow."""

    status = 413


class Busy(Refused):
    """Too much at once: the client should come back later."""

    status = 429

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message, Retry_After=str(max(1, round(seconds))))


class StorageFull(Refused):
    """There is no room on the disk; nothing was accepted."""

    status = 507


class StoreAway(Refused):
    """The database cannot be reached at the moment, or the learner cannot."""

    status = 503

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message, Retry_After="2")
        self.reason = reason  # for the log: clients need not know where the database is


class Fenced(Refused):
    """Another server has taken over the store: this one must not write any more."""

    status = 503
