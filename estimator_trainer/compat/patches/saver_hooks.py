"""Hooks that save and write summaries after a call of several steps.

Touches: CheckpointSaverHook._timer and _save, SummarySaverHook._next_step
Without it: these hooks would have to ask the session for the step after each call, and would miss steps within one
For: the trainer
"""

import tensorflow as tf

v1 = tf.compat.v1


class CheckpointSaver(v1.train.CheckpointSaverHook):
    """Upstream's, told of the steps by its owner."""

    def save_if_due(self, run_context, step: int) -> None:
        """Saves after this step, if its steps or seconds say so."""
        if self._timer.should_trigger_for_step(step):
            self._timer.update_last_triggered_step(step)
            if self._save(run_context.session, step):
                run_context.request_stop()


class SummarySaver(v1.train.SummarySaverHook):
    """Upstream's, told of the steps by its owner."""

    def expect(self, step: int) -> None:
        """The next call ends with this step."""
        if self._next_step is not None:
            self._next_step = step
