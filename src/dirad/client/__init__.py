"""A client of `dirad serve` that has the verbs of a scikit-learn estimator."""

from dirad.client.stream_client import Client as Client
from dirad.client.tries import ClientError as ClientError
