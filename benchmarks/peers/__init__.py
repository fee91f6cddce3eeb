"""Programs that do without estimator_trainer what it does. Each prints one line of JSON."""
