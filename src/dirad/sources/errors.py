"""What stops a source."""


class SourceError(Exception):
    """A source cannot go on; the message names the file and the line, or the message."""
