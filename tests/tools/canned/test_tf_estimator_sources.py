"""Somebody's program, its checkpoint and the folder of the result: what is wrong is named and leaves nothing."""

import os
import pathlib
import sys

import pytest
import tensorflow as tf

from estimator_trainer import compat, exit_codes
from estimator_trainer.errors import UsageError
from estimator_trainer.tools.migrate import migrate_command
from estimator_trainer.tools.migrate.canned import conversion, estimator_sources, programs

compat.bring_up()
PROGRAM = """
import argparse
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument('--rate', type=float, default=0.5)
ARGUMENTS = parser.parse_args()


def input_fn():
    return tf.data.Dataset.from_tensors(({'x': [[1.0]]}, [[2.0]]))


def make_estimator():
    columns = [tf.feature_column.numeric_column('x')]
    return tf.estimator.LinearRegressor(columns, model_dir=MODEL_DIR, config=None)


def make_old():
    columns = [tf.feature_column.numeric_column('x')]
    return tf.compat.v1.estimator.LinearRegressor(columns, model_dir=MODEL_DIR)


def make_nothing():
    return ARGUMENTS.rate


def fail():
    raise SystemExit('--data_dir is required')
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    """FILE.py; the command line is migrate's."""
    monkeypatch.setattr(sys, 'argv', ['migrate', '--program=program.py:make_estimator'])
    monkeypatch.setattr(sys, 'path', list(sys.path))
    path = tmp_path / 'a_program.py'
    path.write_text(f'MODEL_DIR = {str(tmp_path / "model_dir")!r}\n{PROGRAM}')
    yield path
    sys.modules.pop('a_program', None)


@pytest.mark.parametrize(
    'function, says',
    [('make_nothing', 'make_nothing gives a float; let it return an Estimator'), ('fail', 'SystemExit: --data_dir is')],
)
def test_a_program_that_gives_no_estimator(program, function, says):
    with pytest.raises(UsageError, match=says):
        estimator_sources.of_program(f'{program}:{function}', 'input_fn', '')


@pytest.mark.parametrize('function', ['make_estimator', 'make_old'])
def test_estimators_of_both_versions_are_taken(program, function):
    with pytest.raises(UsageError, match='holds no checkpoint'):
        estimator_sources.of_program(f'{program}:{function}', 'input_fn', '')


def test_a_program_that_cannot_be_imported(program):
    program.write_text('import nothing_of_this_name')
    with pytest.raises(UsageError, match='ModuleNotFoundError.*without flags'):
        estimator_sources.of_program(f'{program}:make_estimator', 'input_fn', '')


@pytest.mark.parametrize('line, name', [('tf.app.flags', 'tf.app'), ('tf.contrib.layers', 'tf.contrib')])
def test_a_program_of_tensorflow_1_is_told_of_its_names(program, line, name):
    program.write_text(f'import tensorflow as tf\n{line}\n')
    with pytest.raises(
        UsageError, match=f'{name} is of TensorFlow 1: write `import tensorflow.compat.v1 as tf`'
    ) as error:
        estimator_sources.of_program(f'{program}:make_estimator', 'input_fn', '')
    assert 'without flags' not in str(error.value)


def test_a_model_dir_of_another_program_needs_the_program(tmp_path, capsys):
    (tmp_path / 'foreign').mkdir()
    (tmp_path / 'foreign' / 'checkpoint').touch()
    assert migrate_command.main([f'--model_dir={tmp_path / "foreign"}', f'--to={tmp_path / "to"}']) == exit_codes.USAGE
    said = capsys.readouterr().err
    assert (
        'has no config.json' in said and '--program=FILE.py:FUNCTION as well' in said and '--input_fn=FUNCTION' in said
    )
    assert not (tmp_path / 'to').exists()


def test_a_checkpoint_that_is_none_of_an_estimator(program, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv('TF_CONFIG', '{}')
    model_dir = tmp_path / 'model_dir'
    tf.train.CheckpointManager(tf.train.Checkpoint(global_step=tf.Variable(1, dtype=tf.int64)), model_dir, 1).save()
    arguments = [f'--program={program}:make_estimator', '--input_fn=input_fn', f'--to={tmp_path / "to"}']
    assert migrate_command.main(arguments) == exit_codes.USAGE
    assert f"{model_dir}: its checkpoint is a Keras loop's" in capsys.readouterr().err
    data = next(model_dir.glob('*.data-*'))
    data.write_bytes(data.read_bytes()[:-1])
    assert migrate_command.main(arguments) == exit_codes.DAMAGED
    assert 'cannot be read' in capsys.readouterr().err
    assert 'TF_CONFIG' not in os.environ  # an Estimator of one task of a cluster would wait for the others


def test_a_model_that_keras_refuses_leaves_nothing_behind(tmp_path, monkeypatch):
    columns = [tf.feature_column.numeric_column('x')]
    estimator = tf.estimator.LinearRegressor(columns, model_dir=str(tmp_path / 'model_dir'))

    def batches():
        return tf.data.Dataset.from_tensors(({'x': [[1.0]]}, [[2.0]]))

    estimator.train(batches)
    source = conversion.CannedEstimator(estimator, batches, batches, estimator.latest_checkpoint())
    to = tmp_path / 'to'
    to.mkdir()

    def refuses(python, name, work, result):
        pathlib.Path(result, 'model.keras').write_text('half of it')
        raise programs.CannotMigrate(name)

    monkeypatch.setattr(programs, 'run', refuses)
    monkeypatch.setattr(programs, 'check_keras', lambda python: None)
    with pytest.raises(programs.CannotMigrate, match='build.py'):
        conversion.migrate(source, str(to), '')
    assert not list(to.iterdir())


@pytest.mark.parametrize('there', [[], ['mine'], ['mine', 'mine/to']])
def test_a_refusal_leaves_no_folder_that_it_has_made(program, tmp_path, there):
    for name in there:
        (tmp_path / name).mkdir()
    to = tmp_path / 'mine' / 'to'
    arguments = [f'--program={program}:make_estimator', '--input_fn=input_fn', f'--to={to}']
    assert migrate_command.main(arguments) == exit_codes.USAGE  # no checkpoint
    assert [name for name in ('mine', 'mine/to') if (tmp_path / name).exists()] == there
