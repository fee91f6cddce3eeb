"""Sends a run to a tracker, from the files of its model_dir: metrics, params and exports.

`background.py` is the process beside a run, `track_command.py` the command `track`. Both have a `TrackerSender`
(`sending.py`). It reads (`unsent.py`), remembers what it has sent (`tracking_state.py`), and has an adapter for each
tracker (`tracker.py`).
"""
