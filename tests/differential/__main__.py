"""python -m tests.differential [--only=WORD] [--part=N/M] [--settings=1,7] [--jobs=N] [--list]: asks the oracle."""

import argparse
import collections
import os
import sys
import time

from tests.differential import pool
from tests.differential.settings import ACCUMULATED, ALONE, REPLICAS, SETTINGS

_REPLICAS = ((REPLICAS, 2), (ACCUMULATED, 3))


def main(argv) -> int:
    """0 if nothing differs, else 1."""
    parser = argparse.ArgumentParser(prog='python -m tests.differential', description=__doc__)
    parser.add_argument('--only', default='', help='only jobs whose name or axis has one of these words')
    parser.add_argument('--part', default='1/1', help='such as 2/3: only the second, fifth, eighth … of these jobs')
    parser.add_argument('--settings', default=','.join(ALONE), help=f'of {",".join(SETTINGS)} [{",".join(ALONE)}]')
    parser.add_argument('--jobs', type=int, default=1, help='so many processes [1]')
    parser.add_argument('--sample', action='store_true', help='only the sample of the gate')
    parser.add_argument('--list', action='store_true', help='show the names of the jobs')
    parser.add_argument('--log', help='a file for what the trainer prints')
    args = parser.parse_args(argv)
    settings = list(SETTINGS) if args.settings == 'all' else args.settings.split(',')
    unknown = set(settings) - set(SETTINGS)
    if unknown:
        parser.error(f'no setting {", ".join(unknown)}; there are {", ".join(SETTINGS)}')
    if args.log:
        os.environ['DIFFERENTIAL_LOG'] = os.path.abspath(args.log)
    cases = _cases(args)
    if args.list:
        for case in cases.values():
            print(f'{case.axis:16} {case.name:40} {"" if case.single is None else "one step: " + case.single}')
        print(f'{len(cases)} jobs')
        return 0
    return _play(cases, settings, args.jobs)


def _cases(args) -> dict:
    from estimator_trainer import compat

    compat.bring_up()
    from tests.differential.registry import CASES

    words = [word for word in args.only.split(',') if word]
    names = [
        name
        for name, case in CASES.items()
        if (case.sample or not args.sample) and (not words or any(word in f'{case.axis}.{name}' for word in words))
    ]
    number, parts = map(int, args.part.split('/'))
    return {name: CASES[name] for name in names[number - 1 :: parts]}


def _play(cases, settings, processes) -> int:
    began, counts, differs, reasons = time.monotonic(), collections.Counter(), [], collections.Counter()
    alone = [setting for setting in settings if setting not in (*REPLICAS, *ACCUMULATED)]
    groups = [(alone, 1), *(([each for each in settings if each in group], n) for group, n in _REPLICAS)]
    for some, replicas in groups:
        for name, found in pool.play(list(cases), some, replicas, processes) if some else ():
            print(f'{cases[name].axis:14} {name:34} ' + '  '.join(f'{key}: {value[0]}' for key, value in found.items()))
            for setting, (verdict, detail) in found.items():
                counts[setting, verdict] += 1
                if verdict == 'DIFFERS':
                    differs.append(name)
                    print(f'    {setting}: {detail}')
                elif 'rewriting' in detail:
                    print(f'    {setting}: equal {detail}')
                elif verdict == 'one step':
                    reasons[detail] += 1
            sys.stdout.flush()
    print()
    for reason, number in reasons.most_common():
        print(f'{number:5} one step: {reason}')
    for setting in settings:
        print(f'{setting:>9}: ' + ', '.join(f'{n} {what}' for (of, what), n in sorted(counts.items()) if of == setting))
    print(f'{len(cases)} jobs, {len(set(differs))} differ, {time.monotonic() - began:.0f} s')
    return 1 if differs else 0


if __name__ == '__main__':
    os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
    sys.exit(main(sys.argv[1:]))
