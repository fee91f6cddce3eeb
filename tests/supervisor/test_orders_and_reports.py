"""Whole runs: signals to the supervisor, preemption, stalls, fewer workers, and what the status and the report say."""

import signal

import pytest

from tests.processes import until

ONE = ('--workers=1', '--noevaluator')


def test_a_preempted_gang_saves_and_is_restarted(cluster):
    run = cluster(
        """
        [ $attempt = 2 ] && exit 0
        [ $who = worker:1 ] && wait_for worker:0 && exit 143
        trap 'exit 143' TERM
        here worker:0
        while :; do sleep .02; done
        """,
        '--noevaluator',
    ).finish()
    assert run.code == 0, run.err
    assert [task['code'] for task in run.report['attempts'][0]['tasks']] == [143, 143]
    assert run.said('stopping worker:0 (SIGTERM, SIGKILL after 30 s)')


def test_a_stalled_gang_shows_its_stacks_and_is_restarted(cluster):
    run = cluster(
        """
        [ $attempt != 1 ] && exit 0
        trap 'echo the stacks of $who >&2' USR1
        here $who
        if [ $who = worker:0 ]; then
          board evaluating 490 490  # takes as long as it takes
          wait_for worker:1 evaluator:0
          board training 500 490
        fi
        while :; do sleep .05; done
        """,
        '--stall_timeout=10',
        STACKS_SECS='10',
    ).finish()
    assert run.code == 0, run.err
    for who in ('worker:0', 'worker:1', 'evaluator:0'):
        assert f'[{who}] the stacks of {who}' in run.err
    first = run.report['attempts'][0]
    assert (first['why'], first['cause']['code'], first['cause']['task']) == ('stalled', 195, None)
    assert {task['how'] for task in first['tasks']} == {'killed by the supervisor'}
    assert run.said('no step was finished in 10 s (--stall_timeout); printing the stacks of worker:0')
    assert first['steps_lost'] == 10


@pytest.mark.parametrize('signum, code', [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_the_back_off_at_once(one_worker, signum, code):
    run = one_worker('exit 196', '--backoff_secs=50')
    until(lambda: run.status and run.status['state'] == 'backing_off')
    assert [(task['pid'], task['state']) for task in run.status['tasks']] == [(None, 'failed')]
    run.popen.send_signal(signum)
    run.finish()
    assert run.code == run.report['exit_code'] == code
    assert len(run.report['attempts']) == 1
    assert (run.status['state'], run.status['exit_code']) == ('stopped', code)


def test_a_signal_while_the_gang_runs_is_not_followed_by_a_restart(cluster):
    run = cluster("trap 'exit 143' TERM; here $who; while :; do sleep .02; done", '--noevaluator')
    until(lambda: (run.folder / 'here-worker:1').exists())
    until(lambda: (run.folder / 'here-worker:0').exists())
    run.popen.send_signal(signal.SIGTERM)
    run.finish()
    assert run.code == 143
    assert len(run.report['attempts']) == 1
    assert run.report['attempts'][0]['signal'] == 'SIGTERM'
    assert run.report['attempts'][0]['decision'] is None


@pytest.mark.parametrize(
    'script, code, says',
    [
        ('', 130, 'there is no checkpoint, so the same command begins anew'),
        (
            'board training 41 40; echo \'model_checkpoint_path: "model.ckpt-40"\' > model/checkpoint',
            196,
            'the same command goes on from the checkpoint at step 40',
        ),
    ],
)
def test_a_second_ctrl_c_says_what_is_on_the_disk(cluster, script, code, says):
    run = cluster(
        f"trap 'here told' INT; {script}\nhere $who; while :; do sleep .02; done", '--workers=1', '--noevaluator'
    )
    until(lambda: (run.folder / 'here-worker:0').exists())
    run.popen.send_signal(signal.SIGINT)
    until(lambda: (run.folder / 'here-told').exists())
    run.popen.send_signal(signal.SIGINT)
    run.finish()
    assert run.code == run.report['exit_code'] == code, run.err
    assert 'saved' not in run.said('end: ')[0].replace('ended before its last step was saved', '')
    assert run.said('end: ')[0].partition('; ')[2].startswith(says)
    assert run.said('a second Ctrl-C kills them at once')


def test_a_signal_while_the_gang_is_being_stopped_is_heard_too(cluster):
    run = cluster(
        """
        [ $who = worker:1 ] && wait_for worker:0 && exit 143
        trap 'here termed' TERM
        here worker:0
        while :; do sleep .02; done
        """,
        '--noevaluator',
        '--grace_secs=600',
    )
    until(lambda: (run.folder / 'here-termed').exists())
    run.popen.send_signal(signal.SIGTERM)
    until(lambda: run.status['state'] == 'stopping')
    run.popen.send_signal(signal.SIGINT)  # the second kills at once
    run.finish()
    assert run.code in (143, 130)  # whichever was seen first
    assert len(run.report['attempts']) == 1


@pytest.mark.parametrize(
    'flags, batch_size, workers', [((), 64 * 3 // 2, 2), (('--batch_size=5',), 15, 1), (('--batch_size', '6'), 9, 2)]
)
def test_fewer_workers_keep_the_global_batch(cluster, flags, batch_size, workers):
    run = cluster(
        """
        [ $attempt = 3 ] && echo "$*" && exit 0
        [ $who = worker:2 ] && kill -9 $$
        for_ever
        """,
        '--workers=3',
        '--noevaluator',
        '--min_workers=1',
        trainer_flags=('--model_dir=model', *flags),
    ).finish()
    assert run.code == 0, run.err
    assert [attempt['workers'] for attempt in run.report['attempts']] == [3, 3, workers]
    lines = [line for line in run.out.splitlines() if line.endswith(f' --batch_size={batch_size}')]
    assert len(lines) == workers
    assert run.said(f'worker:2 is given up: going on with {workers} worker(s)')


def test_a_batch_that_does_not_divide_keeps_the_workers(cluster):
    run = cluster(
        '[ $attempt = 3 ] && exit 0; [ $who = worker:2 ] && kill -9 $$; for_ever',
        '--workers=3',
        '--noevaluator',
        '--min_workers=2',
        trainer_flags=('--model_dir=model', '--batch_size=5'),
    ).finish()
    assert run.code == 0, run.err
    assert [attempt['workers'] for attempt in run.report['attempts']] == [3, 3, 3]
    assert run.said('shares the global batch of 15 evenly')


def test_a_second_supervisor_is_refused(one_worker):
    run = one_worker('here $who; for_ever')
    until(lambda: (run.folder / 'here-worker:0').exists())
    second = one_worker('exit 0').finish()
    assert second.code == 64
    assert second.err == (
        'error: --model_dir=model: another run_local_cluster.sh '
        f'(pid {run.popen.pid}) is at work there; wait for its end, or give another folder\n'
    )
    run.popen.kill()
    run.finish()
    assert one_worker('exit 0').finish().code == 0


def test_the_status_while_it_runs(cluster):
    run = cluster(
        """
        [ $who = worker:0 ] && board training 30 20
        here $who; wait_for go
        [ $who = worker:0 ] && board ended 100 100
        exit 0
        """
    )
    status = until(lambda: run.status and run.status['step'] and run.status)
    assert (status['state'], status['attempt'], status['restarts']) == ('training', 1, 0)
    assert (status['step'], status['max_steps'], status['checkpoint_step']) == (30, 100, 20)
    assert status['generation'].startswith('1-')
    assert status['log_dir'].endswith('model/logs/attempt-1')
    assert [task['name'] for task in status['tasks']] == ['worker:0', 'worker:1', 'evaluator:0']
    for task in status['tasks']:
        assert task['state'] == 'running' and task['pid'] > 0
        assert task['address'].startswith('127.0.0.1:')
    (run.folder / 'here-go').touch()
    assert run.finish().code == 0
    assert (run.status['state'], run.status['exit_code'], run.status['step']) == ('done', 0, 100)
    assert run.report['attempts'][0]['steps_lost'] == 0


def test_an_old_report_does_not_outlive_its_run(one_worker, tmp_path):
    (tmp_path / 'model' / 'report.json').write_text('{}')
    run = one_worker('here $who; for_ever')
    until(lambda: (run.folder / 'here-worker:0').exists())
    assert run.report is None


def test_the_report_has_every_start_of_the_run(cluster):
    """The first start is told to stop, the second is killed with its supervisor, the third is done."""
    save = 'echo \'model_checkpoint_path: "model.ckpt-20"\' > model/checkpoint'
    run = cluster(f"trap 'exit 143' TERM; board training 30 20; {save}; here $who; while :; do sleep .02; done", *ONE)
    until(lambda: (run.folder / 'here-worker:0').exists() and run.status and run.status['step'])
    run.popen.send_signal(signal.SIGTERM)
    first = run.finish().report
    assert (first['start'], first['earlier_starts']) == (1, [])

    run = cluster('reports 44; board training 40 20; for_ever', *ONE)
    until(lambda: run.status['start'] == 2 and run.status['step'] == 40)
    assert run.report is None and run.status['checkpoint_before'] == 20
    run.popen.kill()
    run.finish()

    run = cluster('[ $attempt = 1 ] && exit 196; board ended 100 100', *ONE).finish()
    assert run.code == 0, run.err
    report = run.report
    assert (report['start'], report['restarts'], [each['attempt'] for each in report['attempts']]) == (3, 1, [1, 2])
    told, killed = report['earlier_starts']
    assert told == {name: value for name, value in first.items() if name != 'earlier_starts'}
    assert (killed['start'], killed['exit_code'], killed['restarts']) == (2, None, 0)
    (lost,) = killed['attempts']
    assert (lost['why'], lost['step'], lost['checkpoint_before'], lost['steps_lost']) == ('lost', 44, 20, 24)
    assert [attempt['attempt'] for attempt in run.status['attempts']] == [1, 2]


def test_a_status_that_cannot_be_written_stops_nothing(one_worker):
    run = one_worker('rm -r model').finish()
    assert run.code == 0, run.err
    assert run.said('report.json cannot be written: No such file or directory; the run goes on')


def test_without_a_model_dir_it_runs_all_the_same(one_worker):
    run = one_worker('[ $attempt = 2 ] && exit 0; kill -9 $$', trainer_flags=()).finish()
    assert run.code == 0, run.err
    folders = [line.rpartition(' ')[2] for line in run.said('logs in')]
    assert [folder.rpartition('/')[2] for folder in folders] == ['attempt-1', 'attempt-2']
    assert len({folder.rpartition('/')[0] for folder in folders}) == 1
