"""`python -m estimator_trainer verify`: a program in two environments -> a table, a page and an exit code."""

import contextlib
import dataclasses
import functools
import json
import os
import sys
import tempfile

from estimator_trainer import exit_codes
from estimator_trainer.config import flags, urls
from estimator_trainer.config.declaration import flag
from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import files_of_others
from estimator_trainer.tools import bounded, command_line, local_copies
from estimator_trainer.tools.comparison import verify_runs

USAGE = """\
usage: python -m estimator_trainer verify PROGRAM [--from=PYTHON] [--to=PYTHON] [--to_program=FILE] [-- ARGUMENT...]

Runs a program that trains Estimators in two environments, or before and after a change, for the same few
steps, and compares inputs, losses, weights, slots, metrics, predictions and exports. Each of the two is
also continued in the other from its checkpoint. Two more runs of the first environment tell what is chance
and what rounding grows to. PROGRAM is a file, or `-m package.module`. In the arguments after `--`,
{model_dir} stands for a fresh folder. The exit code is 0 if both compute the same, and 1 if they differ;
then the output says from which step on, and in which variable.
"""

_what = functools.partial(flag, group='What is compared')
_count = functools.partial(_what, least=1, wanted='give 1 or more.')
_how = functools.partial(flag, group='How')
_amount = functools.partial(_how, least=0, wanted='give 0 or more.')


@dataclasses.dataclass(frozen=True)
class VerifyFlags:
    """The flags of verify."""

    from_: str = _what('', 'Python of the first environment, which may lack estimator_trainer.', unset='this Python')
    to: str = _what('', 'Python of the second environment.', unset='this Python')
    to_program: str = _what('', 'The changed program, for the second environment.', unset='PROGRAM')
    to_args: str = _what(
        '', 'Arguments of the program in the second environment, as a shell reads them.', unset='those after --'
    )
    tf1: bool = _what(
        False,
        'The program is of TensorFlow 1: it runs as under `compat run --tf1`, in both environments. One that has '
        'TensorFlow 1 itself runs it as it is.',
        why='most programs are of TensorFlow 2',
    )
    to_tf1: bool | None = _what(
        None,
        'The same for the second environment alone: --tf1 --noto_tf1 is for a --to_program that has left TensorFlow 1.',
        unset='as --tf1',
    )
    steps: int = _count(
        20,
        'Steps of each Estimator, in a run and in the run that continues it.',
        why='a difference that matters has grown by then',
    )
    eval_steps: int = _count(100, 'Most batches of an evaluation.')
    examples: int = _count(64, 'Most predictions of a call that are compared.')
    every: int = _count(
        1,
        'Compares the weights after steps 1 and 2, after every N-th step and after the last one.',
        why='then the report names the step at which the weights part',
    )
    continued: bool = _what(True, 'Also continues each run in the other environment.')
    tolerance: float = _amount(
        1e-5,
        'Largest relative difference that always counts as equal.',
        why='sums of float32 in another order differ by less',
    )
    seed: int = _amount(1, 'Seed of what the program does not seed.')
    timeout_secs: float = _how(600, 'Longest time of one run.', unit='s', least=1, wanted='give 1 or more.')
    html: str = _how('', 'File for the report as an HTML page. Needs Jinja and matplotlib.', unset='none')
    json: str = _how('', 'File for the report as JSON.', unset='none')
    runs_dir: str = _how('', 'New folder in which the runs stay, with their logs.', unset='a temporary folder')


def main(argv) -> int:
    """Runs the command line `argv`, without program name. The exit code: 0, FAILED where the environments differ,
    cannot be told apart or the program fails, USAGE, or that of a file that cannot be written."""
    border = argv.index('--') if '--' in argv else len(argv)
    mine, theirs = argv[:border], tuple(argv[border + 1 :])

    def command():
        values, program = _program(mine)
        with bounded.ended_by_signals(), local_copies.LocalCopies() as here:
            files = {name: here.file(getattr(values, name), f'--{name}') for name in ('html', 'json')}
            code = _verify(dataclasses.replace(values, **files), program, theirs)
            here.send()
            return code

    return command_line.run(mine, USAGE, VerifyFlags, command, {bounded.RunFailed: exit_codes.FAILED})


def _program(argv) -> tuple[VerifyFlags, tuple[str, ...]]:
    """The flags of verify, and what follows `python`."""
    place = argv.index('-m') if '-m' in argv else len(argv)
    module, rest = tuple(argv[place : place + 2]), [*argv[:place], *argv[place + 2 :]]
    values, words = flags.parse_with_words(VerifyFlags, ['verify', *rest])
    if module:
        if len(module) < 2 or words:
            raise UsageError('-m: give one module, as in `verify -m package.module --steps=20 -- arguments`.')
        return values, module
    if len(words) != 1:
        given = f'{" ".join(words)}: ' if words else ''
        raise UsageError(f'{given}name one program; its own arguments come after `--`, and flags are --name=value.')
    _refuse_missing('', words[0])
    return values, tuple(words)


def _refuse_missing(prefix, path) -> None:
    if not os.path.isfile(path):
        raise UsageError(f'{prefix}{path}: there is no such file; name a Python program.')


def _verify(values, program, arguments) -> int:
    expanded = {name: os.path.expanduser(getattr(values, name)) for name in ('runs_dir', 'to_program')}
    values = dataclasses.replace(values, **expanded)
    if values.to_program:
        _refuse_missing('--to_program=', values.to_program)
    two = verify_runs.sides(values, program, arguments, os.environ.get('TF_CONFIG'))
    _check_places(values)
    from estimator_trainer.tools.comparison import report, verify_results  # NumPy

    if values.html:
        report.need_for_page('--html')
    settings = {name: getattr(values, name) for name in ('steps', 'every', 'examples', 'eval_steps', 'seed')}
    plan = verify_runs.plan(*two, values.continued)
    continued = {run.after for run in plan}
    with contextlib.ExitStack() as stack:
        if values.runs_dir:
            os.makedirs(values.runs_dir)
        temporary = tempfile.TemporaryDirectory(prefix='verify-', ignore_cleanup_errors=True)
        folder = os.path.abspath(values.runs_dir or stack.enter_context(temporary))
        for number, run in enumerate(plan, start=1):
            print(f'{number}/{len(plan)} {run.says}', file=sys.stderr, flush=True)
            keeps_files = bool(values.runs_dir) or run.name in continued
            verify_runs.start(run, folder, settings, values.timeout_secs, keeps_files)
        results = verify_results.compare_runs(folder, two, values.continued, values.steps, values.tolerance)
    made = verify_results.shown(results)
    print(report.text(made))
    if values.html:
        _write(values.html, report.page(made))
    if values.json:
        _write(values.json, json.dumps(verify_results.to_json(results), indent=1) + '\n')
    return exit_codes.OK if made.state == 'equal' else exit_codes.FAILED


def _check_places(values) -> None:
    for name in ('html', 'json'):
        path = getattr(values, name)
        if path and not os.path.isdir(os.path.dirname(os.path.abspath(path))):
            raise UsageError(f'--{name}={path}: its folder does not exist; make it first.')
    files_of_others.refuse_reports(values.html, values.json, 'comparisons')
    if urls.is_url(values.runs_dir):
        raise UsageError(f'--runs_dir={values.runs_dir}: the runs are on this machine; name a folder.')
    if values.runs_dir and os.path.exists(values.runs_dir):
        raise UsageError(f'--runs_dir={values.runs_dir}: exists; name a new folder.')


def _write(path, content) -> None:
    with open(path, 'w', encoding='utf-8') as file:
        file.write(content)
