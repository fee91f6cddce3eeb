"""The evaluator's loop: it evaluates checkpoints until training has ended. It may skip some, but never the last one."""

import logging
import math
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import tensorflow as tf

from estimator_trainer.errors import UsageError
from estimator_trainer.lifecycle import training_watch
from estimator_trainer.run_dir import checkpoint_errors, checkpoints, file_names, ownership, protocol, training_file
from estimator_trainer.run_dir.run_folder import RunFolder

if TYPE_CHECKING:
    import tf_config
    from estimator_trainer.config.trainer_config import TrainerConfig
    from estimator_trainer.evaluation.evaluation import Evaluation

_log = logging.getLogger('estimator_trainer')
POLL_SECS = 1


class TrainingStopped(Exception):
    """Training was stopped by a signal; it will be resumed."""


class TrainingLost(Exception):
    """The chief has not come, or is gone. `ever_seen`: it had come."""

    def __init__(self, ever_seen: bool, secs: float):
        never = '' if ever_seen else ' in this model_dir; the chief needs the same --model_dir'
        super().__init__(f'the chief has given no sign of life for {secs:.0f} s{never}')
        self.ever_seen = ever_seen


class EvaluatedRun(Protocol):
    """What an evaluator has to know of a training.plan.Plan."""

    @property
    def config(self) -> 'TrainerConfig': ...

    @property
    def cluster(self) -> 'tf_config.Cluster': ...

    @property
    def task(self) -> 'tf_config.Task | None': ...

    @property
    def chief_address(self) -> str | None: ...

    @property
    def ways(self) -> dict[str, str]: ...


class ContinuousEvaluation:
    """Evaluates the checkpoints of a run that other tasks train.

    Args:
        evaluation: evaluation.evaluation.Evaluation.
        watch: a TrainingWatch.
        on_look: called each time round with what is known of training.
    """

    def __init__(
        self,
        model_dir: str,
        evaluation: 'Evaluation',
        watch: training_watch.TrainingWatch,
        on_look: Callable[[], object] = lambda: None,
    ):
        self._model_dir, self._evaluation, self._watch = model_dir, evaluation, watch
        self._on_look = on_look
        self._done: str | None = None  # checkpoint
        self._evaluated: str | None = None  # the last checkpoint that could be
        self._waited = False  # for the last checkpoint to be visible
        self._tried_again: str | None = None  # the last checkpoint that the file system refused once

    def run(self) -> None:
        """Returns when the last checkpoint has been evaluated and exported.

        Raises:
            TrainingStopped, TrainingLost: there is nothing more to wait for.
        """
        undone = self._evaluation.find_undone()
        if undone:
            self._evaluate(os.path.join(self._model_dir, undone.checkpoint), undone.final)
        while True:
            self._on_look()
            news = self._watch.look()  # before the checkpoint: what was saved before the end is seen
            ended = news.state == training_file.ENDED
            checkpoint = self._last(news) if ended else checkpoints.latest(self._model_dir)
            if checkpoint and checkpoint != self._done:
                self._evaluate(checkpoint, ended)
            elif ended:
                if self._evaluated:  # maybe before training was known to have ended
                    self._evaluate(self._evaluated, True)
                return
            elif news.state == training_file.STOPPED:
                raise TrainingStopped()
            elif news.state in (training_watch.LOST, training_watch.ABSENT):
                raise TrainingLost(news.state == training_watch.LOST, news.secs)
            else:
                time.sleep(POLL_SECS)

    def _last(self, news: training_watch.News) -> str | None:
        """The last checkpoint of a training that has ended; waits once for the file system to show it."""
        if self._waited:
            return checkpoints.latest(self._model_dir)
        self._waited = True
        return checkpoints.newest(self._model_dir, news.checkpoint_step)

    def _evaluate(self, checkpoint: str, ended: bool) -> None:
        self._done = checkpoint
        try:
            # The step does not say it: --epochs counts batches, and a step may move the global step by more than 1.
            self._evaluation.evaluate_checkpoint(checkpoint, ended)
            self._evaluated = checkpoint
        except checkpoint_errors.UNREADABLE as error:
            if checkpoints.damage(checkpoint) is None:
                if checkpoint == self._tried_again or not checkpoint_errors.was_refused(error, checkpoint):
                    raise
                self._tried_again, self._done = checkpoint, None  # it can be read by now
                return
            _log.warning(
                'WARNING: %s is gone or cannot be read (%s): not evaluated',
                checkpoint,
                str(error).strip().splitlines()[0],
            )
        finally:
            tf.keras.backend.clear_session()


def evaluate_run(plan: EvaluatedRun, evaluation: 'Evaluation', max_steps: int) -> None:
    """The evaluator's part of a run: evaluates what the others train, until training has ended.

    Raises:
        TrainingStopped, TrainingLost: there is nothing more to wait for.
        UsageError: another process evaluates the run, or the chief writes into another folder.
        TakenElsewhere: a process of another machine evaluates the run.
    """
    config = plan.config
    greeting = training_watch.greeting_of(plan.chief_address, plan.ways)
    watch = training_watch.TrainingWatch(
        max_steps,
        config.join_timeout_secs,
        config.lost_peer_secs,
        os.environ.get(protocol.GENERATION, ''),
        lambda: RunFolder(config.model_dir).training,
        greeting,
        config.step_timeout_secs or math.inf,
    )
    folder = training_watch.FolderWatch(lambda: watch.seen, greeting, config.join_timeout_secs / 2)

    is_copy = protocol.copied_url(config.model_dir, os.environ) is not None  # and a store may be slow

    def refuse_another_folder() -> None:
        if not is_copy and folder.is_elsewhere():
            raise UsageError(
                f'{plan.task} does not find in --model_dir={config.model_dir} what the chief '
                f'{plan.cluster.chief_task} at {plan.chief_address} writes there: the folder is '
                'not shared. Name one on storage that every task sees at this path.'
            )

    with ownership.lock(config.model_dir, file_names.EVALUATOR_LOCK) as lock:
        ownership.take(
            lock,
            config.model_dir,
            'evaluates this run already (list the evaluator in TF_CONFIG of every task)',
            ownership.OF_CLUSTER_SECS,
        )
        ContinuousEvaluation(config.model_dir, evaluation, watch, refuse_another_folder).run()
