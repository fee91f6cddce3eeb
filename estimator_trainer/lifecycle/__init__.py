"""How a task ends: by a signal, without a peer, or stalled; also while its main thread is stuck inside TensorFlow.

signal_inbox.py     takes the signals that come to this process
peers.py            counts which peers answer, by probes.py, which knows their addresses from host_addresses.py
end_policy.py       decides when the task has to end, and with which exit code (pure)
watchdog.py         asks these three in threads, writes training.json, and ends the process
ending.py           prints the last line, writes the error file, and leaves within a bounded time
helpers.py          ends the helper processes that the job has left
training_watch.py   tells an evaluator how the training of its chief goes
clock.py            seconds in which this process could run
"""
