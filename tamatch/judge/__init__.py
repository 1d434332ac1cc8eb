"""What numbers say of a model and of data: plain statistics, no torch state."""
