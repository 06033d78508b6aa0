"""Streams whose tasks change unannounced: how they change, a system that follows, its scores."""
