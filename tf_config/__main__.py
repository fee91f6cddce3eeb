"""python -m tf_config check | show | export | make | probe: exit code 0, or 64 on a bad TF_CONFIG or argument. `probe`
ends with 1 if strangers can use the port."""

import argparse
import difflib
import itertools
import json
import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from tf_config import addresses, inherited, stranger, tables
from tf_config.cluster import ROLES, STRATEGIES, for_program, make, render
from tf_config.lint import Parsed, TfConfigError, auto_strategy
from tf_config.resolvers import SOURCES, read_layout, resolve

BAD_USAGE, EXPOSED = 64, 1
_READERS = {
    'check': 'say what is wrong with a TF_CONFIG',
    'show': 'print a table of its tasks',
    'export': 'print the line that sets the TF_CONFIG of this task, for a program that reads it',
}
_MAKE = "print each task's TF_CONFIG for a new cluster"
_PROBE = 'say what somebody without a key sees at a port'


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(BAD_USAGE, f'{self.prog}: {message}\n')

    def parse_known_args(self, args: Iterable[str] | None = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Refuses an unknown argument and offers the nearest flag. argparse would leave that to the main parser, which
        does not know the flags of the command."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            name = unknown[0].partition('=')[0]
            close = difflib.get_close_matches(name, re.findall(r'--\w+', self.format_usage()), n=1)
            meant = f' (did you mean {close[0]}?)' if close else ''
            self.error(f'{unknown[0]}: no such argument{meant}; see --help')
        return parsed, unknown


def _parser() -> _Parser:
    parser = _Parser(prog='python -m tf_config', allow_abbrev=False, description=__doc__)
    commands = parser.add_subparsers(dest='command', metavar='COMMAND')
    for name, what in _READERS.items():
        command = commands.add_parser(name, help=what, allow_abbrev=False)
        command.add_argument('--strategy', choices=STRATEGIES, default='auto')
        command.add_argument('--file', type=Path, help='a file with the TF_CONFIG; default: the environment')
        command.add_argument(
            '--cluster_from', choices=SOURCES, default='auto', help='where the cluster comes from, as for the trainer'
        )
        command.add_argument('--roles', default='', help='role:count,... in the order of the ranks')
        command.add_argument('--base_port', type=int, help='the first port on each address')
        command.add_argument('--hosts', default='', help='host or host:port of each rank')
        command.add_argument('--rank', type=int, help='rank of this process, if no engine says it')
    command = commands.add_parser('make', help=_MAKE, allow_abbrev=False)
    command.add_argument('--workers', type=int, default=1, help='tasks that train; the chief is one of them')
    command.add_argument('--ps', type=int, default=0, help='parameter servers')
    command.add_argument('--evaluator', action='store_true', help='add an evaluator')
    command.add_argument(
        '--host',
        action='append',
        dest='hosts',
        metavar='HOST',
        help='may be repeated; the tasks go round-robin over the hosts; default: 127.0.0.1',
    )
    command.add_argument('--base_port', type=int, default=2222, help='the first port of each host')
    command.add_argument('--format', choices=('exports', 'json'), default='exports')
    command = commands.add_parser('probe', help=_PROBE, allow_abbrev=False)
    command.add_argument('address', metavar='HOST:PORT')
    return parser


def _read(args: argparse.Namespace) -> tuple[Parsed, str]:
    """The cluster, and the reason to show if it is empty.

    Raises:
        OSError: --file cannot be read.
        ValueError: --file is no text, flags contradict each other, or the TF_CONFIG is wrong.
    """
    environ: Mapping[str, str] = os.environ
    where, source = 'TF_CONFIG', args.cluster_from
    if args.file:
        if source not in ('auto', 'tf_config'):
            raise ValueError(
                f'--file={args.file} holds a TF_CONFIG, and --cluster_from={source} reads none: give one of them'
            )
        environ = {'TF_CONFIG': args.file.read_text(encoding='utf-8-sig')}
        where, source = args.file, 'tf_config'
    layout = read_layout(source, args.roles, args.base_port, args.hosts, args.rank)
    parsed = resolve(environ, layout, args.strategy)
    for note in parsed.notes:
        print(f'note: {note}', file=sys.stderr)
    if source not in ('auto', 'tf_config'):
        return parsed, f'--cluster_from={source} finds one task'
    return parsed, f'{where} {"names no cluster" if environ.get("TF_CONFIG") else "is not set"}'


def _check(args: argparse.Namespace) -> str:
    parsed, reason = _read(args)
    if not parsed.cluster:
        return f'ok: {reason}: a single process'
    counts = ((role, len(parsed.cluster.addresses(role))) for role in ROLES)
    shape = ', '.join(f'{count} {role}' for role, count in counts if count)
    strategy = auto_strategy(parsed.cluster) if args.strategy == 'auto' else args.strategy
    return f'ok: {parsed.task} of {shape}; strategy {strategy}'


def _show(args: argparse.Namespace) -> str:
    parsed, reason = _read(args)
    cluster, this_task = parsed.cluster, parsed.task
    if not cluster or this_task is None:
        return f'{reason}: a single process'
    rows = [('role', 'index', 'address', '')]
    for task in dict.fromkeys((*cluster.tasks, this_task)):
        address = cluster.address(task) if task in cluster else '(not in the cluster)'
        marks = [mark for mark, marked in (('chief', cluster.chief_task), ('this task', this_task)) if marked == task]
        rows.append((task.role, str(task.index), address, ', '.join(marks)))
    return '\n'.join(tables.aligned(rows))


def _export(args: argparse.Namespace) -> str:
    parsed, reason = _read(args)
    if not parsed.cluster or parsed.task is None:
        return f'# {reason}: a single process'
    return f'export TF_CONFIG={shlex.quote(for_program(parsed.cluster, parsed.task))}'


def _make(args: argparse.Namespace) -> str:
    places = _addresses(args.hosts or ['127.0.0.1'], args.base_port)
    cluster = make(args.workers, args.ps, args.evaluator, places)
    configs = {task: render(cluster, task) for task in cluster.tasks}
    if args.format == 'json':
        return json.dumps({str(task): json.loads(text) for task, text in configs.items()}, indent=1)
    return '\n'.join(
        f'# {task} on {cluster.address(task).rpartition(":")[0]}\nexport TF_CONFIG={shlex.quote(text)}'
        for task, text in configs.items()
    )


def _probe(args: argparse.Namespace) -> tuple[str, int]:
    """The line to print, and the exit code."""
    problem = addresses.problem(args.address)
    if problem:
        raise ValueError(f'address "{args.address}" {problem}')
    host, _, port = args.address.rpartition(':')
    seen = stranger.look(host.strip('[]'), int(port))
    return f'{args.address}: {seen.value}', EXPOSED if seen.is_open else 0


def _addresses(hosts: Sequence[str], base_port: int) -> Iterator[str]:
    """Endless addresses, which take the hosts in turn. Raises ValueError on a bad host or port."""
    places = addresses.TakenPlaces()
    for host in itertools.cycle(hosts):
        address = places.unused(host, base_port)
        problem = addresses.problem(address)
        if problem:
            raise ValueError(f'address "{address}" {problem}')
        yield address


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command with the arguments `argv` (by default those of this process), and returns its exit code.

    Raises:
        SystemExit: with code 64 on a bad argument, and with 0 after --help.
    """
    parser = _parser()
    args = parser.parse_args(argv)
    if args.command is None:
        listed = '; '.join(f'{name}: {what}' for name, what in {**_READERS, 'make': _MAKE, 'probe': _PROBE}.items())
        parser.error(f'give a command. {listed}')
    try:
        if args.command == 'probe':
            text, code = _probe(args)
            print(text)
            return code
        print({'check': _check, 'show': _show, 'export': _export, 'make': _make}[args.command](args))
    except TfConfigError as error:
        print(error, file=sys.stderr)
        return BAD_USAGE
    except (OSError, ValueError) as error:
        parser.error(str(error))
    return 0


if __name__ == '__main__':
    inherited.mend()
    sys.exit(main())
