"""A private network, as root and as an ordinary user. Each try is in a process of its own:
should it move where it should not, it moves alone. An alarm clock ends it at the bound."""

import contextlib
import json
import os
import re
import socket

import pytest

from estimator_trainer.this_process import isolate
from tests.this_process.isolation_tries import BOUND_SECS, NO_NAMESPACES, NOBODY, TRY, User


@pytest.fixture(params=['root', 'ordinary'])
def user(request, tmp_path):
    uid = os.geteuid()
    if request.param == 'root' and uid != 0:
        pytest.skip('needs root')
    if request.param == 'ordinary' and uid == 0:
        uid = NOBODY
        os.chown(tmp_path, uid, uid)
    return User(uid, tmp_path)


@pytest.fixture
def able(user):
    """A user whom this machine lets have network namespaces."""
    found = user.run(TRY, 'auto')
    refused = re.match(r'not isolated \(((unshare|lo up|/proc/self/\w+): .*?)\): ', found['note'])
    if refused:
        assert found['same'] and found['answers']
        pytest.skip(f'not for this user, on this machine: {refused[1]}')
    return user


@pytest.fixture
def barred(user):
    """A user, and a script that has the kernel refuse network namespaces to them."""
    try:
        user.run(NO_NAMESPACES + 'say()')
    except AssertionError:
        pytest.skip('this kernel does not let this user limit namespaces')
    return user


def test_there_is_only_loopback_and_it_works(able):
    found = able.run("""
isolate.enter('on')
v6 = os.path.exists('/proc/net/if_inet6') and '1 01' in open('/proc/net/if_inet6').read()
with socket.socket() as other:
    other.settimeout(5)
    outside = errno.errorcode[other.connect_ex(('192.0.2.1', 80))]
say(interfaces=interfaces(), answers=answers(), outside=outside, moved=namespaces()[1],
    was=before['namespaces'][1],
    child=subprocess.check_output(['readlink', '/proc/self/ns/net'], text=True).strip())
""")
    assert found['interfaces'] == ['lo']
    assert found['answers']
    assert found['outside'] == 'ENETUNREACH'
    assert found['child'] == found['moved'] != found['was']


LISTEN = """
isolate.enter(sys.argv[2])
server = socket.socket()
server.bind(('0.0.0.0', 0))
server.listen()
say(port=server.getsockname()[1])
while True:
    server.accept()[0].sendall(b'reached')
"""


def here():
    """Addresses of this machine: loopback, and the one it has for others if there is one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp, contextlib.suppress(OSError):
        udp.connect(('192.0.2.1', 9))  # sends nothing
        return {'127.0.0.1', '127.0.0.2', udp.getsockname()[0]}
    return {'127.0.0.1', '127.0.0.2'}


def reached(port):
    """The addresses at which our listener is found, rather than nobody or another's."""
    found = set()
    for host in here():
        with contextlib.suppress(OSError), socket.create_connection((host, port), 5) as peer:
            if peer.recv(16) == b'reached':
                found.add(host)
    return found


@pytest.mark.parametrize('mode', ['on', 'off'])
def test_from_outside_a_port_is_reached_only_without_isolation(able, mode):
    with able.start(LISTEN, mode) as popen:
        port = json.loads(popen.stdout.readline())['port']
        assert reached(port) == (here() if mode == 'off' else set())


def test_files_keep_their_owner(able):
    script = "isolate.enter('on')\nopen('inside', 'x').close()\nsay(uid=os.stat('inside').st_uid)"
    assert able.run(script)['uid'] == able.uid
    status = (able.folder / 'inside').stat()
    assert (status.st_uid, status.st_gid) == (able.uid, able.folder.stat().st_gid)


def test_what_the_supervisor_relies_on_stays(able):
    found = able.run("""
libc.prctl(PR_SET_PDEATHSIG, signal.SIGUSR1, 0, 0, 0)
lock = os.open('lock', os.O_RDWR | os.O_CREAT)
fcntl.flock(lock, fcntl.LOCK_EX)
ids = os.getresuid(), os.getresgid(), os.getcwd(), os.getppid()
isolate.enter('on')
again = os.open('lock', os.O_RDWR)
try:
    fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
    locked = False
except BlockingIOError:
    locked = True
signum = ctypes.c_int()
libc.prctl(PR_GET_PDEATHSIG, ctypes.byref(signum), 0, 0, 0)
say(locked=locked, signum=signum.value, usr1=signal.SIGUSR1,
    same=ids == (os.getresuid(), os.getresgid(), os.getcwd(), os.getppid()))
""")
    assert found['locked'] and found['same']
    assert found['signum'] == found['usr1']


def test_kill_9_takes_tasks_along(able):
    # The task inherits stdout, which therefore ends when both are gone.
    script = """
isolate.enter('on')
parent = os.getpid()
subprocess.Popen(['sleep', '60'], preexec_fn=lambda: parent_process.tie_to_parent(parent))
say(ready=True)
sys.stdin.read()
"""
    with able.start(script) as popen:
        assert json.loads(popen.stdout.readline()) == {'ready': True}
        popen.kill()
        assert popen.communicate(timeout=BOUND_SECS)[0] == ''


def test_who_is_alone_already_stays_where_they_are(able):
    found = able.run("""
isolate.enter('on')
inside = namespaces()
again = isolate.enter('on')
say(isolated=again.isolated, note=again.note, same=namespaces() == inside)
""")
    assert found == {'isolated': True, 'note': isolate.ALREADY_ALONE, 'same': True}


@pytest.mark.parametrize(
    'flags, alone',
    [
        ({'lo': 9}, True),
        ({'lo': 8}, False),
        ({'lo': 9, 'eth0': 1}, False),
        ({'lo': 9, 'wlan0': 0}, False),
        ({'lo': 9, 'tunl0': 0, 'sit0': 0}, True),
        ({'lo': 9, 'tunl0': 1}, False),
        ({}, False),
    ],
)
def test_alone_is_who_has_and_will_have_only_loopback(flags, alone):
    assert isolate.only_loopback(flags) == alone


def test_loopback_that_is_down_is_not_enough(able):
    found = able.run("""
isolate.enter('on')
isolate._set_flags('lo', isolate._flags('lo') & ~1)
inside = namespaces()
say(isolated=isolate.enter('on').isolated, answers=answers(), same=namespaces() == inside)
""")
    assert found == {'isolated': True, 'answers': True, 'same': False}


def test_notes_say_what_is_the_case(able):
    assert able.run(TRY, 'on')['note'] == isolate.ISOLATED
    off = able.run(TRY, 'off')
    assert off['same'] and off['answers'] and not off['isolated']
    assert off['note'] == f'not isolated (--isolate=off): {isolate.EXPOSED}'


def test_a_kernel_that_refuses_leaves_everything_as_it_was(barred):
    found = barred.run(NO_NAMESPACES + TRY, 'auto')
    note = found.pop('note')
    assert found == {'isolated': False, 'left': False, 'answers': True, 'same': True}
    assert note.startswith('not isolated (unshare: no namespaces left (sysctl ')
    assert note.endswith(isolate.EXPOSED)
    assert '\n' not in note


def test_a_kernel_that_refuses_ends_isolate_on(barred):
    found = barred.run(NO_NAMESPACES + TRY, 'on')
    error = found.pop('error')
    assert found == {'left': False, 'answers': True, 'same': True}
    assert re.match(r'--isolate=on: .*\(unshare: no namespaces left .*\); --isolate=auto ', error)


REFUSALS = {
    'no capability in the new namespace': (
        """
def refuse(interface, flags):
    raise PermissionError(errno.EPERM, 'Operation not permitted')
isolate._set_flags = refuse
""",
        'lo up: Operation not permitted',
    ),
    'the child is killed': (
        'isolate.make = lambda kinds: os.kill(os.getpid(), signal.SIGSYS)',
        'the attempt: ended without a word',
    ),
    'the child hangs': (
        'isolate.BOUND_SECS = 0.2\nisolate.make = lambda kinds: signal.pause()',
        'the attempt: no answer within 0.2 s',
    ),
    'the child meets a defect': ('isolate.make = lambda kinds: {}[kinds]', "('net',)"),
    'this process is refused what its child was given': (
        """
parent, call = os.getpid(), isolate._call
def refuse(name, *args):
    with isolate._step(name):
        if os.getpid() == parent:
            raise OSError(errno.ENOSPC, 'No space left on device')
    call(name, *args)
isolate._call = refuse
""",
        'unshare: no namespaces left (sysctl user.max_user_namespaces, user.max_net_namespaces)',
    ),
    'this process has threads': (
        'threading.Thread(target=signal.pause, daemon=True).start()',
        'threads: the launcher has more than one',
    ),
    'another system': ("sys.platform = 'darwin'", 'only Linux has network namespaces'),
}


@pytest.mark.parametrize('case', REFUSALS)
def test_an_attempt_that_fails_leaves_everything_as_it_was(able, case):
    refuse, why = REFUSALS[case]
    found = able.run(refuse + TRY, 'auto')
    assert found == {
        'isolated': False,
        'note': f'not isolated ({why}): {isolate.EXPOSED}',
        'left': False,
        'answers': True,
        'same': True,
    }
    assert f'({why}); --isolate=auto' in able.run(refuse + TRY, 'on')['error']


def test_ignored_sigchld_does_no_harm(able):
    ignore = 'signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n'
    assert able.run(ignore + TRY)['isolated']


def test_an_unknown_mode():
    with pytest.raises(ValueError, match="'maybe': one of auto, on, off"):
        isolate.enter('maybe')
