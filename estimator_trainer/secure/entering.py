"""How a task gets into a network of its own, and its companion stays outside.

1. `enter` opens the task's port, starts the companion, and executes the same command again: in a process with threads
   nobody can make a user namespace, and importing NumPy starts threads.
2. `begin`, in the new program, makes the network before anything else, and listeners in it, which it sends to the
   companion. The program then reads its flags and its job as any other.
3. `Secured.serve` lets the companion read the key of the run, and begin.

The two programs are one process: it keeps its number, its parent and its output.
"""

import contextlib
import errno
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from typing import IO, Any, NoReturn

import tf_config
from estimator_trainer import exit_codes
from estimator_trainer.this_process import isolate, parent_process
from estimator_trainer.this_process.child_process import Child

VARIABLE = 'ESTIMATOR_TRAINER_SECURE'  # two descriptors, from `enter` to `begin`: of the companion, and of a file
LOOPBACK = '127.0.0.1'
_FIRST_PORT = 10000  # of the tasks inside: each network is a fresh one, so all ports are free
_PROXIES = ('grpc_proxy', 'https_proxy', 'http_proxy')  # nobody reaches one from inside, and gRPC would try
_BACKLOG, _START_SECS = 1024, 60
_COMPANION = (sys.executable, '-m', 'estimator_trainer.secure.companion')


class CannotSecure(Exception):
    """The task cannot be secured now, though it should be. `exit_code` says what may help."""

    def __init__(self, text: str, exit_code: int = exit_codes.COMPANION_LOST):
        super().__init__(text)
        self.exit_code = exit_code


class Secured:
    """This process is in a network of its own.

    Attributes:
        problem: why it could not get there; '': it is there.
        parsed: the cluster and the task that `enter` was given. Whoever looks for them here finds no name server and no
            engine.
    """

    def __init__(self, companion: socket.socket, problem: str = '', parsed: tf_config.Parsed | None = None):
        self._companion, self.problem, self.parsed = companion, problem, parsed

    def serve(self) -> None:
        """Lets the companion connect this task with the others, once there is a key. Raises CannotSecure."""
        if self.problem:
            raise CannotSecure(self.problem)
        with contextlib.suppress(OSError):  # it has ended, as the answer says
            self._companion.send(b'.')
        _await(self._companion)

    def companion_has_ended(self) -> bool:
        try:
            return not self._companion.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True


state: Secured | None = None
is_command = False  # `begin` was called, so the command can be executed again


def ports(cluster: tf_config.Cluster, task: tf_config.Task) -> dict[str, int]:
    """The port of each task inside every network, by its name."""
    tasks = dict.fromkeys((*cluster.tasks, task))
    return {str(each): _FIRST_PORT + number for number, each in enumerate(tasks)}


def inside(cluster: tf_config.Cluster) -> tf_config.Cluster:
    """The cluster with the addresses by which its tasks reach each other, each in its own network."""
    port = iter(range(_FIRST_PORT, _FIRST_PORT + len(cluster)))
    roles = {role: [f'{LOOPBACK}:{next(port)}' for _ in cluster.addresses(role)] for role in tf_config.ROLES}
    return tf_config.Cluster(**{role: tuple(addresses) for role, addresses in roles.items()})


def enter(
    cluster: tf_config.Cluster,
    task: tf_config.Task,
    key_file: str,
    attempt: str,
    kinds: Sequence[str],
    notes: Sequence[str] = (),
) -> NoReturn:
    """Executes this program again, in a network of its own.

    Args:
        attempt: what the engine calls it; '': nothing.
        kinds: of namespaces, from `isolate.kinds_that_work`.
        notes: what the user should be told of where the cluster comes from.

    Raises:
        CannotSecure: the port is taken, or the companion cannot start.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    serves = task in cluster and task.role != 'evaluator'
    listener = _listener(cluster.address(task)) if serves else None
    settings = {
        'task': str(task),
        'chief': str(cluster.chief_task),
        'attempt': attempt,
        'key_file': key_file,
        'ports': ports(cluster, task),
        'addresses': {str(each): cluster.address(each) for each in cluster.tasks},
    }
    try:
        with theirs:
            Child(parent_process.tying(_COMPANION), stdin=theirs.fileno(), ties=False)
        with _file_of(settings) as file:
            socket.send_fds(ours, [b'.'], [file.fileno(), *([listener.fileno()] if listener else [])])
        _await(ours)
        given = {
            'kinds': list(kinds),
            'task': str(task),
            'cluster': {role: cluster.addresses(role) for role in tf_config.ROLES},
            'notes': list(notes),
        }
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        environ = {name: value for name, value in os.environ.items() if name.lower() not in _PROXIES}
        file = _file_of(given)
        for descriptor in (ours.fileno(), file.fileno()):
            os.set_inheritable(descriptor, True)
        environ[VARIABLE] = f'{ours.fileno()} {file.fileno()}'
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environ)
    except OSError as error:
        raise CannotSecure(f'the companion of the task cannot start ({error.strerror or error})') from None


def _file_of(content: Mapping[str, Any]) -> IO[bytes]:
    """A file in memory that holds JSON, at its beginning: a cluster of thousands of tasks is longer than a message of a
    Unix socket or an environment variable may be."""
    file = open(os.memfd_create('estimator_trainer'), 'w+b')
    file.write(json.dumps(content).encode())
    file.seek(0)
    return file


def _listener(address: str) -> socket.socket:
    """Listens on every interface, as TensorFlow does: the name of a host may stand for another address there."""
    port = int(address.rpartition(':')[2])
    try:
        if socket.has_dualstack_ipv6():
            return socket.create_server(('', port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=_BACKLOG)
        return socket.create_server(('', port), backlog=_BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            text = f"this task's port is taken by another process: {address}"
            raise CannotSecure(text, exit_codes.PORT_TAKEN) from None
        raise CannotSecure(f'port {port} cannot be opened ({error.strerror})', exit_codes.USAGE) from None


def begin(environ: MutableMapping[str, str]) -> None:
    """Comes before anything that starts a thread. If `enter` has executed this program, it moves into its network."""
    global state, is_command
    is_command = True
    text = environ.pop(VARIABLE, '')
    if text:
        descriptor, of_given = map(int, text.split())
        with open(of_given, 'rb') as file:
            given = json.load(file)
        companion = socket.socket(fileno=descriptor)
        companion.set_inheritable(False)
        handed_over = parsed(given)
        state = Secured(companion, '', handed_over)
        try:
            isolate.make(given['kinds'])
            _hand_over(companion, handed_over)
        except OSError as error:
            state.problem = f'the network of the task cannot be made ({error.strerror or error})'


def parsed(given: Mapping[str, Any]) -> tf_config.Parsed:
    """What `enter` has handed over to `begin`."""
    cluster = {role: tuple(addresses) for role, addresses in given['cluster'].items()}
    role, _, index = given['task'].partition(':')
    return tf_config.Parsed(tf_config.Cluster(**cluster), tf_config.Task(role, int(index)), tuple(given['notes']))


def _hand_over(companion: socket.socket, handed_over: tf_config.Parsed) -> None:
    """Sends the companion what it needs of this network."""
    assert handed_over.task is not None
    for name, port in ports(handed_over.cluster, handed_over.task).items():
        if name != str(handed_over.task):
            with socket.create_server((LOOPBACK, port), backlog=_BACKLOG) as listener:
                socket.send_fds(companion, [json.dumps(name).encode()], [listener.fileno()])
    with _socket_maker(companion) as maker:
        socket.send_fds(companion, [b'""'], [maker.fileno()])


def _socket_maker(companion: socket.socket) -> socket.socket:
    """Starts a process that sends a new socket of this network for each byte that comes, as long as there is somebody
    who asks. Returns the socket by which to ask."""
    ours, theirs = socket.socketpair()
    parent = os.getpid()
    if os.fork():
        theirs.close()
        return ours
    try:
        parent_process.tie_to_parent(parent)
        os.setsid()  # it is no helper process of the job
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(signum, signal.SIG_IGN)
        ours.close()
        companion.close()
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        while theirs.recv(1):
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as made:
                socket.send_fds(theirs, [b'.'], [made.fileno()])
    finally:  # whatever happened: the caller's code must not run twice
        os._exit(0)


def _await(companion: socket.socket) -> None:
    """Waits for the companion's answer. Raises CannotSecure if something went wrong."""
    companion.settimeout(_START_SECS)
    try:
        text = companion.recv(1 << 16)
    except TimeoutError:
        raise CannotSecure(f'the companion of the task did not answer within {_START_SECS} s') from None
    except OSError:
        text = b''
    finally:
        companion.settimeout(None)
    if not text:
        raise CannotSecure('the companion of the task has ended; its output is above')
    if answer := json.loads(text):
        raise CannotSecure(answer['problem'], answer['exit_code'])
