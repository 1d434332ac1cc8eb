"""Slow references of every method: plain NumPy in float64, written from the specification alone.

They share no code with the package. `table.REFERENCES` lists them by name.
"""
