"""The scikit-learn interface: arrays in, a classifier out."""
