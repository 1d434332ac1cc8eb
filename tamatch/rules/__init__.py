"""Plain facts in, settings out."""
