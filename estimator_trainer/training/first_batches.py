"""Notices an input_fn that does not shard: all synchronous tasks then train on the same examples.

1. Where the input_fn has not asked its input_context for the task's place, a fingerprint of the first batch is taken.
2. After its first call of TensorFlow, each task tells its fingerprint, or that it has none.
3. After its second call the chief asks for those of the others. That call needed all tasks, so they have told, and the
   chief does not wait. It asks until one differs from its own, and warns if none does. If one call was the whole
   training, the chief asks when all tasks have met after it.
"""

import contextlib
import logging
from collections.abc import Callable, Iterator

import tensorflow as tf

from estimator_trainer.data import first_batch
from estimator_trainer.jobs.input_fns import InputFnOfAll
from estimator_trainer.jobs.job_types import Mode, Params, RunConfig
from estimator_trainer.training import coordination
from estimator_trainer.training.plan import Plan

_log = logging.getLogger('estimator_trainer')
_KEY = 'first_batch'


class FirstBatches:
    """The first batches of the synchronous tasks of a plan.

    Args:
        plan: of a task that trains with others in step.
        tell, hear: as those of coordination.
    """

    def __init__(
        self,
        plan: Plan,
        tell: Callable[[str, str], object] = coordination.tell,
        hear: Callable[[str], str] = coordination.hear,
    ):
        self._plan, self._tell, self._hear = plan, tell, hear
        self._own = ''  # the fingerprint
        self._calls = 0

    def watched(self, input_fn: InputFnOfAll) -> InputFnOfAll:
        """An input_fn of jobs.input_fns whose first batch is looked at. Its batches are what they were."""

        def call(
            mode: Mode,
            params: Params,
            input_context: tf.distribute.InputContext | None = None,
            config: RunConfig = None,
        ) -> tf.data.Dataset:
            if mode != tf.estimator.ModeKeys.TRAIN or input_context is None:
                return input_fn(mode, params, input_context, config)
            context = _Context(
                input_context.num_input_pipelines, input_context.input_pipeline_id, input_context.num_replicas_in_sync
            )
            batches = input_fn(mode, params, context, config)
            return batches if context.asked else first_batch.telling(batches, self._keep)

        return call

    def after_call(self) -> None:
        """A call of TensorFlow, in which all tasks have taken steps, is over."""
        self._calls += 1
        with _unless_a_task_is_lost():
            if self._calls == 1 and not self._plan.is_chief:
                self._tell(f'{_KEY}/{self._plan.training_index}', self._own)
            elif self._calls == 2:
                self._compare()

    def after_training(self) -> None:
        """All tasks have trained, and have met since."""
        with _unless_a_task_is_lost():
            if self._calls == 1:
                self._compare()

    def _keep(self, fingerprint: str) -> None:
        self._own = fingerprint

    def _compare(self) -> None:
        others = (index for index in range(self._plan.num_training_tasks) if index != self._plan.training_index)
        if self._plan.is_chief and self._own and all(self._hear(f'{_KEY}/{index}') == self._own for index in others):
            _log.warning('WARNING: %s', _warning(self._plan))


class _Context(tf.distribute.InputContext):
    """Remembers whether it was asked for the place of this task among the others."""

    asked = False

    @property
    def input_pipeline_id(self) -> int:
        self.asked = True
        return super().input_pipeline_id


@contextlib.contextmanager
def _unless_a_task_is_lost() -> Iterator[None]:
    try:
        yield
    except tf.errors.OpError as error:  # a task is about to be lost, and others say so
        _log.debug('the first batches are not compared: %s', error)


def _warning(plan: Plan) -> str:
    return (
        f'all {plan.num_training_tasks} tasks train on the same examples: the first batch of each is the same, because '
        f'the input_fn of job {plan.config.job} does not shard. Let it take the argument input_context '
        '(None in one process and in evaluations) and, if it is given, begin with '
        'dataset.shard(input_context.num_input_pipelines, input_context.input_pipeline_id), before it shuffles and '
        'batches; estimator_trainer.data.array_batches does so for arrays (docs/jobs.md).'
    )
