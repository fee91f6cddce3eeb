"""`python -m estimator_trainer parity`: argv -> runs, a table, a page and an exit code."""

import contextlib
import dataclasses
import functools
import os
import sys
import tempfile

from estimator_trainer import exit_codes, jobs
from estimator_trainer.config import flags
from estimator_trainer.config.declaration import flag
from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import files, files_of_others, protocol
from estimator_trainer.tools import bounded, command_line, local_copies
from estimator_trainer.tools.comparison import parity_results, parity_runs, report

USAGE = """\
usage: python -m estimator_trainer parity --job=JOB [--steps=20] [--param=name=value ...]

Trains a job with each loop, in one process, on two replicas and on two workers, with the same
global batch, seed and data, and compares losses, updates, weights and evaluation after every
step. The exit code is 0 if all agree within --tolerance. Otherwise it is 1, and the output says which
run differs first, at which step and in which variable. parity.html in --out shows it. --out may be in
a store (s3://, gs://, az://).
"""
REPORT, PAGE = 'parity.json', 'parity.html'


def main(argv) -> int:
    """Runs the command line `argv`, without program name. The exit code: 0, FAILED where two runs
    differ or one fails, USAGE."""
    return command_line.run(
        argv,
        USAGE,
        ParityFlags,
        lambda: _parity(flags.parse(ParityFlags, ['parity', *argv])),
        {jobs.JobError: exit_codes.USAGE, bounded.RunFailed: exit_codes.FAILED},
    )


_what = functools.partial(flag, group='What is compared')
_count = functools.partial(_what, least=1, wanted='give 1 or more.')
_how = functools.partial(flag, group='How')


@dataclasses.dataclass(frozen=True)
class ParityFlags:
    """The flags of parity. Those of the job and its data mean what they mean to the trainer."""

    job: str = _what(TrainerConfig.job, 'The job.')
    param: tuple = _what((), 'name=value: overrides a param of the job. Repeatable.', repeated=True)
    dataset: str = _what('', 'The data set.', unset="the trainer's")
    data_dir: str = _what('', 'Folder of the data sets that TFDS has prepared.', unset="the trainer's")
    train_files: str = _what('', 'Files to train on, for a job that reads files.', unset='none')
    eval_files: str = _what('', 'Files to evaluate on.', unset='none')
    seed: int = _what(TrainerConfig.seed, 'Seed of the initial weights and of the order of the data.')
    steps: int = _count(20, 'Steps to train.', why='a difference that matters has grown by then')
    batch_size: int = _count(64, 'The global batch, which is the same in every run.')
    loops: tuple = _what(parity_runs.LOOPS, 'Loops to compare.')
    layouts: tuple = _what(
        ('one', 'replicas', 'workers'),
        'one: a process; replicas: two logical ones in a process; workers: two processes; accumulated: a process that '
        'adds up the gradients of two batches.',
    )
    tolerance: float = _how(
        1e-5,
        'Largest relative difference that counts as equal.',
        least=0,
        wanted='give 0 or more.',
        why='sums of float32 in another order differ by less',
    )
    out: str = _how('parity', f'Folder for {PAGE} and {REPORT}.')
    keep_runs: bool = _how(False, 'Keep the model_dirs in the folder runs/ of --out.')
    timeout_secs: float = _how(600, 'Longest time of one run.', unit='s', least=1, wanted='give 1 or more.')


def _loops(values) -> tuple:
    """The loops that can train the job.

    Raises:
        UsageError: only Estimator can, and other loops were asked for.
    """
    job = jobs.load_early(values.job)
    if job is None:  # it imports TensorFlow
        from estimator_trainer import compat

        compat.bring_up()
        job = jobs.load(values.job)
    if job.make_model is not None:
        return values.loops
    if set(values.loops) not in ({*parity_runs.LOOPS}, {parity_runs.ESTIMATOR}):
        raise UsageError(
            f'--loops={",".join(values.loops)}: job {values.job} has no make_model, so only Estimator can train it; '
            f'give it make_model and parts, or leave --loops out: then the layouts are compared.'
        )
    if len(values.loops) > 1:
        print(
            f'job {values.job} has no make_model, so only Estimator can train it: its layouts are compared',
            file=sys.stderr,
        )
    return (parity_runs.ESTIMATOR,)


def _check(values) -> None:
    report.need_for_page('the page')
    for name, known in (('loops', parity_runs.LOOPS), ('layouts', parity_runs.LAYOUTS)):
        given = getattr(values, name)
        if not given or set(given) - set(known) or len(set(given)) < len(given):
            raise UsageError(f'--{name}={",".join(given)}: give some of {",".join(known)}, each once.')
    if len(values.loops) * len(values.layouts) < 2:
        raise UsageError(
            f'--loops={values.loops[0]} --layouts={values.layouts[0]}: one run has nothing '
            'to be compared with; give two loops or two layouts.'
        )
    shares = max(parity_runs.SHARES[layout] for layout in values.layouts)
    if values.batch_size % shares:
        raise UsageError(
            f'--batch_size={values.batch_size}: is the global batch, which is divided by {shares}; give an even number.'
        )


def _parity(values) -> int:
    values = dataclasses.replace(values, loops=_loops(values))
    _check(values)
    with local_copies.LocalCopies() as here:
        out = here.folder(values.out, '--out', replaced=(PAGE, REPORT))
        code = _in_folder(dataclasses.replace(values, out=out))
        here.send()
    print(os.path.join(values.out, PAGE))
    return code


def _in_folder(values) -> int:
    _make(values.out, f'--out={values.out}: ', functools.partial(os.makedirs, exist_ok=True))
    files_of_others.refuse_page(os.path.join(values.out, PAGE))
    files_of_others.refuse_json(os.path.join(values.out, REPORT), 'pairs', f'--out={values.out}')
    wanted = ('job', 'seed', 'dataset', 'data_dir', 'train_files', 'eval_files')
    job = [f'--{name}={getattr(values, name)}' for name in wanted if getattr(values, name) != '']
    job += [f'--param={param}' for param in values.param]
    with contextlib.ExitStack() as stack:
        if values.keep_runs:
            folder = os.path.join(values.out, 'runs')
            _make(folder, f'--out={values.out}: its folder runs: ', os.mkdir)
        else:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix='runs-', dir=values.out))
        job_flags = [*job, f'--max_steps={values.steps}']
        runs = parity_runs.plan(values.loops, values.layouts, folder, values.batch_size, job_flags)
        for number, run in enumerate(runs, start=1):
            print(f'{number}/{len(runs)} {run.name}', file=sys.stderr, flush=True)
            parity_runs.start(run, values.timeout_secs)
        from estimator_trainer import compat

        compat.bring_up()
        found = parity_runs.read(runs, values.job, values.data_dir)
    given = [f'--{name}={getattr(values, name)}' for name in ('steps', 'batch_size', 'tolerance')]
    how = ' '.join(['python -m estimator_trainer parity', *job, *given])
    versions = ', '.join(f'{name} {version}' for name, version in compat.versions().items())
    compared = parity_results.pairs(found, values.tolerance)
    made = parity_results.report(f'Parity of {values.job}', [how, versions], found, compared, values.tolerance)
    path = os.path.join(values.out, PAGE)
    with files.replacing(path) as temporary, files.create(temporary) as file:
        file.write(report.page(made))
    as_json = parity_results.to_json(made, found, compared, values.tolerance)
    protocol.write_json(os.path.join(values.out, REPORT), as_json)
    print(report.text(made))
    return exit_codes.OK if as_json['equal'] else exit_codes.FAILED


def _make(folder, what, make) -> None:
    try:
        make(folder)
    except OSError as error:
        raise UsageError(f'{what}{error.strerror}; name another folder.') from error
