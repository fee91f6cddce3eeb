"""A worker looks every second whether the chief has initialized the variables.

Touches: SessionManager._recovery_wait_secs in tensorflow.python.training.session_manager
Without it: with parameter servers a worker looks only every 30 s whether the chief is ready
For: every program
"""

import functools

from estimator_trainer.compat import lacks

_POLL_SECS = 1


def mend(module) -> None:
    """Mends the sessions of Estimators; `module` is that of `Estimator`."""
    from tensorflow.python.training import session_manager

    original = session_manager.SessionManager.__init__

    @functools.wraps(original)
    def init(self, *args, **kwargs):
        original(self, *args, **kwargs)
        with lacks.or_without():
            self._recovery_wait_secs = min(self._recovery_wait_secs, _POLL_SECS)

    session_manager.SessionManager.__init__ = init
