"""Trains a job with every loop, and compares the weights of each step: `python -m estimator_trainer parity --job=...`.

`run_list` says which runs there are, `runs` starts them and reads what they wrote (`weights` those of each step),
`compare` is the arithmetic, and `report` and `page` show the result.
"""
