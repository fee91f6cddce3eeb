"""One job, three ways to train it. Today: `estimator`."""
