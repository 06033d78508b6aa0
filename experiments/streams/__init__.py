"""Real streams in time order: test-then-train, activities without labels, novel classes."""
