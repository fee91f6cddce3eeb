"""Command lines that are refused: code 64, one sentence, no TensorFlow."""

import json
import os

import pytest

from estimator_trainer import errors
from estimator_trainer.config import trainer_config
from estimator_trainer.run_dir import config_file
from estimator_trainer.training import plan as planning
from tests.main.test_command_line import DRY, GIVEN, LIGHT, cluster, run

USAGE_ERRORS = {
    'no model_dir': (('--max_steps=5',), None, '--model_dir'),
    'unknown flag': ((*GIVEN, '--batchsize=3'), None, 'did you mean --batch_size?'),
    'a flag as other programs call it': ((*GIVEN, '--train_steps=3'), None, 'did you mean --max_steps?'),
    'a flag of clusters': ((*GIVEN, '--workers=2'), None, 'cluster --workers=N -- FLAGS`'),
    'a flag that is off': ((*GIVEN, '--no_sync_ps'), None, 'did you mean --nosync_ps?'),
    'a part of a flag': (
        (*GIVEN, '--save_steps=3'),
        None,
        'did you mean --save_checkpoints_steps or --save_summary_steps?',
    ),
    'a number that is no switch': ((*GIVEN, '--no_eval_steps'), None, 'did you mean --eval_steps?'),
    'wrong type': ((*GIVEN, '--seed=x'), None, '--seed=x'),
    'out of bounds': ((*GIVEN, '--seed=-1'), None, '--seed=-1'),
    'stray word': ((*GIVEN, 'mnist'), None, 'mnist: every argument is a flag'),
    'missing flagfile': ((*GIVEN, '--flagfile=/no/such.flags'), None, '/no/such.flags'),
    'unknown param': ((*GIVEN, '--param=optimiser=adam'), None, "did you mean 'optimizer'?"),
    'param of another type': ((*GIVEN, '--param=classes=ten'), None, '--param=classes=ten'),
    'param that cannot work': ((*GIVEN, '--param=schedule=linear'), None, '--param=schedule=linear'),
    'TF_CONFIG is not JSON': (GIVEN, '{', 'For example: {'),
    'TF_CONFIG is of another job': (GIVEN, cluster('worker:2', worker=['a:1', 'b:1']), 'rule: which task this'),
    'TF_CONFIG and strategy': (
        (*GIVEN, '--strategy=mirrored'),
        cluster('worker:0', worker=['a:1', 'b:1']),
        'corrected: {',
    ),
    'no cluster': ((*GIVEN, '--strategy=multi_worker_mirrored'), None, 'needs a cluster'),
}


@pytest.mark.parametrize('argv, tf_config, part', USAGE_ERRORS.values(), ids=USAGE_ERRORS)
def test_usage_errors(tmp_path, argv, tf_config, part):
    done = run(tmp_path, *argv, tf_config=tf_config)
    assert (done.code, done.out, done.seen) == (64, '', [])
    assert done.err.startswith('error: ') and part in done.err
    assert os.listdir(tmp_path) == []


SEVERAL_TASKS = (
    'Several tasks on this machine are started by `python -m estimator_trainer cluster --workers=N -- FLAGS`; on '
    'several machines TF_CONFIG says who they are.'
)
UNKNOWN_FLAGS = {  # argv, what is said
    'a param of a built-in job': (
        ['--learning_rate=0.1'],
        '--learning_rate: no such flag. It is a param of mnist: write --param=learning_rate=0.1.',
    ),
    'in a flagfile': (
        ['--flagfile=u_flags'],
        '--hidden (u_flags, line 2): no such flag. If it is a param of u_light:job, write --param=hidden=9.',
    ),
    'a job that imports TensorFlow': (
        ['--job=u_heavy:job', '--units=3'],
        '--units: no such flag. If it is a param of u_heavy:job, write --param=units=3.',
    ),
    'a flag of cluster': (['--workers=2'], f'--workers: no such flag. {SEVERAL_TASKS}\n'),
    'a flag of cluster, or a param': (
        ['--job=u_heavy:job', '--workers=2'],
        f'--workers: no such flag. {SEVERAL_TASKS} If it is a param of u_heavy:job, write --param=workers=2.',
    ),
    'no param': (['--qqq=3'], '--qqq: no such flag. See --help.'),
    'a flag of a similar name': (['--job=u_heavy:job', '--epoch=3'], '--epoch: no such flag (did you mean --epochs?).'),
}


@pytest.mark.parametrize('argv, said', UNKNOWN_FLAGS.values(), ids=UNKNOWN_FLAGS)
def test_an_unknown_flag_may_be_a_param(tmp_path, argv, said):
    (tmp_path / 'u_light.py').write_text(f'{LIGHT}\nopen("ran", "w").close()')  # code of a user is not run for this
    (tmp_path / 'u_heavy.py').write_text('import tensorflow')
    (tmp_path / 'u_flags').write_text('--job=u_light:job\n--hidden=9\n')
    done = run(tmp_path, *GIVEN, *argv)
    assert (done.code, done.out, done.seen) == (64, '', [])
    assert done.err.startswith(f'error: {said}') and done.err.count('\n') == 1


@pytest.mark.parametrize('argv', [(), ('--dry_run',)], ids=['run', 'dry_run'])
def test_a_model_dir_of_another_run(tmp_path, argv):
    old = planning.make(trainer_config.parse(['trainer', *GIVEN, '--seed=2']), {})
    config_file.write(str(tmp_path / 'model'), config_file.resolved(old, {}))
    (tmp_path / 'model' / 'model.ckpt-5.index').touch()
    before = (tmp_path / 'model' / 'config.json').read_bytes()
    done = run(tmp_path, *GIVEN, *argv)
    assert (done.code, done.out, done.seen) == (64, '', [])
    assert 'seed: 2 there, 1 now' in done.err
    assert sorted(os.listdir(tmp_path / 'model')) == ['config.json', 'model.ckpt-5.index']
    assert (tmp_path / 'model' / 'config.json').read_bytes() == before


@pytest.mark.parametrize('at', ['import', 'call'])
@pytest.mark.parametrize('code', ['', '0', '143 - 140'])
def test_a_job_that_ends_python_is_no_success(tmp_path, at, code):
    exits = f'sys.exit({code})'
    lines = [exits] if at == 'import' else ['def job():', f'    {exits}']
    (tmp_path / 'u_ends.py').write_text('\n'.join(['import sys', *lines]))
    done = run(tmp_path, *GIVEN, '--job=u_ends:job')
    assert (done.code, done.out, done.seen) == (64, '', [])
    assert 'ends Python by sys.exit(' in done.err and '--job=u_ends:job: ' in done.err, done.err


@pytest.mark.parametrize('argv', [('--job=mnst',), ('--job=mnst', '--dry_run'), ('--job=u_mine:job', '--dry_run')])
def test_a_job_without_a_module_is_refused_at_once(tmp_path, argv):
    done = run(tmp_path, *GIVEN, *argv)
    assert (done.code, done.seen) == (64, [])


def test_a_model_dir_below_a_file_is_refused(tmp_path):
    (tmp_path / 'file').touch()
    done = run(tmp_path, '--model_dir=file/model', '--max_steps=5', '--dry_run')
    assert done.code == 64, done.err


def test_a_loop_that_cannot_train_the_job_is_refused(tmp_path):
    (tmp_path / 'u_light.py').write_text(LIGHT)
    assert run(tmp_path, *DRY, '--job=u_light:job').code == 0
    for loop in ('keras_fit', 'custom_loop'):
        done = run(tmp_path, *DRY, '--job=u_light:job', f'--loop={loop}')
        assert (done.code, done.seen) == (64, []) and f'--loop={loop}: job u_light:job has no make_model' in done.err
        with_ps = run(
            tmp_path, *DRY, f'--loop={loop}', tf_config=cluster('worker:0', chief=['a:1'], worker=['b:1'], ps=['p:1'])
        )
        assert (with_ps.code, with_ps.seen) == (64, []) and 'parameter servers' in with_ps.err


@pytest.mark.parametrize('flags, task', [(['--no_such=1'], 'trainer'), (['--job=no_such'], 'worker:1')])
def test_a_usage_error_stands_in_the_error_file(tmp_path, flags, task):
    error_file = tmp_path / 'error.json'
    done = run(
        tmp_path,
        *GIVEN,
        *flags,
        tf_config=cluster('worker:1', worker=['a:1', 'b:1']),
        ESTIMATOR_TRAINER_ERROR_FILE=str(error_file),
    )
    told = json.loads(error_file.read_text())
    assert (done.code, told['code'], told['task']) == (64, 64, task)
    assert f'error: {told["message"]}\n' == done.err


@pytest.mark.parametrize(
    'word, meant',
    [
        ('acc', 'accuracy'),
        ('los', 'loss'),
        ('aucc', 'auc'),
        ('a', 'accuracy or auc'),
        ('steps_save', 'save_all_steps'),
        ('x', ''),
        ('', ''),
    ],
)
def test_the_nearest_word(word, meant):
    known = ['loss', 'accuracy', 'auc', 'save_all_steps']
    assert errors.nearest(word, known) == (f' (did you mean {meant}?)' if meant else '')
