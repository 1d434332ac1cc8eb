"""What numbers say about a model and about data: plain statistics, no torch state."""
