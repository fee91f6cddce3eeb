"""The supervisor of a cluster of local processes: ports, processes, logs, ends.

It knows the trainer as a command, `python -m estimator_trainer`, and by its exit codes; it never
imports TensorFlow. A run goes through these modules, from policy to mechanism:

    options.py     argv -> Options, or UsageError
    plan.py        shape, addresses and cores -> one Command for each task (pure)
    ports.py       addresses that nobody else takes
    policy.py      what an exit means: the cause, the exit code (pure)
    report.py      what the supervisor says (pure)
    supervisor.py  the loop: runs one gang of Commands to its end -> Outcome
    process.py     one task as a process group
    logs.py        its output: raw files, prefixed lines
    signals.py     signals as something to select on
"""
