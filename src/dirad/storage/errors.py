"""What is said of a file that is no model."""


class ModelError(ValueError):
    """A model file is truncated, altered, foreign or makes no sense."""
