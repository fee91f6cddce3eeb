"""What the supervisor reads of training, and what it says and writes about a run."""
