"""Proves that the loops compute the same: `python -m estimator_trainer parity --job=...`.

`plan` says which runs there are, `runs` starts them and reads what they wrote, `compare` is the
arithmetic, `report` and `page` show it.
"""
