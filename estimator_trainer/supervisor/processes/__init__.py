"""What is of this machine: `ports` are addresses that no other program takes; `local_launcher` starts a task as a
process, logs its output, and says how it ended. `this_process/isolate.py` gives a cluster a network of its own.
"""
