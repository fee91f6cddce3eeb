"""Small jobs that are not like ours: each is trained by `oracle`, a plain loop of `session.run`, and by the trainer.

    python -m tests.differential [--only=WORD] [--settings=1,7,auto] [--jobs=N] [--list]

`jobs` has the jobs. `played` trains one of them in each setting, in one process; `compare` says what differs.
"""
