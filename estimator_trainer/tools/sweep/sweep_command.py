"""`python -m estimator_trainer sweep`: argv -> trials, a table, the best of them and an exit code."""

import contextlib
import dataclasses
import functools
import importlib.util
import os
import sys
from collections.abc import Sequence

from estimator_trainer import exit_codes
from estimator_trainer.config import two_parts, urls
from estimator_trainer.config.declaration import REQUIRED, flag
from estimator_trainer.errors import UsageError
from estimator_trainer.evaluation import early_stopping
from estimator_trainer.run_dir import file_names, ownership
from estimator_trainer.supervisor.options import ClusterFlags
from estimator_trainer.this_process import log
from estimator_trainer.tools import command_line
from estimator_trainer.tools.sweep import sweep_report, targets, trial_runner

USAGE = """\
usage: python -m estimator_trainer sweep --trials=N --param_space=NAME:KIND:VALUES [--flag=value ...] -- [trainer flags]

Trains a job N times, each time with other values of the parameters, which Optuna chooses. Each trial is a run of
its own in a folder of --model_dir, with a supervisor that restarts it. If the sweep is killed, the same command goes
on. At the end: a table, the best trial and its export, and sweep.json.

  python -m estimator_trainer sweep --trials=20 --param_space=learning_rate:log:1e-4:1e-1 \\
      --param_space=optimizer:choice:sgd,momentum,adam --metric=accuracy --mode=max -- \\
      --job=mnist --epochs=5 --save_checkpoints_steps=100 --model_dir=runs/sweep

For the trainer flags: python -m estimator_trainer --help
"""
_PACKAGE = 'optuna'

_what = functools.partial(flag, group='What is searched')
_how = functools.partial(flag, group='How')


@dataclasses.dataclass(frozen=True)
class SweepFlags:
    """The flags of sweep. Those of the trainer come after `--`."""

    param_space: tuple = _what(
        (),
        'NAME:KIND:VALUES: the values of a flag of the trainer or of a param of the job. NAME:log:LOW:HIGH and '
        'NAME:uniform:LOW:HIGH take numbers, NAME:int:LOW:HIGH whole numbers, NAME:choice:A,B,C one of these. '
        'Repeatable.',
        repeated=True,
        unset=REQUIRED,
    )
    trials: int = _what(
        20,
        'Trials of the whole sweep, also those that are pruned or fail. A higher number goes on.',
        least=1,
        why='TPE begins with ten random trials',
    )
    metric: str = _what('loss', 'The metric of the evaluation that is to become best.')
    mode: str | None = _what(
        None,
        'Whether lower (min) or higher (max) is better. Needed for a metric of which neither is known.',
        choices=('min', 'max'),
        unset="the job's, if it is its best_metric; else as the name says: min for a loss or an error, max for "
        'accuracy, AUC, precision or recall',
    )
    seed: int = _what(
        1,
        'Seed of the choice of values. That of the trials is --seed after `--`.',
        least=0,
        most=2**31 - 1,
        wanted='at least 0 and less than 2**31 is needed.',
    )
    prune_after: int = _what(
        5,
        'A trial is ended early, if one of its evaluations is worse than the median of the trials that were done, once '
        'there are so many of these. 0: never.',
        least=0,
        why="Optuna's default",
    )
    parallel: int = _how(1, 'Trials at the same time. They share the cores.', least=1, why='one trial uses all cores')
    max_failed: int = _how(
        5,
        'The sweep ends if so many trials fail at its start, and none succeeds.',
        least=1,
        why='values that diverge fail some trials; what fails them all has another cause',
    )
    max_restarts: int = _how(
        ClusterFlags.max_restarts, 'Restarts of a trial, as of run_local_cluster.sh.', least=0, wanted='give 0 or more.'
    )
    isolate: str = _how(
        ClusterFlags.isolate,
        'Run each trial in a network namespace of its own. off: for jobs that need the network.',
        choices=('auto', 'on', 'off'),
        why="TensorFlow's ports have no authentication",
    )
    katib_metrics: str = _how(
        '', "A file to which every evaluation is written in Katib's text format; - for stdout.", unset='none'
    )


def main(argv: Sequence[str]) -> int:
    """Runs the command line `argv`, without program name. The exit code: 0, FAILED where no trial is done, USAGE, that
    of a trial where the first ones fail, that of a signal, or CANNOT_WRITE."""
    own, trainer_flags = split(argv)
    return command_line.run(
        own,
        USAGE,
        SweepFlags,
        lambda: _sweep(two_parts.parse(SweepFlags, 'python -m estimator_trainer sweep', own), trainer_flags),
        {ownership.TakenElsewhere: exit_codes.MODEL_DIR_TAKEN},
    )


def split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Our flags and those of the trainer. `--param-space` is `--param_space`."""
    border = argv.index('--') if '--' in argv else len(argv)
    own = []
    for word in argv[:border]:
        name, equals, value = word.partition('=')
        own.append(name[:2] + name[2:].replace('-', '_') + equals + value if name.startswith('--') else word)
    return own, list(argv[border + 1 :])


def _sweep(values: SweepFlags, trainer_flags: list[str]) -> int:
    log.set_up()
    if urls.is_url(values.katib_metrics):
        raise UsageError(f'--katib_metrics={values.katib_metrics}: grows line by line; name a file of this machine.')
    values = dataclasses.replace(values, katib_metrics=os.path.expanduser(values.katib_metrics))
    sweep_report.refuse_other_metrics(values.katib_metrics)
    parameters = targets.parse(values.param_space)
    if not parameters and values.trials > 1:
        raise UsageError(
            '--param_space is missing: say what differs between the trials, such as '
            '--param_space=learning_rate:log:1e-4:1e-1'
        )
    if importlib.util.find_spec(_PACKAGE) is None:
        raise UsageError(f'{_PACKAGE}, which chooses the trials, is missing; pip install "estimator-trainer[sweep]"')
    target = targets.find(parameters, trainer_flags)
    config = target.config
    if config.dry_run:
        raise UsageError('--dry_run: a sweep has none; try the flags of the trainer without sweep.')
    if config.metrics_port and values.parallel > 1:
        raise UsageError(
            f'--metrics_port={config.metrics_port}: {values.parallel} trials at the same time cannot share a port; '
            'leave it out, or give --parallel=1.'
        )
    mode = values.mode or early_stopping.mode_of(values.metric, *target.best)
    if mode is None:
        raise UsageError(
            f'--metric={values.metric}: say whether lower or higher is better, by --mode=min or --mode=max.'
        )
    folder = config.model_dir
    with ownership.lock(folder, file_names.SWEEP_LOCK) as lock:
        ownership.take(lock, folder, 'runs a sweep there')
        from estimator_trainer.tools.sweep import study as studies  # takes a second

        space, trainer = [each.text for each in parameters], studies.trainer_flags(config)
        plan = studies.SweepPlan(values.metric, mode, values.seed, values.prune_after, space, trainer)
        studies.keep(plan, folder)
        return _run(values, target, studies.Study(folder, plan, target.parameters))


def _run(values: SweepFlags, target: targets.Targets, study) -> int:
    with contextlib.ExitStack() as stack:
        metrics = sys.stdout if values.katib_metrics == '-' else None
        if values.katib_metrics and not metrics:
            metrics = stack.enter_context(open(values.katib_metrics, 'w', encoding='utf-8'))
        sweep = trial_runner.Sweep(values, target, study, metrics)
        code = sweep.run()
    if sweep.signum:
        print('stopped; the same command goes on', file=sys.stderr)
        return code
    plan, trials, folder = study.plan, study.trials(), target.config.model_dir
    out = sys.stderr if values.katib_metrics == '-' else sys.stdout
    print(sweep_report.table(trials, plan.metric), file=out)
    print(sweep_report.conclusion(trials, plan.metric, plan.mode, target.flags), file=out)
    print(f'all trials: {os.path.join(folder, file_names.SWEEP)}', file=out)
    page = sweep_report.write_page(folder)
    if page:
        print(f'page: {page}', file=out)
    return code
