"""What people see of a training: a bar or lines, TensorBoard's examples/s, metrics.jsonl."""

import logging
import os
import sys
import time

import tqdm

from estimator_trainer.run_dir import file_names, metrics_log
from estimator_trainer.this_process import log
from estimator_trainer.this_process.log import duration

_log = logging.getLogger('estimator_trainer')


class Reports:
    """Reports step, loss, examples/s and the time left. `loop.Loop` says when.

    Args:
        max_steps: where training ends.
        batch_size: examples of one global step.
        metrics: a MetricsLog.
        bar: whether to draw a bar on stderr instead of writing lines.
        heard: (examples/s) is told of each report.
        clock: seconds, monotonic.
        rate: (step, examples/s) -> None, writes it for TensorBoard.
        counts: () -> {name: number}, for metrics.jsonl.
        summarise: (step, loss) -> None, writes for TensorBoard every --save_summary_steps; None: somebody else does.

    Attributes:
        bar: the one that is drawn, or None.
    """

    def __init__(
        self,
        max_steps,
        batch_size,
        metrics,
        bar,
        heard=lambda rate: None,
        clock=time.monotonic,
        rate=lambda step, rate: None,
        counts=dict,
        summarise=None,
    ):
        self._max_steps, self._batch_size = max_steps, batch_size
        self._metrics, self._clock = metrics, clock
        self._draw, self._heard, self._rate, self._counts = bar, heard, rate, counts
        self.bar, self.summarise = None, summarise

    def start(self, step: int) -> None:
        """Training begins, or goes on, after this step."""
        self._reported = [(step, self._clock())]  # the last two reports: step and time
        if self._draw:
            self.bar = tqdm.tqdm(total=self._max_steps, initial=step, unit='step', file=sys.stderr, dynamic_ncols=True)

    def finish(self, step: int, loss) -> None:
        """Training is over; reports what has not been reported. `loss`: of the last step, None if there was none."""
        if step > self._reported[-1][0] and loss is not None:
            self.write([(step, float(loss))], is_over=True)
        if self.bar is not None:
            self.bar.close()

    def write(self, losses, is_over: bool = False) -> None:
        """Reports steps that share one measurement of the speed.

        Args:
            losses: (step, loss) of each step that is due.
            is_over: training has ended, maybe early: no time is left.
        """
        now, step = self._clock(), losses[-1][0]
        steps_per_sec = self._steps_per_sec(step, now)
        known = {} if steps_per_sec is None else {'examples_per_sec': steps_per_sec * self._batch_size}
        speed = [f'{rate:,.0f} examples/s' for rate in known.values()]
        if self.bar is not None:
            self.bar.set_postfix_str(', '.join([f'loss {losses[-1][1]:.4f}', *speed]), refresh=False)
            self.bar.n = min(step, self._max_steps)  # workers with parameter servers train a few steps more
            self.bar.refresh()
        for rate in known.values():
            self._heard(rate)
        for at, loss in losses:
            if self.bar is None:
                shown, left = min(at, self._max_steps), []
                if steps_per_sec is not None and not is_over:
                    left = [f'{duration((self._max_steps - shown) / max(steps_per_sec, 1e-9))} left']
                _log.info('%s', '  '.join([f'step {shown}/{self._max_steps}', f'loss {loss:.4f}', *speed, *left]))
            self._metrics.write('train', at, {'loss': loss, **known, **self._counts()})
            for rate in known.values():
                self._rate(at, rate)
        self._reported = [self._reported[-1], (step, now)]

    def _steps_per_sec(self, step, now) -> float | None:
        """Since the last report, or the one before. None: there has been a single step, which tells nothing."""
        for then, at in reversed(self._reported):
            if step - then > 1:
                return (step - then) / max(now - at, 1e-9)
        return None


def make(setup, rate, summarise=None) -> Reports:
    """Of the chief.

    Args:
        setup: trainer.Setup.
        rate, summarise: as of Reports.
    """
    config = setup.plan.config
    return Reports(
        max_steps=setup.params.max_steps,
        batch_size=setup.plan.global_batch_size,
        metrics=metrics_log.MetricsLog(os.path.join(config.model_dir, file_names.METRICS)),
        bar=log.wants_bar(config.progress),
        heard=setup.watchdog.heard_rate,
        counts=setup.counts,
        rate=rate,
        summarise=summarise,
    )
