"""What people see of a training: a bar or lines, TensorBoard's examples/s, metrics.jsonl."""

import logging
import os
import sys
import time

import tensorflow as tf
import tqdm

_log = logging.getLogger('estimator_trainer')


class ProgressHook(tf.estimator.SessionRunHook):
    """Reports step, loss, examples/s and the time left, every so many steps.

    The step is the true global step, read at each report: with parameter servers the other workers
    move it as well.

    Args:
        max_steps: where training ends.
        batch_size: examples of one global step.
        every_steps: local steps between two reports.
        metrics: a MetricsLog.
        summary_dir: folder of the TensorBoard events.
        heard: (examples/s) is told of each report.
        bar: whether to draw a bar on stderr instead of writing lines.
        clock: seconds, monotonic.
    """

    def __init__(self, max_steps, batch_size, every_steps, metrics, summary_dir, bar,
                 heard=lambda rate: None, clock=time.monotonic):
        self._max_steps, self._batch_size, self._every = max_steps, batch_size, every_steps
        self._metrics, self._summary_dir, self._clock = metrics, summary_dir, clock
        self._draw, self._heard = bar, heard
        self._bar = None
        self.last_loss = None

    def begin(self):
        self._global_step = tf.compat.v1.train.get_global_step()
        losses = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.LOSSES)
        self._loss = losses[-1]  # Estimator adds the loss it reports, last

    def after_create_session(self, session, coord):
        self._local_steps = 0
        self._reported_step = int(session.run(self._global_step))
        self._reported_at = self._clock()
        if self._draw:
            self._bar = tqdm.tqdm(total=self._max_steps, initial=self._reported_step, unit='step',
                                  file=sys.stderr, dynamic_ncols=True)

    def before_run(self, run_context):
        return tf.estimator.SessionRunArgs(self._loss)  # Estimator fetches it in every step as well

    def after_run(self, run_context, run_values):
        self._local_steps += 1
        self.last_loss = float(run_values.results)
        if self._bar is not None:
            self._bar.update()
        if self._local_steps % self._every == 0:
            self._report(int(run_context.session.run(self._global_step)))

    def end(self, session):
        step = int(session.run(self._global_step))
        if step > self._reported_step:
            self._report(step)
        if self._bar is not None:
            self._bar.close()

    def _report(self, step):
        now = self._clock()
        steps_per_sec = (step - self._reported_step) / max(now - self._reported_at, 1e-9)
        rate = steps_per_sec * self._batch_size
        if self._bar is not None:
            self._bar.set_postfix_str(f'loss {self.last_loss:.4f}, {rate:,.0f} examples/s',
                                      refresh=False)
            self._bar.n = step
            self._bar.refresh()
        else:
            left = max(0, self._max_steps - step) / max(steps_per_sec, 1e-9)
            _log.info('step %d/%d  loss %.4f  %s examples/s  %s left', step, self._max_steps,
                      self.last_loss, f'{rate:,.0f}', duration(left))
        self._heard(rate)
        self._metrics.write('train', step, {'loss': self.last_loss, 'examples_per_sec': rate})
        writer = tf.compat.v1.summary.FileWriterCache.get(self._summary_dir)
        writer.add_summary(tf.compat.v1.Summary(value=[
            tf.compat.v1.Summary.Value(tag='examples_per_sec', simple_value=rate)]), step)
        self._reported_step, self._reported_at = step, now


def wants_bar(progress: str) -> bool:
    """Whether `--progress` means a bar, here and now."""
    if progress != 'auto':
        return progress == 'on'
    return sys.stderr.isatty() and os.get_terminal_size(sys.stderr.fileno()).columns > 0


def duration(seconds: float) -> str:
    """3725 -> '1h02m'."""
    seconds = int(round(seconds))
    hours, minutes = divmod(seconds // 60, 60)
    if hours:
        return f'{hours}h{minutes:02}m'
    return f'{minutes}m{seconds % 60:02}s' if minutes else f'{seconds}s'
