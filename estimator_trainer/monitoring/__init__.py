"""What others see of a run while it lives: its metrics, its page, its trackers, and profiles of its steps.

task_monitors.py starts the first three beside a task. Only profiles/profiler.py imports TensorFlow.

--metrics_port is what a run tells Prometheus over HTTP (docs/monitoring.md lists the metrics). Nothing of it runs
between two scrapes:

    port.py        the flag -> a socket that listens, or an error before anything starts
    run_state.py   the files of a model_dir -> what is known now
    collector.py   what is known -> metrics, as prometheus-client wants them (pure)
    server.py      a thread that answers scrapes, and bounds what clients can ask of it

Processes beside the run, which read its files and hold up no step:

    side_process.py    one such process: its start, its bounded end, its last line
    report_page.py  has report.html written
    trackers.py     what --track names
    senders.py      starts a process for each of them, which sends the run there

How training goes, for a supervisor and for `status`:

    training_progress.py  training.json again and again: whether training stalls, and how long it will take
    progress_line.py      the numbers of a run in words that fit a width (pure)
"""
