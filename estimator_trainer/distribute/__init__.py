"""Who does what in a run (`plan`, without TensorFlow), and how TensorFlow is told (`runtime`)."""
