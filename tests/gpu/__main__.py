"""Plays on this machine's GPUs what is special there, prints a table, and writes benchmarks/gpu.md.

    python -m tests.gpu [--only=parity,resume] [--list]
    python -m tests.gpu --logical=2    # on logical CPUs, what does not depend on the hardware; writes nothing

Where no GPU is there, it says so, lists its cases, and ends with 0. Otherwise it ends with 1 if a case has failed.
"""

import argparse
import datetime
import os
import pathlib
import sys
import tempfile

from estimator_trainer import compat
from estimator_trainer.this_process import gpus
from tests.gpu.cases import CASES
from tests.gpu.play import ROOT, Failed, Play

PAGE = ROOT / 'benchmarks' / 'gpu.md'


def main(argv: list[str]) -> int:
    args = parse(argv)
    there = args.logical or gpus.visible(os.environ)
    if not there:
        print('No GPU is here, so nothing was run. These cases are for a machine with GPUs:')
    if args.list or not there:
        for case in CASES:
            needs = f'{case.gpus} GPU{"s" * (case.gpus > 1)}{", or --logical" if case.is_logical else ""}'
            print(f'{case.name:18} {case.what} [{needs}]')
        return 0
    rows, has_failed = [], False
    with tempfile.TemporaryDirectory(prefix='gpu-') as folder:
        play = Play(pathlib.Path(folder), there, bool(args.logical))
        for case in CASES:
            if args.only and case.name not in args.only:
                continue
            if case.gpus > there or (args.logical and not case.is_logical):
                seen = 'not run here'
            else:
                try:
                    seen = case.play(play)
                except Failed as error:
                    seen, has_failed = f'FAILED: {error}', True
            rows.append(f'| {case.name} | {case.what} | {seen} |')
            print(rows[-1], flush=True)
    if not args.logical and not args.only:
        PAGE.write_text(page(there, rows), encoding='utf-8')
    return int(has_failed)


def page(there: int, rows: list[str]) -> str:
    """benchmarks/gpu.md."""
    versions = ', '.join(f'{name} {version}' for name, version in compat.versions().items())
    head = f'# On {there} GPU(s)\n\n`python -m tests.gpu` of {datetime.date.today()}, {versions}.\n'
    return '\n'.join([head, '| case | what | seen |', '|---|---|---|', *rows, ''])


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog='python -m tests.gpu', description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--logical', type=int, default=0, help='so many logical CPUs in the place of GPUs')
    parser.add_argument('--only', default='', help='cases, separated by commas; all of them')
    parser.add_argument('--list', action='store_true', help='print the cases, and stop')
    args = parser.parse_args(argv)
    args.only = args.only.split(',') if args.only else []
    unknown = set(args.only) - {case.name for case in CASES}
    if unknown:
        parser.error(f'no case {", ".join(sorted(unknown))}; there are {", ".join(case.name for case in CASES)}')
    return args


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
