"""Whole runs: who is restarted, where, how often, and what is said of it."""

import json
import re

import pytest

from estimator_trainer.supervisor.policy.causes import GangEndKind
from estimator_trainer.supervisor.policy.restarts import Rules
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
    assert run.said('no restart: an exception again')
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
