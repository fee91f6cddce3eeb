"""The supervisor of a cluster of local processes: ports, processes, logs, ends, restarts.

It knows the trainer as a command, `python -m estimator_trainer`, and by what it tells back
(run_dir/protocol.py, run_dir/training_file.py, exit_codes.py); it never imports TensorFlow. With --program it starts a
program of somebody's own under `compat run` instead, of which it sees output and exit codes only. A run goes through
these modules, from policy to mechanism:

    cluster_command.py   `python -m estimator_trainer cluster`, which joins the others
    options.py           its flags, argv -> Options;
                         trainer_flags.py: what it reads of the trainer's flags
    supervisor.py        one gang after the other: restarts, back-off; the same wherever tasks run
    local_supervisor.py  a run on this machine
    local_machine.py     what such a run is given to work with, and the commands of a gang (pure)
    gang.py              one gang: starts, watches and stops it -> GangOutcome
    launcher.py          what it asks of the place where tasks run

    policy/              what is decided, without processes and clocks
      task_commands.py   shape, addresses and cores -> one TaskCommand for each task
      causes.py          what the ends of tasks mean for their gang
      restarts.py        what is started again, and when
      gang_limits.py     how long things may take
    processes/           of this machine
      isolate.py         a network that nobody else reaches
      ports.py           addresses that nobody else takes
      local_launcher.py  a task: its process (this_process/child_process.py) and its output (logs.py: raw files,
                         prefixed lines; console.py: our stdout and stderr; last_line.py: the line below them on a
                         terminal)
      log_folders.py     the folders of logs
      oom.py             whether the kernel kills for want of memory
    reports/
      training_status.py how training goes, from training.json
      attempt.py         one gang, from start to end
      wording.py         what the supervisor says; progress_line.py: the words of the last line
      status.py          status.json, while it runs; report_file.py: report.json, after it

`run_dir/ownership.py` sees to it that a model_dir has one supervisor.
"""
