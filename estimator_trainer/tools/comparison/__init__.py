"""Compares runs: the commands verify (a program in two environments) and parity (a job in every loop and layout).

Both make records of runs that they start (`traces`: values by key). `value_differences` says how far two of them are
apart, `judgements` whether that is more than rounding or chance, `first_difference` where they part and why, and
`report` shows it as text and as a page.

For verify, `verify_command` is the front, `verify_runs` starts the program, in which `compat/recorder` records, and
`verify_results` says what was found. For parity these are `parity_command`, `parity_runs` and `parity_results`.
"""
