"""Side jobs of the training loop."""
