"""What people see of a training: a bar or lines, TensorBoard's examples/s, metrics.jsonl."""

import logging
import sys
import time

import tensorflow as tf
import tqdm

from estimator_trainer.log import duration
from estimator_trainer.training import waits
from estimator_trainer.training.watched_step import losses_of_call

_log = logging.getLogger('estimator_trainer')


class Progress:
    """Reports step, loss, examples/s and the time left, every so many steps.

    Args:
        max_steps: where training ends.
        batch_size: examples of one global step.
        every_steps: local steps between two reports.
        metrics: a MetricsLog.
        heard: (examples/s) is told of each report.
        bar: whether to draw a bar on stderr instead of writing lines.
        clock: seconds, monotonic.
        summary: (step, examples/s) -> None, writes it for TensorBoard.
        counts: () -> {name: number}, for metrics.jsonl.
    """

    def __init__(
        self,
        max_steps,
        batch_size,
        every_steps,
        metrics,
        bar,
        heard=lambda rate: None,
        clock=time.monotonic,
        summary=lambda step, rate: None,
        counts=dict,
    ):
        self._max_steps, self._batch_size, self._every = max_steps, batch_size, every_steps
        self._metrics, self._clock = metrics, clock
        self._draw, self._heard, self._summary, self._counts = bar, heard, summary, counts
        self._bar = None
        self.last_loss = None

    def start(self, step: int) -> None:
        """Training begins, or goes on, after this step."""
        self._local_steps = 0
        self._reported = [(step, self._clock())]  # the last two reports: step and time
        if self._draw:
            self._bar = tqdm.tqdm(total=self._max_steps, initial=step, unit='step', file=sys.stderr, dynamic_ncols=True)

    def stepped(self, losses, step) -> None:
        """Some steps have been finished.

        Args:
            losses: of each of them.
            step: () -> the global step after the last one.
        """
        first, self._local_steps = self._local_steps, self._local_steps + len(losses)
        self.last_loss = float(losses[-1])
        if self._bar is not None:
            self._bar.update(len(losses))
        due = [n for n in range(first + 1, self._local_steps + 1) if n % self._every == 0]
        if due:
            now = step()
            self._report([(now - self._local_steps + n, float(losses[n - first - 1])) for n in due])

    def finish(self, step: int) -> None:
        """Training is over; reports what has not been reported."""
        if step > self._reported[-1][0] and self.last_loss is not None:
            self._report([(step, self.last_loss)])
        if self._bar is not None:
            self._bar.close()

    def _report(self, losses):
        """losses: (step, loss) of each step that is due, which share one measurement of the speed."""
        now, step = self._clock(), losses[-1][0]
        steps_per_sec = self._steps_per_sec(step, now)
        known = {} if steps_per_sec is None else {'examples_per_sec': steps_per_sec * self._batch_size}
        speed = [f'{rate:,.0f} examples/s' for rate in known.values()]
        if self._bar is not None:
            self._bar.set_postfix_str(', '.join([f'loss {losses[-1][1]:.4f}', *speed]), refresh=False)
            self._bar.n = min(step, self._max_steps)  # workers with parameter servers train a few steps more
            self._bar.refresh()
        for rate in known.values():
            self._heard(rate)
        for at, loss in losses:
            if self._bar is None:
                shown, left = min(at, self._max_steps), []
                if steps_per_sec is not None:
                    left = [f'{duration((self._max_steps - shown) / max(steps_per_sec, 1e-9))} left']
                _log.info('%s', '  '.join([f'step {shown}/{self._max_steps}', f'loss {loss:.4f}', *speed, *left]))
            self._metrics.write('train', at, {'loss': loss, **known, **self._counts()})
            for rate in known.values():
                self._summary(at, rate)
        self._reported = [self._reported[-1], (step, now)]

    def _steps_per_sec(self, step, now) -> float | None:
        """Since the last report, or the one before. None: there has been a single step, which tells nothing."""
        for then, at in reversed(self._reported):
            if step - then > 1:
                return (step - then) / max(now - at, 1e-9)
        return None


class ProgressHook(Progress, tf.estimator.SessionRunHook):
    """Progress for Estimator. The step is the true global step, read at each report: with parameter
    servers the other workers move it as well.

    Args:
        summary_dir: folder of the TensorBoard events. The others are Progress's.
        waited: (secs) is told how long the steps of each call have waited for their batches, if that is measured.
    """

    def __init__(self, *, summary_dir, waited=lambda secs: None, **kwargs):
        super().__init__(**kwargs, summary=self._write_summary)
        self._summary_dir, self._waited = summary_dir, waited

    def begin(self):
        self._global_step = tf.compat.v1.train.get_global_step()
        self._fetches = [losses_of_call(), waits.of_call()]

    def after_create_session(self, session, coord):
        self.start(int(session.run(self._global_step)))

    def before_run(self, run_context):
        return tf.estimator.SessionRunArgs(self._fetches)  # Estimator fetches the last one as well

    def after_run(self, run_context, run_values):
        losses, waited = run_values.results
        for secs in waited:
            self._waited(secs)
        self.stepped(losses, lambda: int(run_context.session.run(self._global_step)))

    def end(self, session):
        self.finish(int(session.run(self._global_step)))

    def _write_summary(self, step, rate):
        writer = tf.compat.v1.summary.FileWriterCache.get(self._summary_dir)
        writer.add_summary(
            tf.compat.v1.Summary(value=[tf.compat.v1.Summary.Value(tag='examples_per_sec', simple_value=rate)]), step
        )
