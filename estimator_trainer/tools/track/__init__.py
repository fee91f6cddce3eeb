"""Sends a run to a tracker, from the files of its model_dir: metrics, params and exports.

`background.py` is the process beside a run, `track_command.py` the command `track`. Both have a `TrackerSender`
(`sending.py`), which reads the run, remembers what it has sent, and has an adapter of the tracker (`adapters.py`).
"""
