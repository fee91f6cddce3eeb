"""What becomes of a run when something goes wrong: `python -m tests.chaos` shows it, as a table.

A case is a run of the small job in `job.py` with a fault in it: a signal that strikes a process at an
exact moment (`faults.py`), or files, disks and links that are broken from outside. `python -m tests.chaos
--help` says more. tests/end_to_end/test_faults_*.py run the most telling ones.
"""
