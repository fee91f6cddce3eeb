"""config.json: written whole, read back, and what may not change under a run."""

import dataclasses
import errno
import json
import os
import pathlib
import tempfile

import pytest

from estimator_trainer.config.trainer_config import parse
from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import config_file
from estimator_trainer.training import plan as planning

MODEL_DIR = os.path.join(tempfile.gettempdir(), 'no_such_model_dir')
PARAMS = {'classes': 10, 'rate': 0.1, 'optimizer': 'sgd', 'bias': True}


def resolved(*argv, workers=0, **params):
    """The run of `argv`, in a cluster of so many workers."""
    config = parse(['trainer', f'--model_dir={MODEL_DIR}', '--max_steps=5', *argv])
    environ = {}
    if workers:
        environ['TF_CONFIG'] = json.dumps(
            {
                'cluster': {'worker': [f'host{index}:1' for index in range(workers)]},
                'task': {'type': 'worker', 'index': 0},
            }
        )
    plan = dataclasses.replace(planning.make(config, environ), job_params={**PARAMS, **params})
    return config_file.resolved(plan, {'tensorflow': '2'})


@pytest.fixture
def model_dir(tmp_path):
    """Of a run that has trained."""
    path = str(tmp_path / 'deep' / 'model')
    config_file.write(path, resolved())
    checkpoint(path)
    return path


def checkpoint(folder):
    (pathlib.Path(folder) / 'model.ckpt-5.index').touch()


def test_what_is_written(tmp_path):
    new = resolved('--param=rate=0.1', '--seed=3', '--batch_size=8', '--dry_run', workers=2)
    config_file.write(str(tmp_path), new)
    assert os.listdir(tmp_path) == ['config.json']
    text = (tmp_path / 'config.json').read_text()
    assert text.endswith('}\n')
    written = json.loads(text)
    assert written == new
    flags = written.pop('flags')
    assert written == {
        'job': 'mnist',
        'loop': 'estimator',
        'dataset': 'mnist_5k',
        'own_data': False,
        'params': PARAMS,
        'best_metric': None,  # of the job, which this plan does not have
        'best_mode': None,
        'seed': 3,
        'mixed_precision': None,
        'strategy': 'multi_worker_mirrored',
        'global_batch_size': 16,
        'num_replicas': 2,
        'initial_replicas': 2,
        'cluster': {'worker': ['host0:1', 'host1:1']},
        'versions': {'tensorflow': '2'},
    }
    assert (flags['param'], flags['export'], flags['batch_size']) == (['rate=0.1'], ['best', 'final'], 8)
    assert not {'dry_run', 'progress'} & set(flags)


def test_writing_again_replaces(model_dir):
    config_file.write(model_dir, resolved('--seed=9'))
    assert sorted(os.listdir(model_dir)) == ['config.json', 'model.ckpt-5.index']
    assert config_file.refuse_another_run(model_dir, resolved('--seed=9'))


def test_a_list_is_compared_by_its_values(tmp_path):
    config_file.write(str(tmp_path), resolved(hidden=[64, 32]))
    checkpoint(tmp_path)
    assert config_file.refuse_another_run(str(tmp_path), resolved(hidden=[64, 32]))
    with pytest.raises(UsageError, match=r'param hidden: \[64, 32\] there, \[32\] now'):
        config_file.refuse_another_run(str(tmp_path), resolved(hidden=[32]))


def test_a_write_that_fails_leaves_the_old_one(model_dir):
    with pytest.raises(TypeError):
        config_file.write(model_dir, {**resolved(), 'versions': object()})
    assert config_file.refuse_another_run(model_dir, resolved()) is True


@pytest.mark.parametrize('number, code', [(errno.ESTALE, 200), (errno.EACCES, 74)])
def test_a_file_system_that_fails_has_the_code_of_a_model_dir(model_dir, monkeypatch, number, code):
    def fail(path):
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(config_file.protocol, 'read_object', fail)
    with pytest.raises(UsageError, match='its config.json cannot be read') as caught:
        config_file.refuse_another_run(model_dir, resolved())
    assert caught.value.exit_code == code


def test_nothing_there(tmp_path):
    assert config_file.refuse_another_run(str(tmp_path), resolved()) is False
    assert config_file.refuse_another_run(str(tmp_path / 'no_such'), resolved()) is False
    assert os.listdir(tmp_path) == []


ACCEPTED = {
    'nothing': resolved(),
    'log_every_steps': resolved('--log_every_steps=7'),
    'longer': resolved('--max_steps=50'),
    'other checkpoints': resolved('--save_checkpoints_steps=3', '--keep_checkpoints=0'),
    'other exports': resolved('--export=none'),
    'other folder name': resolved(f'--model_dir={MODEL_DIR}_moved'),
    '2 workers, equal global batch': resolved('--batch_size=32', workers=2),
    '4 replicas, equal global batch': resolved('--batch_size=16', '--num_replicas=4'),
    'other versions': {**resolved(), 'versions': {'tensorflow': '3'}},
}


@pytest.mark.parametrize('new', ACCEPTED.values(), ids=ACCEPTED)
def test_accepted(model_dir, new):
    assert config_file.refuse_another_run(model_dir, new) is True


def test_a_param_that_a_later_version_added_is_no_difference_at_its_default(model_dir):
    new = resolved(depth=2)
    assert config_file.refuse_another_run(model_dir, new, {'depth': 2}) is True
    with pytest.raises(UsageError, match='param depth: 3 there, 2 now'):
        config_file.refuse_another_run(model_dir, new, {'depth': 3})


def test_a_run_of_a_built_in_job_goes_on_after_the_job_has_a_new_param(tmp_path):
    def planned(*argv):
        flags = ['trainer', '--job=mnist', '--dataset=mnist_5k', f'--model_dir={tmp_path}', '--max_steps=5', *argv]
        return planning.with_job(planning.make(parse(flags), {}))

    written = config_file.resolved(planned(), {})
    del written['params']['filters']
    config_file.write(str(tmp_path), written)
    checkpoint(tmp_path)
    planned()
    with pytest.raises(UsageError, match=r'param filters: \[32\] there, \[16\] now'):
        planned('--param=filters=16')


REFUSED = {  # argv, params and workers of the second run, the lines that show what differs
    'job': (['--job=fashion_mnist'], {}, ["job: 'mnist' there, 'fashion_mnist' now"]),
    'dataset': (['--dataset=mnist'], {}, ["dataset: 'mnist_5k' there, 'mnist' now"]),
    'batch_size': (['--batch_size=65'], {}, ['global_batch_size: 64 there, 65 now']),
    'replicas': (['--num_replicas=2'], {}, ['global_batch_size: 64 there, 128 now']),
    'workers': ([], dict(workers=3), ['global_batch_size: 64 there, 192 now']),
    'seed': (['--seed=2'], {}, ['seed: 1 there, 2 now']),
    'precision': (['--mixed_precision=bfloat16'], {}, ["mixed_precision: None there, 'bfloat16' now"]),
    'param': ([], dict(rate=0.2), ['param rate: 0.1 there, 0.2 now']),
    'new param': ([], dict(depth=2), ['param depth: None there, 2 now']),
    'several': (
        ['--seed=2'],
        dict(rate=0.2, bias=False),
        ['seed: 1 there, 2 now', 'param bias: True there, False now', 'param rate: 0.1 there, 0.2 now'],
    ),
}


@pytest.mark.parametrize('argv, others, lines', REFUSED.values(), ids=REFUSED)
def test_refused(model_dir, argv, others, lines):
    with pytest.raises(UsageError) as caught:
        config_file.refuse_another_run(model_dir, resolved(*argv, **others))
    first, *shown, last = str(caught.value).splitlines()
    assert f'--model_dir={model_dir}:' in first
    assert sorted(shown) == sorted(f'  {line}' for line in lines)
    assert '--allow_config_change' in last
    assert config_file.refuse_another_run(model_dir, resolved('--allow_config_change', *argv, **others)) is True


@pytest.mark.parametrize(
    'argv, cure', [(['--batch_size=65'], '--batch_size=64'), (['--num_replicas=2'], '--batch_size=32')]
)
def test_the_batch_size_of_the_same_global_batch_is_named(model_dir, argv, cure):
    with pytest.raises(UsageError, match=f'Give it as it was \\({cure} makes the same global batch here\\), another'):
        config_file.refuse_another_run(model_dir, resolved(*argv))


def test_where_nothing_was_trained_any_run_may_begin(tmp_path):
    config_file.write(str(tmp_path), resolved())
    other = resolved('--seed=2', '--job=fashion_mnist', rate=0.2)
    assert config_file.refuse_another_run(str(tmp_path), other) is True
    (tmp_path / 'checkpoint').write_text('model_checkpoint_path: "model.ckpt-7"\n')  # not all of it is visible yet
    with pytest.raises(UsageError):
        config_file.refuse_another_run(str(tmp_path), other)


def test_where_only_another_program_has_trained_any_run_may_begin(tmp_path):
    folder = str(tmp_path)
    (tmp_path / 'checkpoint').write_text('model_checkpoint_path: "model.ckpt-600"\n')
    config_file.write(folder, resolved() | config_file.history(folder, 64, 600))
    other = resolved('--seed=2', rate=0.2)
    assert config_file.refuse_another_run(folder, other) is True  # the start was refused, and this one is corrected
    config_file.write(folder, other | config_file.history(folder, 64, 600))
    (tmp_path / 'checkpoint').write_text('model_checkpoint_path: "model.ckpt-700"\n')
    assert config_file.history(folder, 64, 700) == {'taken_up_at': 600}
    with pytest.raises(UsageError):
        config_file.refuse_another_run(folder, resolved())


def test_a_param_that_is_gone(model_dir):
    new = resolved()
    del new['params']['bias']
    with pytest.raises(UsageError, match='param bias: True there, None now'):
        config_file.refuse_another_run(model_dir, new)


def put(folder, content):
    (folder / 'config.json').write_bytes(content)
    return str(folder)


@pytest.mark.parametrize('content', [b'', b'{"job": ', b'job: mnist', b'[]', b'null', b'{"params": 3}', b'\xff\xfe'])
@pytest.mark.parametrize('argv', [[], ['--allow_config_change']])
def test_a_config_that_cannot_be_read(tmp_path, content, argv):
    with pytest.raises(UsageError) as caught:
        config_file.refuse_another_run(put(tmp_path, content), resolved(*argv))
    assert f'--model_dir={tmp_path}:' in str(caught.value) and 'config.json' in str(caught.value)


def test_a_model_dir_below_a_file(model_dir):
    with pytest.raises(UsageError):
        config_file.refuse_another_run(f'{model_dir}/config.json/model', resolved())


def test_another_loop_is_another_run(model_dir):
    with pytest.raises(UsageError, match="loop: 'estimator' there, 'keras_fit' now"):
        config_file.refuse_another_run(model_dir, resolved('--seed=3', '--loop=keras_fit'))


def test_the_file_of_a_job_is_kept_under_one_name(tmp_path):
    job, folder = tmp_path / 'x' / 'job.pkl', str(tmp_path / 'model')
    job.parent.mkdir()
    job.write_text('a job')
    new = resolved(f'--job={job}')
    assert new['job'] == 'job.pkl'
    config_file.refuse_another_run(folder, new)
    config_file.write(folder, new)
    config_file.keep_job(folder, str(job))
    kept = config_file.job_of(folder, new)
    assert pathlib.Path(kept).read_text() == 'a job' and kept == f'{folder}/job.pkl'
    checkpoint(folder)
    assert config_file.refuse_another_run(folder, resolved('--job=elsewhere/job.pkl'))
    assert config_file.refuse_another_run(folder, resolved(f'--job={kept}'))
    config_file.keep_job(folder, kept)
    job.write_text('another job')
    config_file.keep_job(folder, str(job))
    assert pathlib.Path(kept).read_text() == 'another job'


def test_a_job_file_of_others_stays(model_dir):
    (pathlib.Path(model_dir) / 'job.pkl').write_text('mine')
    new = resolved('--job=x/job.pkl', '--allow_config_change')
    with pytest.raises(UsageError, match='its job.pkl is not of a run; move it away'):
        config_file.refuse_another_run(model_dir, new)
    assert config_file.refuse_another_run(model_dir, resolved())
