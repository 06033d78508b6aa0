"""What growth costs in every direction: inputs, targets, edges, models, samples; and beyond."""
