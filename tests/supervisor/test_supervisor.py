"""Whole runs: who is restarted, where, how often, and what is said of it."""

import json
import re
import signal

import pytest

from estimator_trainer.supervisor.policy.causes import GangEndKind
from estimator_trainer.supervisor.policy.restarts import Rules
from tests.processes import until
from tests.supervisor import fakes
from tests.supervisor.fakes import Task

PERMANENT = [64, 65, 66, 70, 71, 74, 2]
ONE = ('--workers=1', '--noevaluator')


def cause(run, attempt=-1):
    return run.report['attempts'][attempt]['cause']


def test_a_failure_restarts_the_whole_gang_elsewhere(cluster):
    run = cluster(
        """
        printf '%s|%s|%s|%s|%s\\n' $attempt $who "$TF_CONFIG" \
          $ESTIMATOR_TRAINER_GENERATION $ESTIMATOR_TRAINER_STARTED > env-$attempt-$who
        here $attempt-$who
        [ $attempt = 2 ] && exit 0
        [ $who = worker:1 ] && wait_for 1-worker:0 1-evaluator:0 && kill -9 $$
        for_ever
        """
    ).finish()
    assert run.code == 0, run.err
    told = [path.read_text().strip().split('|') for path in run.folder.glob('env-*')]
    assert len(told) == 6
    addresses = {1: set(), 2: set()}
    for attempt, _, tf_config, generation, started in told:
        assert (run.folder / 'model' / 'logs' / f'attempt-{attempt}').is_dir()
        assert re.fullmatch(rf'{attempt}-[0-9a-f]{{8}}', generation)
        for those in json.loads(tf_config)['cluster'].values():
            addresses[int(attempt)].update(those)
    assert len(addresses[1]) == len(addresses[2]) == 3
    assert not addresses[1] & addresses[2]
    assert len({generation for *_, generation, _ in told}) == 2
    assert len({started for *_, started in told}) == 1

    first, second = run.report['attempts']
    assert first['generation'] != second['generation']
    assert set(first['addresses'].values()) == addresses[1]
    assert (first['why'], second['why']) == ('failed', 'done')
    assert first['cause']['task'] == 'worker:1'
    assert (first['cause']['code'], first['decision']) == (137, 'restart')
    ends = {task['name']: (task['signal'], task['how']) for task in first['tasks']}
    assert ends == {
        'worker:1': ('SIGKILL', 'by itself'),
        'worker:0': ('SIGKILL', 'killed by the supervisor'),
        'evaluator:0': ('SIGKILL', 'killed by the supervisor'),
    }
    assert run.said('restart 1 of 3 in 0.0 s, from the beginning: worker:1, SIGKILL')


def test_a_run_that_is_part_of_a_longer_one_hands_its_beginning_on(one_worker):
    script = 'echo $ESTIMATOR_TRAINER_STARTED $ESTIMATOR_TRAINER_ISOLATED$ESTIMATOR_TRAINER_GENERATION'
    run = one_worker(
        script, ESTIMATOR_TRAINER_STARTED='12.5', ESTIMATOR_TRAINER_ISOLATED='1', ESTIMATOR_TRAINER_GENERATION='theirs'
    ).finish()
    assert re.fullmatch(r'\[worker:0\] 12\.5 1-\w+\n', run.out)


@pytest.mark.parametrize('code', PERMANENT)
def test_a_permanent_code_is_not_retried(code):
    supervisor = fakes.Supervisor({'worker:0': Task(code)})
    assert supervisor.run() == code
    assert len(supervisor.outcomes) == 1
    assert f'no restart: exit code {code} is permanent' in supervisor.console.text


def test_a_run_that_is_not_retried(one_worker):
    run = one_worker('exit 64').finish()
    assert run.code == 64
    assert len(run.report['attempts']) == 1
    assert run.said('no restart: exit code 64 is permanent')
    assert run.status['state'] == 'failed'


def test_when_the_restarts_are_spent_the_code_says_so(one_worker):
    run = one_worker('exit 196', '--max_restarts=2').finish()
    assert run.code == 197
    assert len(run.report['attempts']) == 3
    assert [attempt['decision'] for attempt in run.report['attempts']] == [
        'restart',
        'restart',
        'the restarts are spent: 2 were made without a new checkpoint (--max_restarts)',
    ]
    assert (cause(run)['task'], cause(run)['code']) == ('worker:0', 196)
    assert run.said('restart 2 of 2') and run.said('last cause: worker:0, exit code 196')
    assert run.report['exit_code'] == 197
    assert run.report['meaning'] == 'failed more often than --max_restarts allows'


def test_without_restarts_the_code_is_that_of_the_cause():
    supervisor = fakes.Supervisor({'worker:0': Task(-9)}, rules=Rules(max_restarts=0))
    assert supervisor.run() == 137
    assert 'no restart: --max_restarts=0' in supervisor.console.text


def test_a_restart_begins_anew_with_all_tasks():
    tasks = {'worker:0': Task(), 'worker:1': Task(-9)}
    supervisor = fakes.Supervisor(tasks, {'worker:0': Task(0), 'worker:1': Task(0)})
    assert supervisor.run() == 0
    assert [outcome.end.kind for outcome in supervisor.outcomes] == [GangEndKind.FAILED, GangEndKind.DONE]
    assert 'restart 1 of 3 in 0.0 s, from the beginning: worker:1, SIGKILL' in supervisor.console.text


def test_after_a_fall_back_progress_counts_from_the_older_checkpoint(one_worker):
    """Gang 1 leaves step 80, which is damaged; gang 2 falls back to 40; each of the next saves further."""
    run = one_worker(
        """
        set -- 80 40 60 80
        [ $attempt = 5 ] && exit 0
        shift $((attempt - 1))
        board training $(($1 + 3)) $1
        echo "model_checkpoint_path: \\"model.ckpt-$1\\"" > model/checkpoint
        exit 196
        """,
        '--max_restarts=2',
    ).finish()
    assert run.code == 0, run.err
    attempts = run.report['attempts']
    assert [attempt['checkpoint_before'] for attempt in attempts] == [None, 80, 40, 60, 80]
    assert [attempt['checkpoint_step'] for attempt in attempts] == [80, 40, 60, 80, 80]
    assert run.said('restart 2 of 2 in') and run.said('from the checkpoint at step 40')


def test_a_new_checkpoint_gives_the_restarts_back(one_worker):
    run = one_worker(
        """
        [ $attempt = 5 ] && exit 0
        board training $((attempt * 10 + 3)) $((attempt * 10))
        exit 196
        """,
        '--max_restarts=1',
    ).finish()
    assert run.code == 0, run.err
    assert [attempt['steps_lost'] for attempt in run.report['attempts']][:4] == [3, 3, 3, 3]
    assert [attempt['checkpoint_step'] for attempt in run.report['attempts']] == [10, 20, 30, 40, 40]
    assert len(run.said('restart 1 of 1')) == 4
    assert run.said('restart 1 of 1 in 0.0 s, from the checkpoint at step 20: worker:0')
    assert run.said('3 steps are lost: step 23 was done, the last checkpoint is of step 20')


def test_checkpoints_of_others_give_nothing_back(one_worker):
    run = one_worker(
        """
        ESTIMATOR_TRAINER_GENERATION=another
        board training $((attempt * 10)) $((attempt * 10))
        exit 196
        """,
        '--max_restarts=1',
    ).finish()
    assert run.code == 197


def test_an_exception_is_tried_once_again(one_worker):
    script = 'board training 7 5; error 1 7 "ValueError: no" null'
    run = one_worker(script).finish()
    assert run.code == 1
    assert len(run.report['attempts']) == 2
    assert run.said('no restart: the same exception again')
    assert run.said('worker:0 says: ValueError: no')
    assert '[cluster]   |   boom' in run.err
    assert cause(run)['message'] == 'ValueError: no'
    assert cause(run)['traceback'] == ['Traceback:', '  boom']


def test_an_evaluator_is_restarted_alone(cluster):
    run = cluster(
        """
        if [ $who = evaluator:0 ]; then
          echo life $life $TF_CONFIG >&2
          [ $life = 2 ] && here evaluator-2 && exit 0
          exit 71
        fi
        wait_for evaluator-2
        echo $ESTIMATOR_TRAINER_GENERATION
        """
    ).finish()
    assert run.code == 0, run.err
    assert (len(run.report['attempts']), run.report['task_restarts'], run.status['task_restarts']) == (1, 1, 1)
    logs = run.folder / 'model' / 'logs' / 'attempt-1'
    first, second = ((logs / f'evaluator-0{life}.err').read_text() for life in ('', '.2'))
    assert first.replace('life 1', 'life 2') == second  # the same address
    ends = [(task['name'], task['life'], task['code']) for task in run.report['attempts'][0]['tasks']]
    assert ('evaluator:0', 1, 71) in ends and ('evaluator:0', 2, 0) in ends
    assert run.said('restarting it alone, 1 of 3, in 0.0 s')


@pytest.mark.parametrize('code, lives, gangs, final', [(66, 1, 1, 66), (196, 2, 2, 197)])
def test_an_evaluator_beyond_help_is_the_failure_of_all(cluster, code, lives, gangs, final):
    run = cluster(
        f"""
        [ $who = evaluator:0 ] && wait_for $attempt-worker:0 && exit {code}
        trap 'exit 143' TERM
        here $attempt-worker:0
        while :; do sleep .02; done
        """,
        '--workers=1',
        '--max_restarts=1',
    ).finish()
    assert run.code == final, run.err
    assert len(run.report['attempts']) == gangs
    assert cause(run, 0)['task'] == 'evaluator:0'
    ends = [(task['name'], task['code'], task['how']) for task in run.report['attempts'][0]['tasks']]
    assert [end[0] for end in ends] == ['evaluator:0'] * lives + ['worker:0']
    assert ends[-1] == ('worker:0', 143, 'stopped by the supervisor')  # it had lost nobody


def test_a_worker_of_parameter_servers_is_restarted_alone(cluster):
    run = cluster(
        """
        case $who$life in
          worker:01) kill -9 $$;;
          worker:02) here again; exit 0;;
        esac
        wait_for again
        """,
        '--workers=2',
        '--ps=1',
        '--noevaluator',
    ).finish()
    assert run.code == 0, run.err
    assert len(run.report['attempts']) == 1
    assert run.said('worker:0 ended with SIGKILL') and run.said('restarting it alone')


@pytest.mark.parametrize('who', ['chief:0', 'ps:0'])
def test_the_chief_and_the_servers_are_not(cluster, who):
    run = cluster(
        f'[ $attempt = 2 ] && exit 0; [ $who = {who} ] && kill -9 $$; for_ever',
        '--workers=2',
        '--ps=1',
        '--noevaluator',
    ).finish()
    assert run.code == 0, run.err
    assert cause(run, 0)['task'] == who
    assert len(run.report['attempts']) == 2


def test_the_cause_is_who_died_not_who_missed_it(cluster):
    run = cluster(
        """
        [ $attempt = 2 ] && exit 0
        if [ $who = worker:0 ]; then
          here worker:0
          error 193 8 "worker:1 does not answer" '"worker:1"'
        fi
        wait_for worker:0; kill -11 $$
        """,
        '--noevaluator',
        CAUSE_SECS='600',
    ).finish()
    assert run.code == 0, run.err
    assert (cause(run, 0)['task'], cause(run, 0)['code']) == ('worker:1', 139)


def test_who_does_not_answer_is_the_cause_though_it_lives(cluster):
    run = cluster(
        """
        [ $attempt = 2 ] && exit 0
        [ $who = worker:0 ] && error 193 8 "worker:1 does not answer" '"worker:1"'
        for_ever
        """,
        '--noevaluator',
        CAUSE_SECS='.2',
    ).finish()
    assert run.code == 0, run.err
    assert cause(run, 0)['task'] == 'worker:1'
    assert cause(run, 0)['text'] == 'worker:1 was lost: it did not answer (reported by worker:0)'
    assert cause(run, 0)['reported_by'] == 'worker:0'
    assert run.said('waiting for whoever is to blame')


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
