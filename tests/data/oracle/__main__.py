"""Checks many generated files, and prints what became of them.

python -m tests.data.oracle [--examples=20000] [--seed=1]

Each 5,000 examples have a seed of their own, from --seed on.
"""

import argparse
import collections
import logging
import sys
import tempfile
import time

import hypothesis
from hypothesis import strategies as st

FORMATS = ('parquet', 'csv', 'csv.gz', 'tfrecord', 'tfrecord.gz', 'array_record')
_AT_ONCE = 5000  # examples of one seed: hypothesis remembers all of them


def counts(examples: int, seed: int) -> collections.Counter:
    """(format, outcome) -> files. Raises what a check raises, for the smallest example that does."""
    from tests.data.oracle import checks, generated

    found: collections.Counter = collections.Counter()

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples,
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        print_blob=True,
    )
    @hypothesis.given(st.data())
    def check(draws):
        file_format = draws.draw(st.sampled_from(FORMATS))
        data = draws.draw(generated.of_format(file_format))
        damage = draws.draw(st.sampled_from(generated.DAMAGES))
        with tempfile.TemporaryDirectory() as folder:
            outcome = checks.outcome(folder, file_format, data, damage, lambda of: draws.draw(st.sampled_from(of)))
        found[file_format, outcome] += 1

    check()
    return found


def main() -> int:
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument('--examples', type=int, default=20_000)
    flags.add_argument('--seed', type=int, default=1)
    args = flags.parse_args()
    logging.getLogger('estimator_trainer').setLevel(logging.ERROR)
    began, found = time.monotonic(), collections.Counter()
    for number, first in enumerate(range(0, args.examples, _AT_ONCE)):
        found += counts(min(_AT_ONCE, args.examples - first), args.seed + number)
        for (file_format, outcome), count in sorted(found.items()):
            print(f'{file_format:12} {outcome:30} {count:8,}')
        seeds = f'seeds {args.seed} to {args.seed + number}'
        print(f'{sum(found.values()):,} files, {seeds}, {time.monotonic() - began:.0f} s: no wrong value', flush=True)
    return 0


if __name__ == '__main__':
    sys.exit(main())
