"""What is done with a finished run: load, evaluate, predict, label, export."""
