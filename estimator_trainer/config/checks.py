"""Checks of several flags together, and of the model_dir. Imports no TensorFlow."""

import os
from typing import TYPE_CHECKING

from estimator_trainer.config import mixed_precision, urls
from estimator_trainer.errors import UsageError
from estimator_trainer.monitoring import port
from estimator_trainer.monitoring.profiles import schedule

if TYPE_CHECKING:
    from estimator_trainer.config.trainer_config import TrainerConfig


def refuse_contradictions(config: 'TrainerConfig') -> None:
    """Checks a config whose values are within their ranges.

    Raises:
        UsageError: a flag is missing, two flags contradict each other, or the model_dir cannot be used as one.
    """
    if not config.model_dir:
        raise UsageError(
            '--model_dir is missing: name the folder for checkpoints and metrics, such as --model_dir=runs/first'
        )
    if config.max_steps is None and config.epochs is None:
        raise UsageError('Neither --max_steps nor --epochs is set: say when training ends, such as --epochs=5')
    if config.loop == 'estimator' and config.save_checkpoints_epochs is not None:
        raise UsageError(
            f'--save_checkpoints_epochs={config.save_checkpoints_epochs}: is for --loop=keras_fit and custom_loop; use '
            '--save_checkpoints_steps. Of a flagfile, --save_checkpoints_epochs= takes it back.'
        )
    if config.loop != 'estimator' and config.strategy == 'parameter_server':
        raise UsageError(parameter_server_refused(config.loop))
    if refusal := mixed_precision.refusal(config.mixed_precision, config.loop):
        raise UsageError(refusal)
    if config.xla and config.loop == 'estimator':
        raise UsageError(
            "--xla: is for --loop=keras_fit and custom_loop; TensorFlow compiles no step of an Estimator's graph."
        )
    if config.xla and config.deterministic:
        raise UsageError(
            '--xla with --deterministic: it has not been shown that XLA computes the same bits in each run; leave one '
            'of them out.'
        )
    if config.steps_per_call != 'auto' and not (config.steps_per_call.isdecimal() and int(config.steps_per_call)):
        raise UsageError(f'--steps_per_call={config.steps_per_call}: auto or a number of at least 1 is needed.')
    unknown = set(config.export) - {'best', 'final', 'none'}
    if unknown or ('none' in config.export and len(config.export) > 1):
        raise UsageError(f'--export={",".join(config.export)}: use best, final, best,final or none.')
    schedule.check_steps(config.profile_steps, config.max_steps)
    if config.metrics_port:
        port.parse(config.metrics_port)
    urls.check_here(config.scratch_dir, '--scratch_dir')
    urls.check_here(config.data_cache_dir, '--data_cache_dir')
    _check_model_dir(config.model_dir)


def _check_model_dir(model_dir: str) -> None:
    if urls.is_url(model_dir):
        urls.check(model_dir)
        return
    urls.check_slashes(model_dir, '--model_dir')
    try:
        model_dir.encode()
    except UnicodeEncodeError:
        raise UsageError(f'--model_dir={ascii(model_dir)}: is no UTF-8; name another folder.') from None
    if os.path.exists(model_dir) and not os.path.isdir(model_dir):
        raise UsageError(f'--model_dir={model_dir}: is a file; name a folder.')
    refuse_pattern(model_dir, '--model_dir')
    parent = os.path.abspath(model_dir)
    while not os.path.exists(parent):
        parent = os.path.dirname(parent)
    if not os.path.isdir(parent) or not os.access(parent, os.W_OK | os.X_OK):
        unwritable = '' if parent == os.path.abspath(model_dir) else f'{parent} '
        raise UsageError(f'--model_dir={model_dir}: {unwritable}cannot be written to; name another folder.')


def refuse_pattern(folder: str, flag: str) -> None:
    """Raises UsageError: TensorFlow finds no checkpoint in the folder, which may also be a relative path."""
    path = os.path.abspath(folder)
    if set('*?[\\') & set(path):
        where = f', which is {path}' if path != folder else ''
        raise UsageError(
            f'{flag}={folder}{where}: TensorFlow takes a name with *, ?, [ or \\ for a pattern, and finds no '
            'checkpoint there; name another folder.'
        )


def parameter_server_refused(loop: str) -> str:
    """The message for a --loop that does not train with parameter servers."""
    return (
        f'--loop={loop} does not train with parameter servers: use --loop=estimator, or a cluster of '
        'workers without ps.'
    )
