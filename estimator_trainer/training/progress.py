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
        self._reported_step, self._reported_at = step, self._clock()
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
        if step > self._reported_step and self.last_loss is not None:
            self._report([(step, self.last_loss)])
        if self._bar is not None:
            self._bar.close()

    def _report(self, losses):
        """losses: (step, loss) of each step that is due, which share one measurement of the speed."""
        now, step = self._clock(), losses[-1][0]
        steps_per_sec = (step - self._reported_step) / max(now - self._reported_at, 1e-9)
        rate = steps_per_sec * self._batch_size
        if self._bar is not None:
            self._bar.set_postfix_str(f'loss {losses[-1][1]:.4f}, {rate:,.0f} examples/s', refresh=False)
            self._bar.n = step
            self._bar.refresh()
        self._heard(rate)
        for at, loss in losses:
            if self._bar is None:
                left = max(0, self._max_steps - at) / max(steps_per_sec, 1e-9)
                _log.info(
                    'step %d/%d  loss %.4f  %s examples/s  %s left',
                    at,
                    self._max_steps,
                    loss,
                    f'{rate:,.0f}',
                    duration(left),
                )
            self._metrics.write('train', at, {'loss': loss, 'examples_per_sec': rate, **self._counts()})
            self._summary(at, rate)
        self._reported_step, self._reported_at = step, now


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
