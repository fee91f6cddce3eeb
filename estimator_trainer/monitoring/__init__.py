"""--metrics_port: what a run can tell Prometheus, over HTTP. docs/monitoring.md lists the metrics.

    port.py        the flag -> a socket that listens, or an error before anything starts
    run_state.py   the files of a model_dir -> what is known now
    collector.py   what is known -> metrics, as prometheus-client wants them (pure)
    server.py      a thread that answers scrapes, and bounds what clients can ask of it

Nothing here runs between two scrapes. Imports no TensorFlow.
"""
