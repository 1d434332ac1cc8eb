"""The machine below: processes, signals, memory, streams, and whether GPU code can be made."""
