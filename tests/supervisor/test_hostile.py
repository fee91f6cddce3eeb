"""Consoles that nobody reads, and tasks that print without end."""

import signal

import pytest

from tests.processes import until

BOUND_SECS = 120

TALKATIVE = """
pad=$(printf '%0200d' 0)
talk() { yes "line of $who in $attempt $pad" | head -n 40000; }  # 9 MB: more than any buffer holds
"""
LINES = 40_000


def line(who, attempt):
    return f'line of {who} in {attempt} {"0" * 200}'


@pytest.mark.parametrize('signum, expected', [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_console_that_nobody_reads_holds_up_nothing(cluster, signum, expected):
    """Both streams are pipes that are never read: a killed worker is still followed by a restart, which is stopped."""
    run = cluster(
        TALKATIVE
        + """
        trap 'exit 143' TERM
        talk
        here $attempt-$who
        wait_for $attempt-worker:0 $attempt-worker:1
        [ $attempt-$who = 1-worker:1 ] && kill -9 $$
        while :; do sleep .02; done
        """,
        '--noevaluator',
        DRAIN_SECS='1',
    )
    for who in ('worker:0', 'worker:1'):
        until(lambda: (run.folder / f'here-2-{who}').exists())
    run.popen.send_signal(signum)
    code = run.popen.wait(BOUND_SECS)  # nothing has been read so far
    assert code == expected
    assert [attempt['workers'] for attempt in run.report['attempts']] == [2, 2]
    for attempt in (1, 2):
        for who in (0, 1):
            log = run.folder / 'model' / 'logs' / f'attempt-{attempt}' / f'worker-{who}.out'
            assert log.read_text() == f'{line(f"worker:{who}", attempt)}\n' * LINES


def test_a_reader_who_comes_late_is_told_what_is_left_out(one_worker):
    run = one_worker(TALKATIVE + 'talk; here $who; wait_for go')
    until(lambda: (run.folder / 'here-worker:0').exists())
    (run.folder / 'here-go').touch()
    run.finish()
    assert run.code == 0, run.err
    whole = run.out.splitlines().count(f'[worker:0] {line("worker:0", 1)}')
    assert whole < LINES
    assert f'[cluster] {LINES - whole} lines are left out here, because this console was not read in time; ' in run.out
    assert f'they are in the log files in {run.folder}/model/logs' in run.out


def test_a_log_and_the_attempts_are_bounded(one_worker):
    run = one_worker(
        TALKATIVE + '[ $attempt = 1 ] || talk; echo the end; [ $attempt = 4 ] || exit 196',
        '--max_log_mb=1',
        '--keep_attempts=2',
    ).finish()
    assert run.code == 0, run.err
    logs = run.folder / 'model' / 'logs'
    assert sorted(path.name for path in logs.iterdir()) == ['attempt-3', 'attempt-4']
    newest, older = (logs / 'attempt-4' / name for name in ('worker-0.out', 'worker-0.out.1'))
    _, *lines, last = (older.read_text() + newest.read_text()).splitlines()
    assert set(lines) == {line('worker:0', 4)} and last == 'the end'
    assert newest.stat().st_size + older.stat().st_size <= 1 << 20
    assert len(run.said(f'{logs}: the oldest logs are removed (attempt-1), the newest 2')) == 1
    said = [line for line in run.out.splitlines() if line.startswith('[cluster]') and '--max_log_mb=1' in line]
    assert len(said) == 3
