"""How a task ends: by a signal, without a peer, or stalled; also while its main thread is stuck inside TensorFlow.

signal_inbox.py     takes the signals that come to this process
peers.py            counts which peers answer, and has the clock of the seconds in which this process could run
probes.py           asks the peers, and finds their addresses
end_policy.py       decides when the task has to end, and with which exit code (pure)
watchdog.py         asks these three in threads, writes training.json, and ends the process
ending.py           prints the last line, writes the error file, and leaves within a bounded time
helpers.py          ends the helper processes that the job has left
training_watch.py   tells an evaluator how the training of its chief goes
"""
