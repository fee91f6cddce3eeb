"""The chief of `train_and_evaluate` tells the evaluator that training has ended.

Touches: _TrainingExecutor and _ContinuousEvalListener in tensorflow_estimator.python.estimator.training, and
    Estimator._train_model
Without it: the evaluator of train_and_evaluate waits for ever after early stopping, and with max_steps=None
For: every program

Upstream's evaluator ends when it has evaluated a checkpoint of `max_steps`: after early stopping, and
with max_steps=None, it waits for ever. Here the chief writes `training_end.json` into the model_dir:

    id         of this training: one call of train_and_evaluate in one process
    state      'training' from its beginning, which is when Estimator has checked what it was given;
               'ended' when it has returned without an exception
    max_steps  of the TrainSpec
    step       of the last checkpoint; null while it trains, and where it cannot be read

An evaluator that reads 'ended' evaluates the last checkpoint, calls the exporters with
is_the_final_export=True, and returns. A chief that fails or is killed tells nothing, since whoever
started it may start it again: the evaluator waits for it, as upstream's does.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

_NAME = 'training_end.json'
_TRAINING, _ENDED = 'training', 'ended'
_LATE_SECS = 600  # by which the chief may start later than the evaluator
_LOOK_SECS = 1
_VISIBLE_SECS = 30  # that a remote file system may take to show what another machine has written

_tells = False
_of_thread = threading.local()  # .training: what `reported` tells of
_obeyed: dict[str, dict[str, Any]] = {}  # model_dir -> what training_end.json said when the last evaluation there ended


def mend(module: Any) -> None:
    """Mends `tensorflow_estimator.python.estimator.training`."""
    global _tells
    _tells = True
    executor = module._TrainingExecutor
    executor._start_distributed_training = _tell(executor._start_distributed_training)
    executor._start_continuous_evaluation = _obey(executor._start_continuous_evaluation, module)
    begin_where_it_trains(module.estimator_lib.Estimator)


def withhold() -> None:
    """Lets a chief in this process tell nothing: its evaluator knows in another way."""
    global _tells
    _tells = False


@contextlib.contextmanager
def reported(model_dir: str, is_chief: bool, max_steps: Any) -> Iterator[None]:
    """Tells the evaluator when the training within begins (`begin_where_it_trains`) and ends."""
    if not (_tells and is_chief and model_dir):
        yield
        return
    _of_thread.training = training = _Training(model_dir, max_steps)
    try:
        yield
    finally:
        _of_thread.training = None
    training.ended()


def begin_where_it_trains(cls: Any) -> None:
    """Wraps the method of the class `Estimator` that `train` calls once all checks have been passed."""
    original = cls._train_model

    @functools.wraps(original)
    def train_model(self: Any, *args: Any, **kwargs: Any) -> Any:
        training = getattr(_of_thread, 'training', None)
        if training:
            training.begins()
        return original(self, *args, **kwargs)

    cls._train_model = train_model


class _Training:
    """Writes the file. It raises nothing: without the file the evaluator waits, as upstream's does."""

    def __init__(self, model_dir: str, max_steps: Any) -> None:
        self._model_dir = model_dir
        self._said: dict[str, Any] = {'id': uuid.uuid4().hex, 'max_steps': _plain(max_steps), 'step': None}

    def begins(self) -> None:
        _write(self._model_dir, {**self._said, 'state': _TRAINING})

    def ended(self) -> None:
        try:
            step = _last_step(self._model_dir)
        except Exception:  # whatever a file system or a checkpoint of the program's own does
            step = None  # the evaluator then takes the newest checkpoint that it finds
        _write(self._model_dir, {**self._said, 'state': _ENDED, 'step': step})


class Watch:
    """What training_end.json says to an evaluator.

    An 'ended' that was there before the evaluator may be of an earlier run, whose chief is about to
    begin again. It is believed when nobody has begun for _LATE_SECS.
    """

    def __init__(self, model_dir: str, max_steps: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self._model_dir, self._max_steps, self._clock = model_dir, _plain(max_steps), clock
        self._first = _obeyed.get(model_dir) or _read(model_dir)
        self._began = clock()

    def ended(self) -> bool:
        """Whether training has ended."""
        said = _read(self._model_dir)
        if said.get('state') != _ENDED or said.get('max_steps') != self._max_steps:
            return False
        return said != self._first or self._clock() - self._began >= _LATE_SECS

    def last_step(self) -> int | None:
        """The step of the last checkpoint, once training has ended."""
        return _read(self._model_dir).get('step')

    def obeyed(self) -> None:
        """The evaluation of this training is over."""
        _obeyed[self._model_dir] = _read(self._model_dir)


def _tell(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def start_distributed_training(self: Any, *args: Any, **kwargs: Any) -> Any:
        config = self._estimator.config
        with reported(config.model_dir, config.is_chief, self._train_spec.max_steps):
            return original(self, *args, **kwargs)

    return start_distributed_training


def _obey(original: Callable[..., Any], module: Any) -> Callable[..., Any]:
    """Lets the evaluation's loop end early, and does what is left then."""

    class _Listener(module._ContinuousEvalListener):
        """Asks the listener that there was, and ends the loop when training has ended."""

        def __init__(self, listener: Any, watch: Watch) -> None:
            self._listener, self._watch = listener, watch
            self.last, self.ended = None, False

        def before_eval(self) -> bool:
            self.ended = self._watch.ended()  # before the loop looks for a checkpoint
            return not self.ended and self._listener.before_eval()

        def after_eval(self, eval_result: Any) -> Any:
            if eval_result.status == module._EvalStatus.EVALUATED:
                self.last = eval_result
            return self._listener.after_eval(eval_result)

    @functools.wraps(original)
    def start_continuous_evaluation(self: Any) -> Any:
        watch = Watch(self._estimator.config.model_dir, self._train_spec.max_steps)
        listener = _Listener(self._continuous_eval_listener, watch)
        self._continuous_eval_listener = listener
        module.time = _WakingTime(watch.ended)
        try:
            result = original(self)
            if listener.ended:
                _finish(self, module, listener.last, watch.last_step())
            watch.obeyed()
            return result
        finally:
            module.time = time
            self._continuous_eval_listener = listener._listener

    return start_continuous_evaluation


def _finish(executor: Any, module: Any, last: Any, step: int | None) -> None:
    """Evaluates the last checkpoint unless this was done, and exports it as the final one."""
    module.tf.compat.v1.logging.info('Training has ended: evaluates the last checkpoint and returns.')
    with contextlib.suppress(Exception):  # whatever it is, upstream's evaluation below meets it as well
        _wait_until_visible(executor._estimator.model_dir, step)
    evaluator = executor._Evaluator(
        executor._estimator, executor._eval_spec, max_training_steps=1
    )  # from step 1 on it is the final one
    evaluator._previous_ckpt_path = last and last.checkpoint_path
    result, _ = evaluator.evaluate_and_export()
    if last and result.status == module._EvalStatus.NO_NEW_CHECKPOINT:
        evaluator._export_eval_result(last, is_the_final_export=True)


def _last_step(model_dir: str) -> int:
    """That of the last checkpoint, which the saver of a session has put into its name; 0 where there is none."""
    import tensorflow as tf

    match = re.search(r'-(\d+)$', tf.train.latest_checkpoint(model_dir) or '')
    return int(match.group(1)) if match else 0


def _wait_until_visible(model_dir: str, step: int | None) -> None:
    """Waits until the file system shows a checkpoint of at least this step, which the chief has saved."""
    import tensorflow as tf

    deadline = time.monotonic() + _VISIBLE_SECS
    while step is not None and _last_step(model_dir) < step:
        if time.monotonic() >= deadline:
            tf.compat.v1.logging.warning(
                'The checkpoint of step %d has not appeared in %s within %d s.', step, model_dir, _VISIBLE_SECS
            )
            return
        time.sleep(_LOOK_SECS)


class _WakingTime:
    """The module `time` for the evaluation's loop, which sleeps for EvalSpec.throttle_secs (600 by default)
    after each look. It wakes up when training has ended."""

    def __init__(self, ended: Callable[[], bool]) -> None:
        self._ended = ended

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def sleep(self, secs: float) -> None:
        sleeper = threading.Thread(target=time.sleep, args=(secs,), daemon=True)
        sleeper.start()
        while sleeper.is_alive() and not self._ended():
            sleeper.join(_LOOK_SECS)


def _read(model_dir: str) -> dict:
    import tensorflow as tf

    try:
        with tf.io.gfile.GFile(f'{model_dir}/{_NAME}') as file:
            said = json.loads(file.read())
    except (tf.errors.OpError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}


def _plain(max_steps: Any) -> Any:
    """A number of numpy as one of Python, which JSON can hold."""
    return max_steps.item() if isinstance(max_steps, np.generic) else max_steps


def _write(model_dir: str, said: dict[str, Any]) -> None:
    import tensorflow as tf

    try:
        path = os.path.join(model_dir, _NAME)
        text = json.dumps(said)
        if said['state'] == _TRAINING:  # later it is there, or there was no training
            tf.io.gfile.makedirs(model_dir)
        with tf.io.gfile.GFile(f'{path}.tmp', 'w') as file:
            file.write(text)
        tf.io.gfile.rename(f'{path}.tmp', path, overwrite=True)
    except Exception as error:  # a folder or a max_steps of any kind that upstream takes
        tf.compat.v1.logging.warning(
            '%s cannot be written to %s (%s): an evaluator will not know that training has ended before max_steps.',
            _NAME,
            model_dir,
            getattr(error, 'message', error),
        )
