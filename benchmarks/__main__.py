"""Measures estimator_trainer beside what people would use in its place, on this machine.

    python -m benchmarks [--only=cnn,start_up] [--rounds=5] [--steps=N] [--write]

Each thing is a fresh process in a folder of its own. The things of a case take turns: A B C, A B C, … The ratios are
those of the medians to the median of the first thing, with the lowest and the highest ratio of a round.
docs/benchmarks.md says what is measured.
"""

import argparse
import subprocess
import sys

from benchmarks import machine, measure, results, running
from benchmarks.cases import CASES, SCRIPTS


def main() -> int:
    args = parse(sys.argv[1:])
    if args.list:
        for name, case in CASES.items():
            print(f'{name:20} {case.title}')
        print(f'and, if they are named: {", ".join(SCRIPTS)}')
        return 0
    facts = machine.describe()
    print('\n'.join(f'{name:14} {text}' for name, text in facts.items()), flush=True)
    failed = False
    for name in args.only:
        if name in SCRIPTS:
            failed |= bool(subprocess.run([sys.executable, running.ROOT / 'benchmarks' / f'{name}.py']).returncode)
            continue
        facts = machine.describe()  # the load changes
        rounds, notes, failures = measured(CASES[name], args)
        failed |= failures
        made = tables(CASES[name], rounds, notes)
        for measurement, rows in made.items():
            print(f'\n## {results.title_of(name, measurement)}\n', flush=True)
            print(measure.table(rows, CASES[name].measures[measurement]), flush=True)
        if args.write:
            results.keep(name, facts, made)
    return 1 if failed else 0


def parse(argv):
    parser = argparse.ArgumentParser(
        prog='python -m benchmarks', description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--only', default=','.join(CASES), help='cases, separated by commas; all of them')
    parser.add_argument('--rounds', type=int, default=5, help='how often each thing is measured (5)')
    parser.add_argument('--steps', type=int, default=0, help='steps of training; each case has a number of its own')
    parser.add_argument('--plain', default='', help='a Python with TensorFlow 2.15, which runs the scripts as well')
    parser.add_argument('--timeout_secs', type=float, default=300, help='longest time of one measurement (300)')
    parser.add_argument('--write', action='store_true', help='keep the results: results.json, .md and .svg')
    parser.add_argument('--list', action='store_true', help='print the cases, and stop')
    args = parser.parse_args(argv)
    args.only = args.only.split(',')
    unknown = [name for name in args.only if name not in CASES and name not in SCRIPTS]
    if unknown:
        parser.error(f'no case {", ".join(unknown)}; there are {", ".join([*CASES, *SCRIPTS])}')
    if args.rounds < 1 or args.steps < 0:
        parser.error('--rounds and --steps are 1 or more')
    return args


def measured(case, args):
    """([{entry: what it measured}] of the rounds, {entry: why it was not measured}, whether something failed)."""
    rounds, notes, failed = [], {}, False
    entries = case.entries(args.steps or case.steps, args.plain)
    for number in range(args.rounds):
        found = {}
        for entry in entries:
            if entry.name in notes:
                continue
            try:
                values = running.run(entry.command, args.timeout_secs, entry.read, entry.env, entry.watch)
            except running.Skipped as why:
                notes[entry.name] = str(why)
            except running.Failed as why:
                failed, notes[entry.name] = True, f'failed in round {number + 1}: {str(why).splitlines()[0]}'
                print(f'{entry.name} failed: {why}', file=sys.stderr, flush=True)
            else:
                found[entry.name] = values
                shown = ', '.join(f'{key} {measure.number(values[key])}' for key in case.measures if key in values)
                print(f'  {case.title}, round {number + 1}, {entry.name}: {shown}', file=sys.stderr, flush=True)
        rounds.append(found)
    return rounds, {entry.name: notes.get(entry.name, '') for entry in entries}, failed


def tables(case, rounds, notes) -> dict:
    """{measurement: rows}."""
    made = {}
    for measurement in case.measures:
        values = [{name: found[measurement] for name, found in each.items() if measurement in found} for each in rounds]
        made[measurement] = measure.rows(values, list(notes), notes)
    return made


if __name__ == '__main__':
    sys.exit(main())
