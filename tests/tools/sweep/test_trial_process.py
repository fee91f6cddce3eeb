"""The process of a trial, with a shell in the place of the supervisor."""

import os
from multiprocessing import connection

from estimator_trainer.tools.sweep import trial_process
from tests.processes import gone, until


def child(tmp_path, script, cores=()):
    command = trial_process.command(str(tmp_path), ['--a=1'], supervisor=('sh', '-c', script, 'sh'))
    return trial_process.TrialProcess(command, str(tmp_path), cores, os.environ)


def end_of(started):
    """Its exit code, once it has ended."""
    while (code := started.poll()) is None:
        connection.wait(started.descriptors, 0.05)  # they may be at their end before the process is
        started.read()
    started.close()
    return code


def test_it_gets_its_flags_and_its_cores_and_says_why_it_failed(tmp_path):
    cores = (min(os.sched_getaffinity(0)),)
    started = child(tmp_path, 'taskset -cp $$; echo "error: got $*" >&2; exit 64', cores)
    assert end_of(started) == 64
    assert started.cause(64) == f'got -- --a=1 --model_dir={tmp_path}'
    assert any(line.endswith(f': {cores[0]}') for line in started._last)


def test_it_is_told_to_stop(tmp_path):
    started = child(tmp_path, 'trap "exit 143" TERM; echo ready; while :; do sleep 0.01; done')
    connection.wait(started.descriptors, 10)  # the trap is set
    started.stop()
    assert end_of(started) == 143


def test_a_signal_is_told_as_a_shell_does(tmp_path):
    assert end_of(child(tmp_path, 'kill -9 $$')) == 137


def test_nothing_of_it_is_left(tmp_path):
    started = child(tmp_path, 'sleep 1000 & echo $!; wait')
    connection.wait(started.descriptors, 10)
    started.close()
    (line,) = started._last
    until(lambda: gone(int(line)))


def test_the_command_of_a_trial(tmp_path):
    flags = ('--workers=1', '--noevaluator', '--', f'--model_dir={tmp_path}')
    assert trial_process.command(str(tmp_path), [])[2:] == ('estimator_trainer', 'cluster', *flags)


def test_the_environment_of_another_cluster_is_not_passed_on():
    given = {'TF_CONFIG': '{}', 'HOME': '/x', 'ESTIMATOR_TRAINER_GENERATION': '1'}
    assert trial_process.environment(given) == {'HOME': '/x'}
