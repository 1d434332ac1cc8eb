"""The trained model and what is done with it: load, predict, evaluate, export."""
