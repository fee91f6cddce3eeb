"""What happens to a checkpoint: an exact evaluation, the decision to stop early, and exports."""
