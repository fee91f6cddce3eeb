"""The supervisor of a cluster of local processes: ports, processes, logs, ends, restarts.

It knows the trainer as a command, `python -m estimator_trainer`, and by what it tells back
(protocol.py, exit_codes.py); it never imports TensorFlow. A run goes through these modules, from
policy to mechanism:

    command.py        `python -m estimator_trainer cluster`, which joins the others
    options.py        the flags, argv -> Options; trainer_flags.py: what of the trainer's flags
                      we must know; usage.py: absl's errors in one line
    isolate.py        a network that nobody else reaches
    lock.py           one supervisor for a model_dir
    plan.py           shape, addresses and cores -> one Command for each task (pure)
    ports.py          addresses that nobody else takes
    policy.py         what the ends of tasks mean for their gang: the cause (pure)
    restarts.py       what is started again, and when (pure)
    report.py         what the supervisor says (pure)
    attempt.py        one gang, from start to end (pure)
    run.py            the loop over attempts: restarts, back-off
    supervisor.py     the loop: runs one gang of Commands to its end -> Outcome
    task.py           one task: its process (process.py: a process group) and its output
                      (logs.py: raw files, prefixed lines; console.py: our stdout and stderr)
    attempts.py       the folders of logs
    training.py       how training goes, from training.json
    status.py         status.json, while it runs; story.py: report.json, after it
    oom.py            whether the kernel kills for want of memory
    signals.py        signals as something to select on
"""
