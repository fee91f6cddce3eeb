"""The supervisor of a cluster of local processes: ports, processes, logs, ends, restarts.

It knows the trainer as a command, `python -m estimator_trainer`, and by what it tells back
(run_dir/protocol.py, run_dir/training_file.py, exit_codes.py); it never imports TensorFlow. With --program it starts a
program of somebody's own under `compat run` instead, of which it sees output and exit codes only. A run goes through
these modules, from policy to mechanism:

    command.py          `python -m estimator_trainer cluster`, which joins the others
    options.py          its flags, argv -> Options;
                        trainer_flags.py: what it reads of the trainer's flags
    isolate.py          a network that nobody else reaches
    lock.py             one supervisor for a model_dir
    machine.py          what a run is given to work with, and the commands of a gang (pure)
    task_commands.py    shape, addresses and cores -> one Command for each task (pure)
    ports.py            addresses that nobody else takes
    policy.py           what the ends of tasks mean for their gang: the cause (pure)
    restarts.py         what is started again, and when (pure)
    messages.py         what the supervisor says (pure)
    attempt.py          one gang, from start to end (pure)
    run.py              one attempt after the other: restarts, back-off
    supervisor.py       one attempt: starts, watches and stops a gang -> Outcome
    launcher.py         what it asks of the place where tasks run
    local_launcher.py   a task of this machine: its process (process.py: a process group) and its
                        output (logs.py: raw files, prefixed lines; console.py: our stdout and stderr;
                        last_line.py: the line below them on a terminal, with the words of progress.py)
    log_folders.py      the folders of logs
    training_status.py  how training goes, from training.json
    status.py           status.json, while it runs; report.py: report.json, after it
    oom.py              whether the kernel kills for want of memory
    signals.py          signals as something to select on
"""
