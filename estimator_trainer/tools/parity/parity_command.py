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
from estimator_trainer.tools.parity import parity_report, parity_runs, run_differences, run_list

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
    steps: int = _what(
        20, 'Steps to train.', least=1, wanted='give 1 or more.', why='a difference that matters has grown by then'
    )
    batch_size: int = _what(64, 'The global batch, which is the same in every run.', least=1, wanted='give 1 or more.')
    loops: tuple = _what(run_list.LOOPS, 'Loops to compare.')
    layouts: tuple = _what(
        tuple(run_list.LAYOUTS), 'one: a process; replicas: two logical ones in a process; workers: two processes.'
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


def _page():
    """The module that draws the page; what it needs is asked for before any run."""
    try:
        from estimator_trainer.tools.parity import parity_page
    except ImportError as error:
        raise UsageError(
            f'{error.name}, with which the page is made, is missing; pip install jinja2 matplotlib'
        ) from error
    return parity_page


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
    if set(values.loops) not in ({*run_list.LOOPS}, {run_list.ESTIMATOR}):
        raise UsageError(
            f'--loops={",".join(values.loops)}: job {values.job} has no make_model, so only Estimator can train it; '
            f'give it make_model and parts, or leave --loops out: then the layouts are compared.'
        )
    if len(values.loops) > 1:
        print(
            f'job {values.job} has no make_model, so only Estimator can train it: its layouts are compared',
            file=sys.stderr,
        )
    return (run_list.ESTIMATOR,)


def _check(values) -> None:
    _page()
    for name, known in (('loops', run_list.LOOPS), ('layouts', run_list.LAYOUTS)):
        given = getattr(values, name)
        if not given or set(given) - set(known) or len(set(given)) < len(given):
            raise UsageError(f'--{name}={",".join(given)}: give some of {",".join(known)}, each once.')
    if len(values.loops) * len(values.layouts) < 2:
        raise UsageError(
            f'--loops={values.loops[0]} --layouts={values.layouts[0]}: one run has nothing '
            'to be compared with; give two loops or two layouts.'
        )
    replicas = run_list.replicas(values.layouts)
    if values.batch_size % replicas:
        raise UsageError(
            f'--batch_size={values.batch_size}: is the global batch, and {replicas} replicas '
            'share it; give an even number.'
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
    try:
        os.makedirs(values.out, exist_ok=True)
    except OSError as error:
        raise UsageError(f'--out={values.out}: {error.strerror}; name another folder.') from error
    files_of_others.refuse_page(os.path.join(values.out, PAGE))
    files_of_others.refuse_json(os.path.join(values.out, REPORT), 'pairs', f'--out={values.out}')
    facts = _trainer_flags(values)
    with _folder_of_runs(values) as folder:
        wanted = run_list.runs(values.loops, values.layouts, folder, values.batch_size, facts)
        for number, run in enumerate(wanted, start=1):
            print(f'{number}/{len(wanted)} {run.name}', file=sys.stderr, flush=True)
            parity_runs.start(run, values.timeout_secs)
        traces, versions = _read(wanted, values)
    found = run_differences.differences(traces, values.tolerance)
    _write(values, facts, versions, traces, found)
    print(parity_report.table(found))
    print(parity_report.NOTE)
    for line in parity_report.conclusion(found, values.tolerance):
        print(line)
    return exit_codes.OK if all(pair.equal for pair in found) else exit_codes.FAILED


@contextlib.contextmanager
def _folder_of_runs(values):
    if not values.keep_runs:
        with tempfile.TemporaryDirectory(prefix='runs-', dir=values.out) as folder:
            yield folder
        return
    folder = os.path.join(values.out, 'runs')
    try:
        os.mkdir(folder)
    except OSError as error:
        raise UsageError(f'--out={values.out}: its folder runs: {error.strerror}; name another folder.') from error
    yield folder


def _trainer_flags(values) -> list:
    flags_ = [f'--job={values.job}', f'--seed={values.seed}', f'--max_steps={values.steps}']
    flags_ += [f'--param={param}' for param in values.param]
    given = {name: getattr(values, name) for name in ('dataset', 'data_dir', 'train_files', 'eval_files')}
    return flags_ + [f'--{name}={value}' for name, value in given.items() if value]


def _read(wanted, values):
    """The traces of the runs, and the versions that computed them."""
    from estimator_trainer import compat

    compat.bring_up()
    from estimator_trainer.tools.parity import run_weights

    of_keras = jobs.load(values.job).make_model is not None
    first = wanted[0].model_dir
    called = run_weights.called(first, values.data_dir) if of_keras else run_weights.trained(first)
    traces = [
        run_differences.RunValues(
            run.name,
            parity_runs.losses(run.model_dir),
            run_weights.by_step(run.model_dir, called),
            parity_runs.evaluation(run.model_dir),
        )
        for run in wanted
    ]
    return traces, compat.versions()


def _write(values, facts, versions, traces, found) -> None:
    how = [
        ' '.join(
            [
                'python -m estimator_trainer parity',
                *facts[:2],
                f'--steps={values.steps}',
                *facts[3:],
                f'--batch_size={values.batch_size}',
                f'--tolerance={values.tolerance:g}',
            ]
        ),
        ', '.join(f'{name} {version}' for name, version in versions.items()),
    ]
    text = _page().page(f'Parity of {values.job}', how, traces, found, values.tolerance)
    with files.replacing(os.path.join(values.out, PAGE)) as temporary, files.create(temporary) as file:
        file.write(text)
    protocol.write_json(
        os.path.join(values.out, REPORT),
        {
            'equal': all(pair.equal for pair in found),
            'tolerance': values.tolerance,
            'how': how,
            'pairs': [parity_report.as_json(pair) for pair in found],
            'losses': {
                trace.name: {str(step): parity_report.finite(loss) for step, loss in trace.losses.items()}
                for trace in traces
            },
        },
    )
