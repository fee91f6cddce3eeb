"""Whether and how a task ends early: signals, other tasks that are lost, and the thread that watches over it."""
