"""Errors that the user can mend. Imports nothing of ours."""


class UsageError(ValueError):
    """Something the user can mend before anything starts. Names the flag, the value and the cure."""
