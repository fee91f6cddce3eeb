"""python -m tests.chaos [--only=TEXT,TEXT] [--times=N] [--list]: plays every case, and shows a table."""

import argparse
import concurrent.futures
import pathlib
import re
import shutil
import sys
import tempfile
import time

from tests.chaos import (
    alone,
    broken,
    chance,
    file_data,
    hostile_blame,
    hostile_checkpoints,
    hostile_data,
    hostile_exports,
    hostile_forks,
    hostile_pace,
    hostile_pauses,
    hostile_supervisor,
    stage,
    stopping,
    supervised,
    unlike,
)
from tests.chaos import case as chaos

HOSTILE = (
    hostile_forks,
    hostile_blame,
    hostile_pauses,
    hostile_pace,
    hostile_checkpoints,
    hostile_exports,
    hostile_data,
    hostile_supervisor,
)  # jobs that misbehave


def main(argv) -> int:
    """0 if every case is as it must be, else 1."""
    parser = argparse.ArgumentParser(prog='python -m tests.chaos', description=__doc__)
    parser.add_argument('--only', default='', help='only cases whose name has one of these texts')
    parser.add_argument('--random_kills', type=int, default=20, help='of one run [20]')
    parser.add_argument('--seed', type=int, default=1, help='of the random kills [1]')
    parser.add_argument('--times', type=int, default=1, help='so often each case is played [1]')
    parser.add_argument('--jobs', type=int, default=1, help='so many cases are played at a time [1]')
    parser.add_argument('--list', action='store_true', help='show the names of the cases')
    parser.add_argument('--keep', action='store_true', help='keep the folders of cases that went well')
    parser.add_argument('--flag', action='append', default=[], help='a flag of every trainer, as in --flag=--seed=3')
    parser.add_argument(
        '--cluster_flag', action='append', default=[], help='of every cluster, as in --cluster_flag=--isolate=off'
    )
    args = parser.parse_args(argv)
    stage.FURTHER[:] = args.flag
    stage.FURTHER_OF_CLUSTERS[:] = args.cluster_flag
    wanted = [text.strip() for text in args.only.split(',') if text.strip()]
    everything = [
        *supervised.cases(),
        *chance.cases(args.random_kills, args.seed),
        *broken.cases(),
        *alone.cases(),
        *stopping.cases(),
        *file_data.cases(),
        *unlike.cases(),
        *(case for module in HOSTILE for case in module.cases()),
    ]
    cases = [case for case in everything if not wanted or any(text in case.name for text in wanted)]
    cases = [case for case in cases for _ in range(args.times)]
    if args.list:
        print(*(case.name for case in cases), sep='\n')
        return 0
    root = pathlib.Path(tempfile.mkdtemp(prefix='chaos-'))
    undisturbed, began, failed = chaos.Undisturbed(root), time.monotonic(), 0
    print(f'{len(cases)} cases in {root}', flush=True)
    print(chaos.table_line(chaos.COLUMNS), flush=True)

    def play(number):
        folder = root / f'{number}-{re.sub("[^a-z0-9]+", "-", cases[number].name.lower())}'
        return folder, cases[number].run(folder, undisturbed)

    # The threads live to the end: the kernel kills the programs of one that has ended.
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for folder, row in pool.map(play, range(len(cases))):
            print(row.line(), flush=True)
            failed += bool(row.problems)
            if not row.problems and not args.keep:
                shutil.rmtree(folder, ignore_errors=True)
    print(f'{len(cases) - failed} of {len(cases)} cases are as they must be, after {time.monotonic() - began:.0f} s')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
