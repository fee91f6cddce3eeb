"""Trains a job with every loop, and compares the weights of each step: `python -m estimator_trainer parity --job=...`.

`run_list` says which runs there are, and `parity_runs` starts them and reads what they wrote (`run_weights` the weights
of each step). `run_differences` is the arithmetic, and `report` and `page` show the result.
"""
