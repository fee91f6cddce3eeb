"""What watches over a task from another thread: its peers, its progress, signals. No TensorFlow."""
