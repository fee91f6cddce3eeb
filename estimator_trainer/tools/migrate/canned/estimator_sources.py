"""Where the Estimator comes from: a run of this trainer, or a function of somebody's program."""

import contextlib
import importlib.util
import inspect
import os
import sys
import traceback

from estimator_trainer.compat import cures
from estimator_trainer.errors import UsageError
from estimator_trainer.tools.migrate import loaded_run as runs
from estimator_trainer.tools.migrate.canned.conversion import CannedEstimator


def of_run(run: runs.LoadedRun, checkpoint: str) -> CannedEstimator:
    """Of a job with make_estimator."""
    import tensorflow as tf

    modes = tf.estimator.ModeKeys

    def input_fn(mode):
        return lambda: run.input_fn(mode, dict(run.params), None)

    config = tf.estimator.RunConfig(tf_random_seed=run.params['seed'])
    estimator = run.job.make_estimator(config, dict(run.params))
    return CannedEstimator(estimator, input_fn(modes.TRAIN), input_fn(modes.EVAL), os.path.abspath(checkpoint))


def of_program(program: str, input_fn: str, model_dir: str) -> CannedEstimator:
    """Of a program that is imported, not run.

    Args:
        program: FILE.py:FUNCTION; the function takes nothing and gives the Estimator.
        input_fn: a function of the same file, which takes nothing and gives a tf.data.Dataset of features and labels.
        model_dir: '' for the Estimator's own.

    Raises:
        UsageError: something of this is not there, fails, gives no Estimator, or there is no checkpoint.
    """
    import tensorflow as tf

    from estimator_trainer.run_dir import checkpoints

    path, _, name = program.rpartition(':')
    if not path.endswith('.py') or not os.path.isfile(path):
        raise UsageError(f'--program={program}: name a file and a function, as in train.py:make_estimator.')
    if not input_fn:
        raise UsageError('--program needs --input_fn: the function of the same file that gives features and labels.')
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.argv = [path]  # it may read flags, and those of migrate are not its own
    with _named(f'--program={program}: {path}'):
        spec.loader.exec_module(module)
    make_estimator, data = _function(module, name, '--program'), _function(module, input_fn, '--input_fn')
    with _named(f'--program={program}: {name}'):
        estimator = make_estimator()
    if not isinstance(estimator, tf.compat.v1.estimator.Estimator):
        raise UsageError(f'--program={program}: {name} gives a {type(estimator).__name__}; let it return an Estimator.')
    checkpoint = checkpoints.latest(model_dir or estimator.model_dir)
    if checkpoint is None:
        raise UsageError(f'--model_dir={model_dir or estimator.model_dir}: holds no checkpoint.')
    return CannedEstimator(estimator, data, data, os.path.abspath(checkpoint))


@contextlib.contextmanager
def _named(what):
    """Any error of somebody's program becomes a UsageError, after the traceback that its author needs."""
    try:
        yield
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        old = cures.old_name(error, sys.modules.get('tensorflow'))
        if old:
            raise UsageError(
                f'{what} raises {type(error).__name__}: {str(error).rstrip(".")}. {old} is of TensorFlow 1: write '
                '`import tensorflow.compat.v1 as tf` in a copy of the file, and a function there that makes the '
                'Estimator without tf.contrib; `python -m estimator_trainer doctor FILE` names the lines.'
            ) from error
        raise UsageError(
            f'{what} raises {type(error).__name__}: {str(error).rstrip(".")}. migrate imports the file and calls the '
            'function without flags or arguments of the program: write a function beside it that needs none, and sets '
            'what it reads.'
        ) from error


def _function(module, name, flag):
    found = getattr(module, name, None)
    if not callable(found):
        raise UsageError(f'{flag}: {module.__file__} has no function {name}.')
    needed = [each.name for each in inspect.signature(found).parameters.values() if _is_needed(each)]
    if needed:
        raise UsageError(
            f'{flag}: {name} of {module.__file__} needs {", ".join(needed)}; write one beside it that takes nothing.'
        )
    return found


def _is_needed(parameter) -> bool:
    return parameter.default is parameter.empty and parameter.kind not in (
        parameter.VAR_POSITIONAL,
        parameter.VAR_KEYWORD,
    )
