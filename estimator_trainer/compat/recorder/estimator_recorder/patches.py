"""Puts the recorder around the methods of Estimator, and keeps each program within its limits.

Touches: train, evaluate, predict and private methods of Estimator, _TrainingExecutor
Without it: `verify` cannot see what a program computes
For: `verify`
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from estimator_recorder import limits, recording

if TYPE_CHECKING:
    import tensorflow as tf

_CLOCK = {'throttle_secs': limits.NEVER, 'start_delay_secs': 0}


class _State:
    """What the patches of a process share: made once, because a process has one folder."""

    made = None

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.recording = recording.Recording(settings['folder'])
        self.folders = limits.Folders(os.path.join(settings['folder'], 'files'))
        self.budget = limits.Budget(settings['steps'])
        self.estimators: dict[str, int] = {}  # model_dir -> number, in the order in which they are used
        self.calls: dict[tuple[str, int], int] = {}  # (what, number of the Estimator) -> calls so far
        self.features: dict[int, Any] = {}  # number of the Estimator -> features of a batch

    @classmethod
    def made_of(cls, settings: dict[str, Any]) -> _State:
        cls.made = cls.made or cls(settings)
        return cls.made

    def where(self, what: str, estimator: Any) -> dict[str, Any]:
        """Which Estimator it is, and which of its calls of `what`, for an event."""
        number = self.estimators.setdefault(estimator.model_dir, len(self.estimators))
        call = self.calls[what, number] = self.calls.get((what, number), -1) + 1
        return {'estimator': number, 'model_dir': self.folders.short_name(estimator.model_dir), 'call': call}


def of_estimators(module: Any, settings: dict[str, Any]) -> None:
    """Patches the module tensorflow_estimator.python.estimator.estimator."""
    state = _State.made_of(settings)
    module.maybe_overwrite_model_dir_and_session_config = _in_own_folder(
        module.maybe_overwrite_model_dir_and_session_config, state
    )
    module._get_default_warm_start_settings = _warm_start(module._get_default_warm_start_settings, state)
    estimator = module.Estimator
    estimator._call_model_fn = _keeping_batches(estimator._call_model_fn)
    estimator.train = _within_budget(estimator.train, _start_of(module), state)
    estimator._train_with_estimator_spec = _with_training_hook(estimator._train_with_estimator_spec, state)
    estimator.evaluate = _recorded_evaluation(estimator.evaluate, state)
    estimator.predict = _recorded_prediction(estimator.predict, state)
    estimator._export_all_saved_models = _recorded_export(estimator._export_all_saved_models, state)


def of_train_and_evaluate(module: Any, settings: dict[str, Any]) -> None:
    """Patches the module tensorflow_estimator.python.estimator.training: max_steps, and no clock."""
    state = _State.made_of(settings)
    original = module._TrainingExecutor.__init__
    start_of = _start_of(module.estimator_lib)

    @functools.wraps(original)
    def init(self: Any, estimator: Any, train_spec: Any, eval_spec: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(train_spec, module.TrainSpec) and hasattr(estimator, 'model_dir'):
            start = start_of(estimator.model_dir)
            train_spec = train_spec._replace(
                max_steps=state.budget.plan(estimator.model_dir, start, train_spec.max_steps)
            )
        if isinstance(eval_spec, module.EvalSpec):
            eval_spec = eval_spec._replace(**_CLOCK if eval_spec.throttle_secs else {'start_delay_secs': 0})
        original(self, estimator, train_spec, eval_spec, *args, **kwargs)

    module._TrainingExecutor.__init__ = init


def _start_of(module: Any) -> Callable[..., Any]:
    by_variable = module._load_global_step_from_checkpoint_dir

    def start_of(model_dir: str) -> int:
        """The global step of the last checkpoint. That of a Keras model has no variable of the usual name."""
        import tensorflow as tf

        return int(by_variable(model_dir)) or limits.step_of(tf.train.latest_checkpoint(model_dir))

    return start_of


def _in_own_folder(original: Callable[..., Any], state: _State) -> Callable[..., Any]:
    @functools.wraps(original)
    def overwrite(config: Any, model_dir: str | None) -> Any:
        if config is not None and getattr(config, 'model_dir', None) is not None:
            config = config.replace(model_dir=state.folders.moved(config.model_dir))
        if model_dir or config is None or config.model_dir is None:
            model_dir = state.folders.moved(model_dir or None)
        config = original(config, model_dir)
        if config.save_checkpoints_secs:
            config = config.replace(save_checkpoints_secs=limits.NEVER)
        return config

    return overwrite


def _warm_start(original: Callable[..., Any], state: _State) -> Callable[..., Any]:
    def moved(path: Any) -> Any:
        return (state.folders.known(path) or path) if isinstance(path, str) else path

    @functools.wraps(original)
    def settings_of(warm_start_from: Any) -> Any:
        if hasattr(warm_start_from, 'ckpt_to_initialize_from'):
            path = moved(warm_start_from.ckpt_to_initialize_from)
            return original(warm_start_from._replace(ckpt_to_initialize_from=path))
        return original(moved(warm_start_from))

    return settings_of


def _keeping_batches(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call_model_fn(self: Any, features: Any, labels: Any, mode: str, config: Any) -> Any:
        from estimator_recorder import session_hooks

        session_hooks.keep_batch(features, labels)
        return original(self, features, labels, mode, config)

    return call_model_fn


def _within_budget(original: Callable[..., Any], start_of: Callable[[str], int], state: _State) -> Callable[..., Any]:
    @functools.wraps(original)
    def train(
        self: Any,
        input_fn: Callable[..., Any],
        hooks: Iterable[Any] | None = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Any = None,
    ) -> Any:
        wrong = steps is not None and max_steps is not None or any(n is not None and n <= 0 for n in (steps, max_steps))
        if wrong:  # the original says what
            return original(self, input_fn, hooks, steps, max_steps, saving_listeners)
        start = start_of(self.model_dir)
        end = state.budget.end(self.model_dir, start, steps, max_steps)
        if end <= start:
            state.recording.write('skipped', start=start, **state.where('skipped', self))
            return self
        return original(self, input_fn, hooks, None, end, saving_listeners)

    return train


def _with_training_hook(original: Callable[..., Any], state: _State) -> Callable[..., Any]:
    @functools.wraps(original)
    def train(
        self: Any,
        estimator_spec: Any,
        worker_hooks: Iterable[Any],
        hooks: Iterable[Any] | None,
        global_step_tensor: Any,
        saving_listeners: Any,
    ) -> Any:
        from estimator_recorder import session_hooks

        where = state.where('train', self)
        hook = session_hooks.Training(state.recording, state.settings, estimator_spec.loss, **where)
        return original(self, estimator_spec, [*worker_hooks, hook], hooks, global_step_tensor, saving_listeners)

    return train


def _first_batch(state: _State, where: dict[str, Any], what: str) -> tf.compat.v1.train.SessionRunHook:
    from estimator_recorder import session_hooks

    keep = functools.partial(state.features.__setitem__, where['estimator'])
    return session_hooks.FirstBatch(state.recording, keep, of=what, **where)


def _recorded_evaluation(original: Callable[..., Any], state: _State) -> Callable[..., Any]:
    @functools.wraps(original)
    def evaluate(
        self: Any,
        input_fn: Callable[..., Any],
        steps: int | None = None,
        hooks: Iterable[Any] | None = None,
        checkpoint_path: str | None = None,
        name: str | None = None,
    ) -> Any:
        most = state.settings['eval_steps']
        steps = most if steps is None else min(steps, most)
        where = state.where('evaluation', self)
        hooks = [*(hooks or []), _first_batch(state, where, 'evaluation')]
        metrics = original(self, input_fn, steps, hooks, checkpoint_path, name)
        if metrics:  # none in a task of a cluster that does not evaluate
            numbers = {key: value for key, value in metrics.items() if not isinstance(value, bytes)}  # an image
            state.recording.write('evaluation', name=name, metrics=state.recording.arrays(numbers, 4096), **where)
        return metrics

    return evaluate


def _recorded_prediction(original: Callable[..., Any], state: _State) -> Callable[..., Any]:
    @functools.wraps(original)
    def predict(
        self: Any,
        input_fn: Callable[..., Any],
        predict_keys: Any = None,
        hooks: Iterable[Any] | None = None,
        checkpoint_path: str | None = None,
        yield_single_examples: bool = True,
    ) -> Iterator[Any]:
        where = state.where('prediction', self)
        hooks = [*(hooks or []), _first_batch(state, where, 'prediction')]
        made = original(self, input_fn, predict_keys, hooks, checkpoint_path, yield_single_examples)
        for number, example in enumerate(made):
            if number < state.settings['examples']:
                values = example if isinstance(example, dict) else {'': example}
                arrays = state.recording.arrays(values, 4096)
                state.recording.write('prediction', example=number, values=arrays, **where)
            yield example

    return predict


def _recorded_export(original: Callable[..., Any], state: _State) -> Callable[..., Any]:
    @functools.wraps(original)
    def export(self: Any, export_dir_base: str, *args: Any, **kwargs: Any) -> Any:
        from estimator_recorder import exports

        base = state.folders.moved(export_dir_base)
        path = original(self, base, *args, **kwargs)
        where = state.where('export', self)
        answers = exports.read(path, state.features.get(where['estimator']), state.recording)
        state.recording.write('export', folder=state.folders.short_name(base), **answers, **where)
        return path

    return export
