"""What torch's modules hold: running statistics, and state that checkpoints must not lack."""
