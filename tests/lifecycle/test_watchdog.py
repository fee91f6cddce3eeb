"""lifecycle.watchdog: what ends a task, by a clock of the test's; and real signals to real processes."""

import contextlib
import fcntl
import json
import os
import pathlib
import signal
import subprocess
import sys
import termios
import threading
import types

import pytest

from estimator_trainer.lifecycle import ending, peers, signal_inbox
from estimator_trainer.lifecycle import watchdog as watchdogs
from estimator_trainer.lifecycle.probes import Answer
from estimator_trainer.run_dir import protocol, training_file
from tests.processes import until

ROOT = pathlib.Path(__file__).parents[2]
BOUND_SECS = 120
INT, TERM = signal.SIGINT, signal.SIGTERM
STARTING, TRAINING, EVALUATING = training_file.STARTING, training_file.TRAINING, training_file.EVALUATING
CLOSING, SERVING = watchdogs.CLOSING, watchdogs.SERVING
STEP, GRACE = 1800, 25
START = 1000


class Task:
    """A watchdog without threads: what its threads would see is told to it."""

    def __init__(self, phase=STARTING, environ=None, **bounds):
        self.now, self.codes = START, []
        self.watchdog = watchdogs.Watchdog(
            'worker:1',
            watchdogs.Bounds(**{'step': STEP, 'grace': GRACE, **bounds}),
            environ or {},
            lambda: self.now,
            self.codes.append,
        )
        if phase == TRAINING:
            self.watchdog.stepped(7)
        else:
            self.watchdog.enter(phase)

    def at(self, secs):
        """Comes to that time, and looks."""
        self.now = START + secs
        self.watchdog._end_if_due()
        return self

    def signal(self, signum, secs=0):
        self.now = START + secs
        self.watchdog._received(signum)
        return self.at(secs)

    def lose(self, ever_seen, secs=0):
        self.watchdog._note(gone=peers.SilentPeer('worker:0', 'host:1', ever_seen, 31.4))
        return self.at(secs)


@pytest.mark.parametrize('phase, secs, code', [(STARTING, 0, 143), (TRAINING, GRACE, 196), (SERVING, GRACE, 143)])
def test_a_signal_ends_the_task_when_its_time_is_over(phase, secs, code):
    task = Task(phase).signal(TERM)
    assert (task.codes, task.watchdog.signum) == ([] if secs else [code], TERM)
    assert task.at(secs).codes == [code]


def test_a_second_signal_ends_at_once():
    task = Task(TRAINING).signal(TERM).signal(INT, 0.1)
    assert (task.codes, task.watchdog.signum) == ([196], TERM)


def test_a_task_that_was_told_by_another():
    task = Task(TRAINING)
    task.watchdog.obey(TERM)
    assert (task.watchdog.signum, task.watchdog.stopped_by, task.watchdog.follows) == (None, TERM, True)
    assert task.signal(TERM, 5).codes == []
    assert (task.watchdog.signum, task.watchdog.stopped_by, task.watchdog.follows) == (TERM, TERM, True)
    assert task.at(GRACE).codes == [196]


def test_sighup_is_an_order_to_stop():
    task = Task(TRAINING).signal(signal.SIGHUP)
    assert (task.watchdog.signum, task.watchdog.name_of(TERM)) == (TERM, 'SIGHUP')
    assert task.at(GRACE).codes == [196]


def test_what_comes_after_training_is_not_begun_when_asked_to_stop():
    task = Task(CLOSING).signal(TERM)
    assert task.codes == []
    task.watchdog.enter(EVALUATING)
    assert task.codes == [143]


@pytest.mark.parametrize('ever_seen, code', [(True, 193), (False, 194)])
def test_a_peer_that_is_gone(ever_seen, code, capsys):
    assert Task(TRAINING).lose(ever_seen).codes == [code]
    assert 'worker:0 at host:1' in capsys.readouterr().err


def test_peers_that_were_released_may_be_gone():
    task = Task(TRAINING)
    task.watchdog._note(gone=peers.SilentPeer('worker:0', 'host:1', True, 31))
    task.watchdog.release_peers()
    assert task.at(0).codes == [] and task.watchdog.missing_peers() == []


@pytest.mark.parametrize('phase', [TRAINING, CLOSING])
def test_a_step_that_does_not_end(phase):
    assert Task(phase).at(STEP - 0.1).codes == []
    assert Task(phase).at(STEP).codes == [195]


@pytest.mark.parametrize(
    'tell',
    [
        lambda watchdog: watchdog.stepped(8),
        lambda watchdog: watchdog.saved(8),
        lambda watchdog: watchdog.enter(EVALUATING),
    ],
)
def test_the_bound_of_a_step_begins_anew(tell):
    task = Task(TRAINING).at(STEP - 1)
    tell(task.watchdog)
    assert task.at(2 * STEP - 2).codes == []


@pytest.mark.parametrize('bounds, code', [(dict(step=60), 195), (dict(grace=60), 196)])
def test_a_pause_of_this_process_is_no_slow_step(bounds, code):
    """It was stopped, its machine was suspended, or C code has held Python's global lock."""
    now, codes = 0, []
    watchdog = watchdogs.Watchdog(
        'worker:1',
        watchdogs.Bounds(**{'step': STEP, 'grace': STEP, **bounds}),
        {},
        peers.AwakeClock(lambda: now),
        codes.append,
    )
    watchdog.stepped(7)
    if code == 196:
        watchdog._received(TERM)
    for now in [*range(50), *range(10_000, 10_004)]:
        watchdog._end_if_due()
    assert codes == []
    for now in range(10_004, 10_050):
        watchdog._end_if_due()
    assert codes == [code]


def test_training_goes_on_after_an_evaluation():
    task = Task(EVALUATING)
    task.watchdog.stepped(8)
    assert task.signal(TERM).codes == []
    assert task.at(STEP).codes == [196]


def test_stacks_of_a_step_that_does_not_end(capfd):
    Task(TRAINING).at(STEP)
    assert 'test_stacks_of_a_step_that_does_not_end' in capfd.readouterr().err


def test_the_stack_of_the_main_thread_is_there_among_hundreds(capfd):
    go = threading.Event()
    threads = [threading.Thread(target=go.wait, args=(60,)) for _ in range(150)]
    for thread in threads:
        thread.start()
    ending.print_stacks()
    go.set()
    for thread in threads:
        thread.join()
    assert 'test_the_stack_of_the_main_thread_is_there_among_hundreds' in capfd.readouterr().err


def test_the_last_line_and_the_error_file(tmp_path, capsys):
    path = tmp_path / 'error.json'
    task = Task(TRAINING, {protocol.ERROR_FILE: str(path)})
    task.watchdog.saved(6)
    task.signal(TERM).at(GRACE)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith('worker:1, step 7: the last step was not saved within 25 s of SIGTERM')
    assert 'at step 6' in line and '[exit code 196: ' in line
    told = json.loads(path.read_text())
    assert (told['task'], told['code'], told['step'], told['peer']) == ('worker:1', 196, 7, None)


def test_a_task_ends_once(capsys):
    task = Task(TRAINING).lose(True)
    task.watchdog.end(ending.End(1, 'too late'))
    task.at(10**6).signal(TERM)
    assert task.codes == [193]
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_main_thread_says_it_first():
    task = Task(TRAINING)
    task.watchdog.end(ending.End(70, 'NaN'))
    assert task.lose(True).codes == []


def test_a_reader_that_is_gone_does_not_keep_the_task(monkeypatch, tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, 'w') as broken:
        monkeypatch.setattr(sys, 'stderr', broken)
        task = Task(TRAINING, {protocol.ERROR_FILE: str(tmp_path / 'error.json')}).lose(True)
        monkeypatch.undo()
        with contextlib.suppress(BrokenPipeError):
            broken.close()
    assert task.codes == [193] and (tmp_path / 'error.json').exists()


class Board:
    """A task whose training.json can be read."""

    def __init__(self, folder, phase=STARTING, **environ):
        self.path = folder / 'training.json'
        self.task = Task(phase, environ)
        self.task.watchdog.write_training_file(str(self.path.parent), 100)

    def read(self):
        return json.loads(self.path.read_text())


def test_the_board_says_what_is_known(tmp_path):
    keys = ('state', 'step', 'max_steps', 'checkpoint_step', 'examples_per_sec', 'generation', 'beat')
    board = Board(tmp_path, **{protocol.GENERATION: 'g1'})
    assert [board.read()[key] for key in keys] == [STARTING, None, 100, None, None, 'g1', 1]
    watchdog = board.task.watchdog
    watchdog.resumes_at(0)
    watchdog._write_training_file()
    assert [board.read()[key] for key in keys] == [STARTING, None, 100, None, None, 'g1', 2]
    watchdog.resumes_at(6)
    watchdog.trains_from(6)
    watchdog._write_training_file()
    assert [board.read()[key] for key in keys] == [TRAINING, 6, 100, 6, None, 'g1', 3]
    watchdog.stepped(8)
    watchdog.saved(7)
    watchdog.heard_rate(12.5)
    watchdog._write_training_file()
    assert [board.read()[key] for key in keys] == [TRAINING, 8, 100, 7, 12.5, 'g1', 4]


def test_the_board_tells_how_much_of_the_data_is_prepared(tmp_path):
    watchdog = Task().watchdog
    watchdog.write_training_file(str(tmp_path), None)
    for amount in (None, 7, None):
        watchdog.heard_prepared(amount)
        watchdog._write_training_file()
        assert protocol.read_json(tmp_path / 'training.json').get('prepared') == amount


def test_the_board_tells_of_waits_and_peers(tmp_path):
    board = Board(tmp_path)
    assert not {'input_wait_secs', 'peer_silence_secs'} & set(board.read())
    watchdog = board.task.watchdog
    watchdog.hear_waits(lambda: {'input_wait_secs': 1.5})
    watchdog._peers = types.SimpleNamespace(silences=lambda: {'worker:1': 0.5})
    watchdog._write_training_file()
    assert board.read()['input_wait_secs'] == 1.5 and board.read()['peer_silence_secs'] == {'worker:1': 0.5}


@pytest.mark.parametrize(
    'phase, state', [(STARTING, STARTING), (TRAINING, TRAINING), (CLOSING, TRAINING), (EVALUATING, EVALUATING)]
)
def test_states_of_the_board(tmp_path, phase, state):
    assert Board(tmp_path, phase).read()['state'] == state in training_file.STATES


@pytest.mark.parametrize('state, why', [(training_file.ENDED, 'max_steps'), (training_file.STOPPED, None)])
def test_what_is_final_stays(tmp_path, state, why):
    board = Board(tmp_path, TRAINING)
    board.task.watchdog.finish(state, why)
    board.task.watchdog.enter(EVALUATING)
    board.task.watchdog._write_training_file()
    told = board.read()
    assert (told['state'], told['why'], told['beat']) == (state, why, 3)


@pytest.mark.parametrize(
    'phase, end, state',
    [
        (STARTING, lambda task: task.signal(TERM), training_file.STOPPED),
        (EVALUATING, lambda task: task.signal(INT), training_file.STOPPED),
        (TRAINING, lambda task: task.signal(TERM).at(GRACE), TRAINING),  # not saved: a failure
        (TRAINING, lambda task: task.lose(True), TRAINING),
        (TRAINING, lambda task: task.at(STEP), TRAINING),
    ],
)
def test_how_the_board_ends(tmp_path, phase, end, state):
    board = Board(tmp_path, phase)
    codes = end(board.task).codes
    told = board.read()
    assert (told['state'], told['exit']['code']) == (state, *codes)
    assert told['exit']['message'] and told['step'] == board.task.watchdog.step


def test_without_a_board_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Task(TRAINING).watchdog.finish(training_file.ENDED)
    assert os.listdir(tmp_path) == []


@pytest.fixture
def live():
    """live() -> a watchdog with its threads, in this process; nothing is left of it at the end."""
    handlers = [signal.getsignal(signum) for signum in (INT, TERM)]
    with contextlib.ExitStack() as stack:
        codes = []
        yield lambda **kwargs: types.SimpleNamespace(
            codes=codes,
            watchdog=stack.enter_context(
                watchdogs.Watchdog('worker:1', watchdogs.Bounds(), {}, leave=codes.append, **kwargs)
            ),
        )
    assert [signal.getsignal(signum) for signum in (INT, TERM)] == handlers
    assert signal.set_wakeup_fd(-1) == -1
    until(lambda: not {'watchdog', 'peers'} & {thread.name for thread in threading.enumerate()})


def test_after_it_the_handlers_are_as_they_were():
    actions = [signal_inbox.c_action(signum)[:8] for signum in (INT, TERM)]
    for _ in range(20):
        with watchdogs.Watchdog('worker:1', watchdogs.Bounds(), {}, leave=lambda code: None):
            assert [signal_inbox.c_action(signum)[:8] for signum in (INT, TERM)] != actions
        assert [signal_inbox.c_action(signum)[:8] for signum in (INT, TERM)] == actions


def test_the_board_beats(live, tmp_path, monkeypatch):
    monkeypatch.setattr(training_file, 'BEAT_SECS', 0)
    monkeypatch.setattr(signal_inbox, 'LOOK_SECS', 0.01)
    live().watchdog.write_training_file(str(tmp_path), 100)
    until(lambda: protocol.read_json(str(tmp_path / 'training.json'))['beat'] > 3)


def test_lost_peers_are_looked_for(live, monkeypatch):
    monkeypatch.setattr(watchdogs, 'PEERS_EVERY_SECS', 0.01)
    monkeypatch.setattr(signal_inbox, 'LOOK_SECS', 0.01)
    monkeypatch.setattr(peers, 'RETRY_SECS', 0)
    monkeypatch.setattr(peers, 'every_secs', lambda *numbers: 0)
    there, asked = {'host:1'}, []

    def probe(addresses):
        asked.append(addresses)
        return {address: Answer.GREETS if address in there else Answer.SILENT for address in addresses}

    task = live()
    task.watchdog.watch_peers(peers.PeerWatch({'worker:0': 'host:1'}, 60, 0.05, probe=probe))
    until(lambda: len(asked) > 2)
    assert task.codes == [] and task.watchdog.missing_peers() == []
    there.clear()
    until(lambda: task.codes)
    assert task.codes == [193]
    assert [peer.name for peer in task.watchdog.missing_peers()] == ['worker:0']


def test_released_peers_are_not_asked(live, monkeypatch):
    monkeypatch.setattr(watchdogs, 'PEERS_EVERY_SECS', 0.01)
    asked = []
    task = live()
    task.watchdog.watch_peers(
        peers.PeerWatch(
            {'worker:0': 'host:1'},
            60,
            60,
            probe=lambda addresses: asked.append(addresses) or dict.fromkeys(addresses, Answer.SILENT),
        )
    )
    until(lambda: asked)
    task.watchdog.release_peers()
    until(lambda: 'peers' not in {thread.name for thread in threading.enumerate()})
    assert task.watchdog.missing_peers() == [] and task.codes == []


def test_a_signal_in_this_process(live):
    task = live()
    task.watchdog.stepped(3)
    os.kill(os.getpid(), TERM)
    until(lambda: task.watchdog.signum == TERM)
    assert task.codes == []
    task.watchdog.enter(EVALUATING)
    assert task.codes == [143]


PROGRAM = """
import ctypes, signal, sys
from estimator_trainer.lifecycle import watchdog, signal_inbox
assert 'tensorflow' not in sys.modules
libc = ctypes.CDLL(None)
def hang():  # as in session.run: no Python runs here, and no signal ends it
    mutex = ctypes.create_string_buffer(128)
    libc.pthread_mutex_lock(mutex)
    print('ready', flush=True)
    libc.pthread_mutex_lock(mutex)
with watchdog.Watchdog('worker:1', watchdog.Bounds(grace=float(sys.argv[1]))) as line:
    exec(sys.argv[2])
"""


@contextlib.contextmanager
def program(body, grace=BOUND_SECS, ignored=(), **environ):
    """A process in a watchdog, which has printed 'ready'."""

    def prepare():
        for signum in (INT, TERM):
            signal.signal(signum, signal.SIG_IGN if signum in ignored else signal.SIG_DFL)

    process = subprocess.Popen(
        [sys.executable, '-c', PROGRAM, str(grace), body],
        cwd=ROOT,
        text=True,
        preexec_fn=prepare,
        env={**os.environ, **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    timer = threading.Timer(BOUND_SECS, os.killpg, (process.pid, signal.SIGKILL))
    timer.start()
    try:
        assert process.stdout.readline() == 'ready\n', process.communicate()
        yield process
    finally:
        timer.cancel()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.parametrize('signum, code', [(INT, 130), (TERM, 143)])
def test_a_signal_at_start_up_while_the_main_thread_is_stuck(signum, code):
    with program('hang()') as process:
        process.send_signal(signum)
        _, error = process.communicate()
    assert process.returncode == code
    name = 'Ctrl-C' if signum == INT else signum.name
    assert error.splitlines()[-1].startswith(f'worker:1: stopped by {name};'), error


def test_a_signal_that_is_not_obeyed_and_one_that_insists(tmp_path):
    with (
        program('line.stepped(7); hang()', grace=0.1) as slow,
        program('line.stepped(7); hang()', **{protocol.ERROR_FILE: str(tmp_path / 'error')}) as process,
    ):
        slow.send_signal(TERM)
        process.send_signal(TERM)
        _, error = slow.communicate()
        assert (slow.returncode, 'not saved within 0.1 s of' in error) == (196, True)
        assert process.poll() is None  # its grace period is longer
        process.send_signal(INT)
        process.communicate()
    assert process.returncode == 196
    assert protocol.read_json(str(tmp_path / 'error'))['step'] == 7


def test_the_main_thread_sees_the_signal_and_decides():
    with program("""
line.stepped(7)
print('ready', flush=True)
import time
while line.signum is None: time.sleep(.01)
sys.exit(int(line.signum))
""") as process:
        process.send_signal(TERM)
        process.communicate()
    assert process.returncode == TERM


def test_a_signal_that_was_ignored_stays_ignored():
    with program('hang()', ignored=[INT]) as process:
        for _ in range(3):
            process.send_signal(INT)
        with open(f'/proc/{process.pid}/status') as file:
            (ignored,) = [line for line in file if line.startswith('SigIgn')]
        assert int(ignored.split()[1], 16) >> INT - 1 & 1
        process.send_signal(TERM)
        process.communicate()
    assert process.returncode == 143


STEAL = "libc.signal(signal.SIGTERM, ctypes.c_void_p(1))  # SIG_IGN, behind Python's back"


def test_a_stolen_handler_does_not_swallow_the_signal():
    with program(f'with line.shielded():\n  {STEAL}\n  hang()') as process:
        process.send_signal(TERM)
        process.communicate()
    assert process.returncode == 143


def test_a_stolen_handler_is_taken_back():
    """A signal that is not blocked in every thread is not there to be seen later."""
    with program(f"""
import time
{STEAL}
while signal_inbox.c_action(signal.SIGTERM)[:8] == bytes([1] + 7 * [0]): time.sleep(.01)
hang()
""") as process:
        process.send_signal(TERM)
        process.communicate()
    assert process.returncode == 143


def test_a_signal_in_the_shield_is_one_signal():
    """It is seen twice: while it waits, and when it is let through. After the shield all is as before."""
    with program(f"""
import os, time
line.stepped(7)
with line.shielded():
    {STEAL}
    os.kill(os.getpid(), signal.SIGTERM)
    while line.signum is None: time.sleep(.01)
while line._inbox._seen_early: time.sleep(.01)  # until it has come again
assert not line._state.insisted
print('ready', flush=True)
hang()
""") as process:
        process.send_signal(INT)  # now the second
        _, error = process.communicate()
    assert process.returncode == 196, error
    assert 'second' in error.splitlines()[-1]


def test_stacks_are_dumped_when_asked_for():
    with program('hang()') as process:
        process.send_signal(signal.SIGUSR1)
        lines = []
        while 'Current thread' not in ''.join(lines) or '<string>' not in lines[-1]:
            lines.append(process.stderr.readline())
            assert lines[-1], lines
        assert any('_watch' in line for line in lines) and any('in hang' in line for line in lines)
        assert process.poll() is None
        process.send_signal(TERM)
        process.communicate()
    assert process.returncode == 143


def test_nobody_reads_what_the_task_prints():
    with program('hang()') as process:
        process.stderr.close()
        process.stdout.close()
        process.stdout = process.stderr = None
        process.send_signal(TERM)
        assert process.wait(BOUND_SECS) == 143


def waiting_bytes(pipe):
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def test_somebody_reads_no_more_of_what_the_task_prints():
    with program(
        """
import logging
from estimator_trainer.lifecycle import ending
ending.READER_SECS = .1
logging.getLogger('estimator_trainer').addHandler(logging.StreamHandler())
logging.getLogger('estimator_trainer').setLevel(logging.INFO)
line.stepped(7)
print('ready', flush=True)
import os
while True: os.write(2, b'x')
""",
        grace=0.1,
    ) as process:
        until(lambda: waiting_bytes(process.stderr) == fcntl.fcntl(process.stderr, fcntl.F_GETPIPE_SZ))
        process.send_signal(TERM)
        assert process.wait(BOUND_SECS) == 196


def test_requests_for_a_profile_reach_who_makes_it():
    task, asked = Task(), []
    task.watchdog._ask_for_a_profile()  # early: nobody makes profiles yet
    task.watchdog.when_asked_to_profile(lambda: asked.append('early'))
    assert asked == ['early']
    task.watchdog._ask_for_a_profile()
    assert asked == ['early', 'early'] and task.codes == [] and task.watchdog.signum is None


def test_a_request_for_a_profile_in_this_process(live):
    task, asked = live(), threading.Event()
    task.watchdog.when_asked_to_profile(asked.set)
    os.kill(os.getpid(), signal.SIGUSR2)
    assert asked.wait(BOUND_SECS) and task.codes == []
