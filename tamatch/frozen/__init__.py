"""TaMatch on features that do not change: solved on the whole pool at once, in seconds."""
