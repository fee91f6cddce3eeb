"""One job, three ways to train it: `estimator`, `keras_fit`, `custom_loop`. `run_task` is the life of a task."""
