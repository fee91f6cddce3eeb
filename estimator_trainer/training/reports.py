"""What people see of a training: a bar or lines, TensorBoard's examples/s, metrics.jsonl, and how long steps waited."""

import logging
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import tqdm

from estimator_trainer.run_dir import file_names, metrics_log, training_file
from estimator_trainer.this_process import log
from estimator_trainer.this_process.log import duration
from estimator_trainer.training.dues import in_call

if TYPE_CHECKING:
    import numpy as np

    from estimator_trainer.training.trainer import Setup, Training

_log = logging.getLogger('estimator_trainer')


_STANDS_AFTER = 100  # batches; a global step that has not moved in so many is worth a warning


class Reports:
    """Reports step, loss, examples/s and the time left, on the chief. `loop.Loop` tells of each call.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(self, setup: 'Setup', training: 'Training', clock: Callable[[], float] = time.monotonic):
        self._setup, self._training, self._clock = setup, training, clock
        self._config, self._max_steps = setup.plan.config, setup.params.max_steps
        self._metrics = metrics_log.MetricsLog(os.path.join(self._config.model_dir, file_names.METRICS))
        self._bar: tqdm.tqdm | None = None
        self._loss: float | None = None  # of the last step
        self._said_missing = False

    def start(self, step: int) -> None:
        """Training begins, or goes on, after this step. The speed is measured from the end of the first call, which
        waits for graphs to be built and for the input to fill its buffers."""
        self._first, self._last_reported = step, step
        self._reported: list[tuple[int, float]] = []  # the last two reports: step and time
        if log.wants_bar(self._config.progress):
            if self._bar:
                self._bar.close()
            self._bar = tqdm.tqdm(total=self._max_steps, initial=step, unit='step', file=sys.stderr, dynamic_ncols=True)

    def after_call(self, before: int, steps: list[int], losses: 'Sequence[float] | np.ndarray', batches: int) -> None:
        """A call has taken some steps. Every --log_every_steps is reported, and every --save_summary_steps.

        Asynchronous tasks count their own steps: others move the global step as well.

        Args:
            before: the global step before the call.
            steps: the global step after each of its steps.
            losses: of each of its steps.
            batches: trained in this process so far.
        """
        first, counts, last = self._first, [before, *steps], steps[-1]
        if self._setup.plan.asynchronous:
            first, counts = 0, list(range(batches - len(losses), batches + 1))
        self._loss, self._reported = losses[-1], self._reported or [(last, self._clock())]
        if self._bar is not None:
            self._bar.update(counts[-1] - counts[0])
        due = in_call([count - first for count in counts], self._config.log_every_steps)
        if due:
            if self._setup.plan.asynchronous:
                now = self._training.read_step()
                steps = [now - batches + count for count in counts[1:]]
            self._write([(steps[number], float(losses[number])) for number in due])
        for number in in_call([count - first for count in counts], self._config.save_summary_steps):
            self._training.write_step(steps[number], losses[number])
        if batches - len(losses) < _STANDS_AFTER <= batches and last == self._first:
            _log.warning(
                'WARNING: the global step has not moved in %d batches, and --max_steps counts it: %s',
                batches,
                training_file.CURE_OF_STEP_STANDS,
            )

    def finish(self, step: int) -> None:
        """Training is over; reports what has not been reported."""
        if step > self._last_reported and self._loss is not None:
            self._write([(step, float(self._loss))], is_over=True)
        if self._bar is not None:
            self._bar.close()

    def _write(self, losses: list[tuple[int, float]], is_over: bool = False) -> None:
        """Reports steps that share one measurement of the speed.

        Args:
            losses: (step, loss) of each step that is due.
            is_over: training has ended, maybe early: no time is left.
        """
        now, step = self._clock(), losses[-1][0]
        steps_per_sec = self._steps_per_sec(step, now)
        known = (
            {} if steps_per_sec is None else {'examples_per_sec': steps_per_sec * self._setup.plan.global_batch_size}
        )
        speed = [f'{rate:,.0f} examples/s' for rate in known.values()]
        if self._bar is not None:
            self._bar.set_postfix_str(', '.join([f'loss {losses[-1][1]:.4f}', *speed]), refresh=False)
            self._bar.n = min(step, self._max_steps)  # workers with parameter servers train a few steps more
            self._bar.refresh()
        for rate in known.values():
            self._setup.watchdog.heard_rate(rate)
        for at, loss in losses:
            if self._bar is None:
                shown_step, left = min(at, self._max_steps), []
                if steps_per_sec is not None and not is_over:
                    left = [f'{duration((self._max_steps - shown_step) / max(steps_per_sec, 1e-9))} left']
                _log.info('%s', '  '.join([f'step {shown_step}/{self._max_steps}', f'loss {loss:.4f}', *speed, *left]))
            self._keep(at, {'loss': loss, **known, **self._setup.counts()})
            for rate in known.values():
                self._training.write_rate(at, rate)
        self._reported, self._last_reported = [self._reported[-1], (step, now)], step

    def _keep(self, step: int, values: dict[str, Any]) -> None:
        """Writes a line of metrics.jsonl. One that is missing costs less than the steps since the last checkpoint."""
        try:
            self._metrics.write('train', step, values)
        except OSError as error:
            if not self._said_missing:
                _log.warning('WARNING: lines of %s are missing: %s', file_names.METRICS, error)
            self._said_missing = True

    def _steps_per_sec(self, step: int, now: float) -> float | None:
        """Since the last report, or the one before. None: there has been a single step or call, which tells nothing."""
        for then, at in reversed(self._reported):
            if step - then > 1:
                return (step - then) / max(now - at, 1e-9)
        return None


class Waits:
    """Seconds that the steps of this process have waited since it was started, for their batches and for other workers.

    What counts is the time that a step really waits: reading that happens meanwhile, in tf.data's threads, does not.

    Args:
        for_peers: () -> those for other workers; None: they are not measured.
    """

    def __init__(self, for_peers: Callable[[], float] | None = None):
        self._for_peers = for_peers
        self._for_input: float | None = None
        self._reported: dict[str, float] = {}

    def for_input(self, secs: float) -> None:
        """Some steps have waited so long for their batches; NaN: nobody knows."""
        if math.isfinite(secs):
            self._for_input = (self._for_input or 0.0) + float(secs)

    def totals(self) -> dict[str, float]:
        """name -> seconds, of those that are measured."""
        secs_by_name = {'input_wait_secs': self._for_input, 'peer_wait_secs': self._for_peers and self._for_peers()}
        return {name: secs for name, secs in secs_by_name.items() if secs is not None}

    def since_last(self) -> dict[str, float]:
        """name -> seconds since the last call of this method."""
        before, self._reported = self._reported, self.totals()
        return {name: secs - before.get(name, 0.0) for name, secs in self._reported.items()}
