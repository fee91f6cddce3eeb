"""What the supervisor decides, as functions of values: no process, no clock, no file."""
