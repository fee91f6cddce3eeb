"""What the supervisor decides, as functions of values: no process, no clock, no file.

`task_commands` says what is started, `causes` what the ends of tasks mean for their gang, and `restarts` what follows.
"""
