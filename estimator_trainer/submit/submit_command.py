"""python -m estimator_trainer submit slurm|kubernetes|ray render|submit JOB.yaml [--out DIR].

Exit code 0, 64 on a bad argument or job description, otherwise that of the engine's own client.
"""

import argparse
import contextlib
import importlib
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from estimator_trainer import exit_codes
from estimator_trainer.errors import UsageError, nearest
from estimator_trainer.submit import description as descriptions
from estimator_trainer.submit.description import Description

_MARK = '# Written by estimator_trainer submit, which replaces this file when it is called again.'
ENGINES = {'slurm': 'slurm_script', 'kubernetes': 'kubernetes_objects', 'ray': 'ray_job'}


class _UsageParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(exit_codes.USAGE, f'{self.prog}: {message}\n')


def _one_of(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text in words:
            return text
        raise argparse.ArgumentTypeError(f'{text} is none of {", ".join(words)}{nearest(text, words)}')

    return read


def _parser() -> argparse.ArgumentParser:
    parser = _UsageParser(
        prog='python -m estimator_trainer submit',
        allow_abbrev=False,
        description='Writes or submits what an engine needs to run a job on its cluster.',
    )
    parser.add_argument('engine', type=_one_of(*ENGINES), help=', '.join(ENGINES))
    parser.add_argument(
        'action',
        type=_one_of('render', 'submit'),
        help="render: print the files; submit: give them to the engine's own client",
    )
    parser.add_argument('job', metavar='JOB.yaml', help='the job description; docs/engines/README.md lists its keys')
    parser.add_argument(
        '--out', type=pathlib.Path, metavar='DIR', help='write the files into this folder, and keep them'
    )
    return parser


def _write(folder: pathlib.Path, files: Mapping[str, str]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in files:
            if _is_of_others(folder / name):  # such as the job description itself
                raise UsageError(
                    f'--out={folder}: its {name} is not of this command; move it away, or name another folder'
                )
        for name, text in files.items():
            (folder / name).write_text(_marked(text), encoding='utf-8')
    except OSError as error:
        raise UsageError(f'--out={folder}: {error.strerror}; give a folder that can be written') from None


def _is_of_others(path: pathlib.Path) -> bool:
    return path.exists() and _MARK not in path.read_text(encoding='utf-8', errors='replace').splitlines()[:2]


def _marked(text: str) -> str:
    """The text with a first line, or a second one in a script, that says that the file may be replaced."""
    first, rest = text.split('\n', 1) if text.startswith('#!') else ('', text)
    return '\n'.join([*filter(None, [first]), _MARK, rest])


def _render(files: Mapping[str, str], out: pathlib.Path | None) -> None:
    if out is not None:
        _write(out, files)
        print('\n'.join(str(out / name) for name in files))
    elif len(files) == 1:
        print(*files.values(), end='')
    else:
        print('\n'.join(f'# {name}\n{text}' for name, text in files.items()), end='')


def _submit(
    engine: Any, description: Description, files: Mapping[str, str], out: pathlib.Path | None, run: Callable
) -> int:
    with contextlib.ExitStack() as stack:
        folder = out or pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f'{description.name}-')))
        _write(folder, files)
        try:
            code = engine.submit(description, folder, run)
        except FileNotFoundError as error:  # of subprocess: the client
            raise UsageError(
                f'{error.filename}: no such command; submit from a machine that has it, or render here and submit there'
            ) from None
        except KeyboardInterrupt:
            return exit_codes.INTERRUPTED
    return 128 - code if code < 0 else code


def main(argv: Sequence[str], run: Callable = subprocess.run) -> int:
    """Runs the command line `argv`, which has no program name, and returns the exit code."""
    args = _parser().parse_args(argv)
    engine = importlib.import_module(f'estimator_trainer.submit.{ENGINES[args.engine]}')
    try:
        description = descriptions.load(args.job)
        files = engine.render(description)
        if args.action == 'submit':
            return _submit(engine, description, files, args.out, run)
        _render(files, args.out)
        return exit_codes.OK
    except UsageError as error:
        for line in str(error).splitlines():  # one for each mistake of a description
            print(f'error: {line}', file=sys.stderr)
        return exit_codes.USAGE
