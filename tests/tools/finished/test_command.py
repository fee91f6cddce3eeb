"""`evaluate` and `export`: what is refused before TensorFlow is imported, each with one line and nothing on stdout."""

import json
import os
import subprocess
import sys

import pytest

from estimator_trainer import jobs
from estimator_trainer.errors import UsageError
from estimator_trainer.storage import needs
from estimator_trainer.storage.needs import Need
from estimator_trainer.tools.finished import chosen_checkpoint, evaluate, export, finished_run
from estimator_trainer.tools.migrate import loaded_run

CONFIG = {
    'job': 'own:job',
    'loop': 'estimator',
    'params': {},
    'flags': {},
    'global_batch_size': 4,
    'seed': 1,
    'dataset': 'mnist_5k',
}
JOB = """
from estimator_trainer.jobs import Job
job = Job(model_fn=lambda features: None, input_fn=lambda: None)
reads_files = Job(model_fn=lambda features: None, file_spec=lambda params: None)
other_params = Job(model_fn=lambda features: None, input_fn=lambda: None, params={'new': 1})
"""


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, 'path', list(sys.path))
    monkeypatch.setattr(sys, 'dont_write_bytecode', True)
    (tmp_path / 'own.py').write_text(JOB)
    of = {
        'run': {},
        'files': {'job': 'own:reads_files', 'flags': {'train_files': 'gone.csv', 'eval_files': 'gone.csv'}},
        'changed': {'job': 'own:other_params'},
        'keras': {'loop': 'keras_fit', 'flags': {'loop': 'keras_fit'}},
        'untrained': {},
    }
    for name, changes in of.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / 'config.json').write_text(json.dumps({**CONFIG, **changes}))
        for step in (10, 20, 5) if name != 'untrained' else ():
            (tmp_path / name / f'model.ckpt-{step}.index').touch()
    (tmp_path / 'empty').mkdir()
    (tmp_path / 'broken').mkdir()
    (tmp_path / 'broken' / 'config.json').write_text('{')
    yield tmp_path
    sys.modules.pop('own', None)


@pytest.mark.parametrize('main', [evaluate.main, export.main], ids=['evaluate', 'export'])
@pytest.mark.parametrize(
    'argv, code, said',
    [
        ([], 64, '--model_dir is missing'),
        (['nowhere'], 64, 'nowhere: there is no such folder; name the model_dir of a run'),
        (['run', '--model_dir=empty'], 64, 'run --model_dir=empty: name one folder'),
        (['run', 'empty'], 64, 'run empty: name one folder'),
        (
            ['--model_dir=run', '--checkpoint_stp=5'],
            64,
            '--checkpoint_stp: no such flag (did you mean --checkpoint_step?)',
        ),
        (['--model_dir=nowhere'], 64, 'there is no such folder; name the model_dir of a run'),
        (['--model_dir=empty'], 64, 'config.json: No such file or directory; name the model_dir of a run'),
        (['--model_dir=broken'], 64, 'its config.json cannot be read'),
        (['--model_dir=untrained'], 64, 'holds no checkpoint'),
        (['--model_dir=run', '--checkpoint_step=7'], 64, 'has no checkpoint of this step; it has 5, 10, 20.'),
        (['--model_dir=changed'], 64, 'the params of the job own:other_params have changed since: new'),
        (['--model_dir=keras'], 64, 'no longer has the make_model of the run'),
        (['--model_dir=files'], 66, "--eval_files: no file matches 'gone.csv'"),
    ],
)
def test_one_error_before_tensorflow(runs, capfd, main, argv, code, said):
    assert main(argv) == code
    shown = capfd.readouterr()
    error = shown.err.splitlines()[-1]
    assert shown.out == '' and len(shown.err.splitlines()) == 1
    assert error.startswith('error: ') and said in error
    assert not list(runs.glob('run/export'))


@pytest.mark.parametrize('package, name', [('', 'gone'), ('pack.sub.', 'pack.sub.gone')])
def test_a_job_that_is_not_found_from_here(runs, capfd, package, name):
    file = runs / 'elsewhere' / package.replace('.', '/') / 'gone.py'
    config = {**CONFIG, 'job': f'{name}:job', 'job_file': str(file)}
    (runs / 'run' / 'config.json').write_text(json.dumps(config))
    assert evaluate.main(['run']) == 64
    said = capfd.readouterr().err
    assert f'in {runs} or on PYTHONPATH. Start the command in the folder of the module' in said
    assert f'The run had it in {file}, which is gone.' in said
    file.parent.mkdir(parents=True)
    file.touch()
    assert evaluate.main(['run']) == 64
    assert f'put PYTHONPATH={runs / "elsewhere"} before the command.' in capfd.readouterr().err


def test_data_that_the_job_does_not_read(runs, capfd):
    assert evaluate.main(['--model_dir=run', '--eval_files=a.csv']) == 64
    assert '--eval_files=a.csv: job own:job does not read files that flags name' in capfd.readouterr().err
    assert evaluate.main(['--model_dir=run', '--dataset=mnist']) == 64
    assert '--dataset=mnist: job own:job reads its own data' in capfd.readouterr().err


def test_no_tensorflow_for_a_mistake(runs):
    code = (
        'import sys; from estimator_trainer.tools.finished import evaluate\n'
        'assert evaluate.main(["--model_dir=run", "--checkpoint_step=7"]) == 64\n'
        'assert "tensorflow" not in sys.modules'
    )
    subprocess.run([sys.executable, '-c', code], check=True, env={'PYTHONPATH': ':'.join(sys.path)}, timeout=60)


@pytest.mark.parametrize(
    'pointer, newest',
    [
        (None, 20),
        ('model_checkpoint_path: "model.ckpt-10"', 10),
        ('model_checkpoint_path: "/moved/from/model.ckpt-5"', 5),
        ('model_checkpoint_path: "model.ckpt-30"', 20),
        ('damaged', 20),
    ],
)
def test_the_newest_checkpoint_is_the_one_that_a_run_goes_on_from(runs, pointer, newest):
    if pointer:
        (runs / 'run' / 'checkpoint').write_text(pointer)
    assert chosen_checkpoint.find('run', None) == (f'run/model.ckpt-{newest}', newest)
    assert chosen_checkpoint.find('run', 5) == ('run/model.ckpt-5', 5)


def test_of_a_store_one_checkpoint_is_fetched_and_the_others_are_known():
    files = ['checkpoint', 'config.json', 'logs/x.log', 'export/best/1/saved_model.pb']
    for step in (5, 10):
        files += [f'model.ckpt-{step}.index', f'model.ckpt-{step}.data-00000-of-00001']
    found = needs.of_checkpoint(5)(files, 'model.ckpt-10')
    assert found == {
        'checkpoint': Need.WHOLE,
        'config.json': Need.WHOLE,
        'model.ckpt-5.index': Need.WHOLE,
        'model.ckpt-5.data-00000-of-00001': Need.WHOLE,
        'model.ckpt-10.index': Need.SIZE,
    }
    assert needs.of_checkpoint(None)(files, 'model.ckpt-10')['model.ckpt-10.data-00000-of-00001'] is Need.WHOLE


def test_a_checkpoint_under_its_second_name_is_taken_up(tmp_path, monkeypatch):
    """A store holds one if the first name is being replaced."""
    monkeypatch.chdir(tmp_path)
    os.mkdir('run')
    for name in ('model.ckpt-100.index', 'model.ckpt-again-200.index', 'vocab.index'):
        open(f'run/{name}', 'w').close()
    with open('run/checkpoint', 'w') as file:
        file.write('model_checkpoint_path: "model.ckpt-again-200"\n')
    assert chosen_checkpoint.find('run', None) == ('run/model.ckpt-again-200', 200)
    assert chosen_checkpoint.find('run', 200) == ('run/model.ckpt-again-200', 200)
    needed = needs.of_checkpoint(200)(['model.ckpt-again-200.index', 'model.ckpt-100.index'], None)
    assert needed['model.ckpt-again-200.index'] is needs.Need.WHOLE


@pytest.mark.parametrize('only_evaluates, order', [(True, ('eval.parquet', 'none')), (False, ('train.csv', 'records'))])
def test_evaluation_files_in_place_of_the_training_files_are_not_shuffled(only_evaluates, order):
    config = {**CONFIG, 'flags': {'train_files': 'train.csv', 'eval_files': 'eval.parquet', 'shuffle': 'records'}}
    found = finished_run._trainer_config(config, 'run', only_evaluates)
    assert (found.train_files, found.shuffle) == order


def test_a_built_in_job_has_its_new_params_by_their_defaults():
    job = jobs.load('mnist')
    params = {**job.params, 'learning_rate': 0.5}
    without = {name: value for name, value in params.items() if name not in ('turn_degrees', 'zoom')}
    config = {**CONFIG, 'job': 'mnist', 'params': without}
    assert loaded_run.with_params('run', config, job) == {**config, 'params': params}
    with pytest.raises(UsageError, match='the params of the job mnist have changed since: gone. Use the job as it was'):
        loaded_run.with_params('run', {**config, 'params': {**params, 'gone': 1}}, job)
    with pytest.raises(UsageError, match='changed since: turn_degrees, zoom'):
        loaded_run.with_params('run', {**config, 'job': 'own:mnist'}, job)


def test_what_reads_a_run_that_has_moved_writes_nothing_where_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = {**CONFIG, 'loop': 'keras_fit', 'flags': {'model_dir': '/where/it/was', 'batch_size': 8, 'gone': 1}}
    found = loaded_run.trainer_config(config, 'run')
    assert (found.model_dir, found.batch_size) == (str(tmp_path / 'run'), 8)
    assert (found.job, found.loop, found.seed, found.dataset) == ('own:job', 'keras_fit', 1, 'mnist_5k')
