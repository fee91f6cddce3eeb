"""The supervisor of a cluster of local processes: it starts the tasks, watches them, and restarts them when one fails.

It knows the trainer as a command, `python -m estimator_trainer`, by its exit codes (exit_codes.py) and by its files
(run_dir/protocol.py, run_dir/training_file.py). It never imports TensorFlow. With --program it starts a program under
`compat run` instead, of which it sees the output and the exit codes only.

    cluster_command.py   `python -m estimator_trainer cluster`, which joins the others
    options.py           its flags: argv -> Options
    local_supervisor.py  a run on this machine: commands, ports, logs, files
    policy/              decisions, without processes and clocks
    processes/           what is of this machine
    reports/             what is said and written

These files lead from the end of a task to its restart:

    this_process/child_process.py   sees that the process has ended, and kills the rest of its group
    processes/local_launcher.py     turns that into a TaskEnd, with what the task or its log says of the end
    gang.py                         collects the TaskEnds of one gang, and ends the gang or restarts the task alone
    policy/causes.py                finds the cause among the TaskEnds
    policy/restarts.py              decides what follows
    supervisor.py                   starts the next gang after a pause
    exit_codes.py                   says which codes are permanent

`run_dir/ownership.py` sees to it that a model_dir has one supervisor.
"""
