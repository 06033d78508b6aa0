"""Ours and its peers on the same streams, in one run."""
