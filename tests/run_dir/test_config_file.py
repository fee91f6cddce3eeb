"""config.json: written whole, read back, and what may not change under a run."""

import dataclasses
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


@pytest.fixture
def began(tmp_path):
    """began(old, workers, *argv, **environ): the replicas with which the run of a plan with so many workers began,
    in a model_dir with the config.json `old`."""

    def replicas(old, workers, *argv, **environ):
        if old is not None:
            config_file.write(str(tmp_path), old)
        config = parse(['trainer', f'--model_dir={tmp_path}', '--max_steps=5', *argv])
        cluster = {'worker': [f'host{i}:1' for i in range(workers)]}
        task = {'type': 'worker', 'index': 0}
        environ['TF_CONFIG'] = json.dumps({'cluster': cluster, 'task': task})
        return config_file.initial_replicas(planning.make(config, environ), environ)

    return replicas


@pytest.mark.parametrize(
    'old, argv, replicas',
    [
        (None, [], 2),
        (dict(global_batch_size=16, num_replicas=2, initial_replicas=4), ['--batch_size=8'], 4),
        (None, ['--accumulate_steps=3'], 6),
        (dict(global_batch_size=64, num_replicas=8, initial_replicas=8), ['--batch_size=8', '--accumulate_steps=4'], 8),
        (dict(global_batch_size=16, num_replicas=4, initial_replicas='4'), ['--batch_size=8'], 2),
        (dict(global_batch_size=16, initial_replicas=True), ['--batch_size=8'], 2),
        (dict(global_batch_size=32, num_replicas=4, initial_replicas=4), ['--batch_size=8'], 2),  # begins anew
    ],
)
def test_with_how_many_replicas_a_run_began(began, old, argv, replicas):
    assert began(old, 2, *argv) == replicas


def test_the_supervisor_knows_it_before_config_json_does(began):
    assert began(None, 2, ESTIMATOR_TRAINER_WORKERS='3') == 3
    assert began(None, 2, ESTIMATOR_TRAINER_WORKERS='2') == 2
    assert began(None, 2, ESTIMATOR_TRAINER_WORKERS='some') == 2
    old = dict(global_batch_size=16, num_replicas=1, initial_replicas=1)
    assert began(old, 2, '--batch_size=8', ESTIMATOR_TRAINER_WORKERS='3') == 1


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


def test_where_nothing_was_trained_any_run_may_begin(tmp_path):
    config_file.write(str(tmp_path), resolved())
    other = resolved('--seed=2', '--job=fashion_mnist', rate=0.2)
    assert config_file.refuse_another_run(str(tmp_path), other) is True
    (tmp_path / 'checkpoint').write_text('model_checkpoint_path: "model.ckpt-7"\n')  # not all of it is visible yet
    with pytest.raises(UsageError):
        config_file.refuse_another_run(str(tmp_path), other)


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


def test_how_many_examples_a_run_has_trained_when_its_global_batch_has_changed(tmp_path):
    def start(global_batch, step):
        """What the chief does; the other tasks ask before or after it writes."""
        before = config_file.position_shift(folder, global_batch, step)
        parts = config_file.batches(folder, global_batch, step)
        config_file.write(
            folder,
            {'global_batch_size': global_batch, 'batches': parts} if parts[1:] else {'global_batch_size': global_batch},
        )
        assert config_file.position_shift(folder, global_batch, step) == before
        return step * global_batch + before

    folder = str(tmp_path)
    assert start(64, 0) == 0
    assert start(64, 100) == 6400
    assert 'batches' not in json.loads((tmp_path / 'config.json').read_text())
    assert start(32, 250) == 250 * 64
    assert start(32, 250) == 250 * 64  # it was killed before its first checkpoint
    assert start(16, 250) == 250 * 64
    assert start(32, 350) == 250 * 64 + 100 * 16
    assert config_file.batches(folder, 32, 350) == [[0, 0, 64], [250, 16000, 16], [350, 17600, 32]]
    assert start(32, 400) == 17600 + 50 * 32
    assert start(32, 300) == 16000 + 50 * 16  # the newest checkpoint was damaged
    assert start(64, 0) == 0


def test_examples_of_a_checkpoint_whose_step_does_not_say_them(tmp_path):
    folder = str(tmp_path)
    config_file.write(folder, {'global_batch_size': 8})
    for step in (0, 20):
        (tmp_path / f'model.ckpt-{step}.index').write_text('')
    config_file.keep_examples(folder, 8, 0, 0)
    config_file.keep_examples(folder, 8, 20, 160)
    assert not (tmp_path / config_file.EXAMPLES).exists()  # the steps say it
    config_file.keep_examples(folder, 8, 20, 640)
    config_file.keep_examples(folder, 8, 21, 672)  # comes before the checkpoint
    assert config_file.position_shift(folder, 8, 20) == 480 and config_file.position_shift(folder, 8, 0) == 0
    assert config_file.position_shift(folder, 8, 21) == 504

    # The run resumes: config.json says it too, for the tasks that have no other file of the chief's.
    parts = config_file.batches(folder, 8, 20)
    assert parts == [[0, 0, 8], [20, 640, 8]]
    config_file.write(folder, {'global_batch_size': 8, 'batches': parts})
    (tmp_path / config_file.EXAMPLES).unlink()
    assert config_file.position_shift(folder, 8, 20) == config_file.position_shift(folder, 8, 30) == 480
    assert config_file.position_shift(folder, 16, 20) == 320  # another global batch
    config_file.keep_examples(folder, 8, 30, 720)  # from here on each step trains a batch
    assert not (tmp_path / config_file.EXAMPLES).exists()
    config_file.keep_examples(folder, 8, 24, 768)
    assert config_file.position_shift(folder, 8, 24) == 576


def test_examples_of_checkpoints_that_are_gone_are_forgotten(tmp_path):
    folder = str(tmp_path)
    config_file.write(folder, {'global_batch_size': 8})
    for step in range(1, 50):
        config_file.keep_examples(folder, 8, step, 32 * step)
        (tmp_path / f'model.ckpt-{step}.index').write_text('')
        (tmp_path / f'model.ckpt-{step - 3}.index').unlink(missing_ok=True)
    kept = json.loads((tmp_path / config_file.EXAMPLES).read_text())
    assert kept == {str(step): 32 * step for step in (46, 47, 48, 49)}


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
