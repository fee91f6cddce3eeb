"""The command line of a cluster -> Options: no process is started."""

import pytest

from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.supervisor import options
from estimator_trainer.supervisor.policy import task_commands
from estimator_trainer.this_process import isolate


def test_defaults():
    opts = options.parse(['--', '--job=mnist'])
    assert opts.shape == task_commands.Shape(workers=2, ps=0, evaluator=True)
    assert opts.own.cpu_affinity
    limits, rules = opts.limits, opts.rules
    assert (limits.grace_secs, limits.drain_secs, limits.stall_timeout) == (30, 600, 1800)
    assert (rules.max_restarts, rules.window_secs, rules.backoff_secs) == (3, 3600, 1)
    assert (opts.own.min_workers, opts.own.isolate, opts.trainer.config.batch_size) == (None, 'auto', 64)
    assert (opts.log_dir, opts.model_dir) == (None, None)
    assert opts.words == ('--job=mnist',)


def test_flags():
    argv = '--workers=3 --ps=1 --noevaluator --nocpu_affinity --grace_secs=.5 -- x --'.split()
    opts = options.parse(argv)
    assert opts.shape == task_commands.Shape(3, 1, False)
    assert not opts.own.cpu_affinity
    assert opts.limits.grace_secs == 0.5
    assert opts.words == ('x', '--')


def test_flags_of_restarts():
    argv = '--max_restarts=0 --restart_window_secs=60 --backoff_secs=.5 --min_workers=1 --stall_timeout=0 --isolate=off'
    opts = options.parse(argv.split())
    assert opts.rules == options.Rules(0, 60, 0.5)
    assert (opts.own.min_workers, opts.limits.stall_timeout, opts.own.isolate) == (1, 0, 'off')


@pytest.mark.parametrize(
    'trainer_flags, size',
    [
        ([], 64),
        (['--batch_size=32'], 32),
        (['-batch_size', '16'], 16),
        (['--batch_size=32', '--batch_size=8'], 8),
        (['--batch_size=many'], 64),  # the trainer says what is wrong with it
        (['--batch_size'], 64),
    ],
)
def test_the_batch_size_is_the_trainers(trainer_flags, size):
    assert options.parse(['--', *trainer_flags]).trainer.config.batch_size == size


def test_a_cluster_whose_data_are_in_a_store_needs_its_network():
    assert options.parse(['--', '--train_files=data/x', '--eval_files=s3://b/x']).trainer.data_in_store == 'eval_files'
    assert options.parse(['--', '--data_dir=data']).trainer.data_in_store == ''
    found = isolate.enter('auto', 'eval_files')
    assert (found.isolated, '--eval_files is in a store' in found.note) == (False, True)
    with pytest.raises(isolate.CannotIsolate, match='--isolate=on: --eval_files is in a store'):
        isolate.enter('on', 'eval_files')


def test_the_limits_are_those_of_the_trainer():
    """Limits cannot import them: under Ray it may be used by an interpreter without absl."""
    assert options.Limits.grace_secs == TrainerConfig.grace_secs + options.SAVE_MARGIN_SECS
    assert options.Limits.stall_timeout == TrainerConfig.step_timeout_secs


@pytest.mark.parametrize(
    'argv, grace_secs, stall_timeout',
    [
        ([], 30, 1800),
        (['--', '--grace_secs=5', '--step_timeout_secs=60'], 30, 1800),
        (['--', '--grace_secs=120', '--step_timeout_secs=7200'], 125, 7200),
        (['--', '--step_timeout_secs=0'], 30, 0),
        (['--grace_secs=3', '--stall_timeout=9', '--', '--grace_secs=120', '--step_timeout_secs=0'], 3, 9),
    ],
)
def test_a_task_gets_the_time_that_its_own_flags_allow(argv, grace_secs, stall_timeout):
    limits = options.parse(argv).limits
    assert (limits.grace_secs, limits.stall_timeout) == (grace_secs, stall_timeout)


@pytest.mark.parametrize(
    'trainer_flags, asks',
    [
        ([], False),
        (['--dry_run'], True),
        (['--dry_run=true', '--job=x'], True),
        (['--dry_run', '--nodry_run'], False),
        (['--help', '--batch_size=many'], True),
        (['-h'], True),
        (['--job=help'], False),
    ],
)
def test_trainer_flags_that_start_nothing(trainer_flags, asks):
    assert options.parse(['--', *trainer_flags]).trainer.just_asks == asks


def test_the_batch_size_may_stand_in_a_flagfile(tmp_path):
    (tmp_path / 'f').write_text('--batch_size=12\n--model_dir=/m\n')
    opts = options.parse(['--', f'--flagfile={tmp_path}/f'])
    assert (opts.trainer.config.batch_size, opts.model_dir) == (12, '/m')


def test_logs_go_where_the_trainers_model_dir_is(tmp_path):
    inner, outer = tmp_path / 'inner.flags', tmp_path / 'outer.flags'
    inner.write_text('# comment\n--model_dir=/nested\n')
    outer.write_text(f'--job=mnist\n--flagfile={inner}\n')
    for trainer_flags, log_dir in (
        (['--model_dir=/m'], '/m/logs'),
        (['--model_dir', '/m', '--job=x'], '/m/logs'),
        (['--model_dir=/m', '--model_dir=/n'], '/n/logs'),
        ([f'--flagfile={outer}'], '/nested/logs'),
        (['--flagfile', str(outer), '--model_dir=/m'], '/m/logs'),
        (['--model_dir'], None),
        (['--model_dir=gs://bucket/m'], None),
    ):
        opts = options.parse(['--', *trainer_flags])
        assert opts.log_dir == log_dir, trainer_flags
        assert opts.model_dir == (log_dir and log_dir.removesuffix('/logs'))
    assert options.parse(['--log_dir=/l', '--', '--model_dir=/m']).log_dir == '/l'


@pytest.mark.parametrize(
    'argv, words',
    [
        (['--wrkers=2'], ['--wrkers', '--workers?', 'after a --']),
        (['--job=mnist'], ['--job: is a flag of the trainer', 'after a --: run_local_cluster.sh -- --job=mnist']),
        (
            ['--workers', '3', '--flagfile=configs/mnist_5k.flags', '--nodry_run', '--noevaluator'],
            ['run_local_cluster.sh --workers 3 --noevaluator -- --flagfile=configs/mnist_5k.flags --nodry_run'],
        ),
        (['--noevaluator=3'], ['--noevaluator=3', 'takes no value']),
        (['--workers=0'], ['--workers=0', '1 or more']),
        (['--workers=two'], ['--workers=two: a whole number is needed']),
        (['--evaluator=maybe'], ['--evaluator=maybe: true or false is needed']),
        (['--workers'], ['--workers']),
        (['--ps=-1'], ['--ps=-1', '0 or more']),
        (['--grace_secs=-1'], ['--grace_secs=-1', '0 or more']),
        (['--grace_secs=inf'], ['--grace_secs=inf', 'give seconds']),
        (['--max_restarts=-1'], ['--max_restarts=-1', '0 or more']),
        (['--restart_window_secs=0'], ['--restart_window_secs=0', '--max_restarts=0']),
        (['--backoff_secs=-1'], ['--backoff_secs=-1', '0 or more']),
        (['--stall_timeout=-1'], ['--stall_timeout=-1', '0 or more']),
        (['--isolate=perhaps'], ['--isolate=perhaps: one of auto, on, off is needed']),
        (['--min_workers=0'], ['--min_workers=0', '1 or more']),
        (['--min_workers=3'], ['--min_workers=3', 'not more than --workers=2']),
        (['--min_workers=1', '--ps=1'], ['--min_workers=1', 'not with --ps=1']),
        (['--drain_secs=nan'], ['--drain_secs=nan', '0 or more']),
        (['mnist'], ["'mnist'", 'after a --']),
        (['--', '--flagfile=/no/such.flags'], ['--flagfile=/no/such.flags', 'No such file']),
        (['--flagfile=/no/such.flags'], ['--flagfile=/no/such.flags', 'No such file']),
        (['--', '--flagfile'], ['--flagfile']),
    ],
)
def test_usage_errors_are_one_line_with_the_cure(argv, words):
    with pytest.raises(options.UsageError) as caught:
        options.parse(argv)
    message = str(caught.value)
    assert '\n' not in message
    assert all(word in message for word in words), message


def test_help_names_every_flag():
    assert options.wants_help(['--help'])
    assert options.wants_help(['-h', '--workers=5'])
    text = options.help_text()
    for name in (
        'workers ps evaluator cpu_affinity grace_secs drain_secs log_dir max_restarts '
        'restart_window_secs backoff_secs min_workers stall_timeout isolate'
    ).split():
        assert f'--{name}:' in text or f'--[no]{name}:' in text
