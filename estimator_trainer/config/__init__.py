"""The flags of the trainer and of every command: declared, read and checked. Never imports TensorFlow."""
