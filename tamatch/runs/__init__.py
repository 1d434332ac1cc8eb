"""A run from its configuration to its end, alone or several together."""
