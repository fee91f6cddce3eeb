"""Compares plain TensorFlow 2.15.1 with another TensorFlow and compat, on the acceptance programs.

    python tests/acceptance/compare.py --plain=PYTHON_OF_2.15.1 --compat=PYTHON

prints a table and exits 0 if all final numbers are the same to 1e-5 relative, and if a model_dir,
Adam's slots included, goes from one to the other and back. --plain may be a file that an earlier run
has written with --save: then nothing runs without compat, and checkpoints are not carried over.
"""

import argparse
import json
import pathlib
import sys
import tempfile
import time

import runner


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--plain', required=True, help='python with TensorFlow 2.15.1, or a saved file')
    parser.add_argument('--compat', help='python of the environment that is compared')
    parser.add_argument('--save', help='writes the numbers of --plain to this file')
    parser.add_argument('--only', action='append', help='one of the programs; may be repeated')
    parser.add_argument('--tolerance', type=float, default=1e-5, help='relative (default 1e-5)')
    options = parser.parse_args()
    saved = json.loads(pathlib.Path(options.plain).read_text()) if options.plain.endswith('.json') else None
    plain = None if saved else runner.Python(options.plain, compat=False)
    compat = options.compat and runner.Python(options.compat, compat=True)
    names = options.only or [*runner.NAMES, *(['checkpoints'] if plain and compat else [])]

    with tempfile.TemporaryDirectory() as folder:

        def side(python, middle, which):
            return {name: _timed(python, name, f'{folder}/{which}/{name}', plain, middle) for name in names}

        # One after the other: a program may have three TensorFlows at once, with heartbeats between them.
        expected = side(plain, plain, 'plain') if plain else {name: (saved[name], None) for name in names}
        found = side(compat, compat, 'compat') if compat else {}
    if options.save:
        numbers = {name: value for name, (value, _) in expected.items() if isinstance(value, dict)}
        pathlib.Path(options.save).write_text(json.dumps(numbers, indent=1, sort_keys=True) + '\n')
    return _print_table(names, expected, found, options.tolerance) if compat else 0


def _timed(python, name, folder, plain, middle):
    start = time.monotonic()
    try:
        if name == 'checkpoints':  # begun by plain, continued by plain or compat, then by plain again
            numbers = runner.continued(plain, middle, folder)
        else:
            numbers = runner.results(python, name, folder)
    except RuntimeError as error:
        return str(error), time.monotonic() - start
    return numbers, time.monotonic() - start


def _print_table(names, expected, found, tolerance) -> int:
    row = '{:24} {:>8} {:>14} {:>14} {:>12}  {:6} {:>13}'
    print(row.format('program', 'numbers', 'loss, plain', 'loss, compat', 'worst diff', '', 'seconds'))
    failed = 0
    for name in names:
        (left, left_s), (right, right_s) = expected[name], found[name]
        seconds = f'{left_s:.0f} + {right_s:.0f}' if left_s else f'{right_s:.0f}'
        if isinstance(left, str) or isinstance(right, str):
            failed += 1
            print(row.format(name, '-', '-', '-', '-', 'FAILED', seconds))
            print(left if isinstance(left, str) else right, file=sys.stderr)
            continue
        worst = runner.worst_difference(left, right)
        failed += worst > tolerance
        key = next((key for key in sorted(left, reverse=True) if key.split('/')[-1] == 'loss'), None)
        print(
            row.format(
                name,
                len(left),
                f'{left[key]:.8g}',
                f'{right.get(key, float("nan")):.8g}',
                f'{worst:.1e}',
                'ok' if worst <= tolerance else 'DIFFERS',
                seconds,
            )
        )
        if worst > tolerance:
            for key in left:
                print(f'    {key}: {left[key]!r} {right.get(key)!r}', file=sys.stderr)
    print(f'{len(names) - failed} of {len(names)} are the same to {tolerance:g} relative')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
