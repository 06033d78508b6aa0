"""Streams whose tasks change unannounced: ways to change, a learner that follows, numbers."""
