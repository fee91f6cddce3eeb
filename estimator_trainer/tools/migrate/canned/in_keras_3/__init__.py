"""Programs of a process that has Keras 3 alone. `tensors` is used by both processes."""
