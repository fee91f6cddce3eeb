"""python -m tests.differential.generated [--examples=N] [--seed=S]: compares random training steps both ways."""

import argparse
import collections
import itertools
import multiprocessing
import pprint
import sys
import time

from tests.differential.generated import examined

_NAMED, _SHOWN = 30, 6  # programs that differ, each one reduced


def main(argv) -> int:
    """0 if no program differs, else 1."""
    parser = argparse.ArgumentParser(prog='python -m tests.differential.generated', description=__doc__)
    parser.add_argument('--examples', type=int, default=10_000, help='so many programs [10000]')
    parser.add_argument('--seed', type=int, default=1, help='of what is drawn [1]')
    parser.add_argument('--first', type=int, default=0, help='the number of the first program of this seed [0]')
    parser.add_argument('--jobs', type=int, default=1, help='so many processes [1]')
    args = parser.parse_args(argv)
    counts, differ, began = collections.Counter(), {}, time.monotonic()
    numbers = range(args.first, args.first + args.examples)
    with multiprocessing.get_context('spawn').Pool(args.jobs, examined.start) as pool:
        asked = zip(itertools.repeat(args.seed), numbers)
        for count, (number, what, detail) in enumerate(pool.imap_unordered(examined.outcome, asked, chunksize=10), 1):
            counts[what] += 1
            if what.startswith(examined.DIFFERS):
                differ[number] = what
                if len(differ) <= _NAMED:
                    print(f'number {number} differs: {detail}', flush=True)
            if count % 200 == 0:
                secs = time.monotonic() - began
                print(f'{count} programs, {count / secs:.1f} a second, {len(differ)} differ', flush=True)
        smallest = list(dict((what, number) for number, what in reversed(differ.items())).values())[:_SHOWN]
        for number, found in pool.imap(examined.reduced, [(args.seed, number) for number in smallest]):
            print(f'\nnumber {number} of seed {args.seed}, reduced:')
            pprint.pprint(found, width=120)
    print()
    for what, number in counts.most_common():
        print(f'{number:7} {what}')
    print(f'seed {args.seed}: {len(differ)} of {args.examples} programs differ')
    return 1 if differ else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
