"""inspect: runs of TensorFlow 1.15 and of this one, through the command."""

import json
import os
import re
import shutil

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saver_pb2

from estimator_trainer.tools.inspection import folder_findings, graph
from tests.tools.inspection import old_runs
from tests.tools.inspection.inspected import answers, cut, flip, inspect, saved, unlink

v1 = tf.compat.v1


def test_a_run_of_tensorflow_1(run, capsys):
    before = sorted((str(path), path.stat().st_mtime_ns) for path in run.rglob('*'))
    code, text, found = inspect(capsys, run)
    assert code == 0
    assert ' '.join(text.split('\n\n')[0].splitlines()[1:]) == (
        'A run of DNNLinearCombinedClassifier (the class of TensorFlow 1, here tf.compat.v1.estimator) at step 20: '
        '1 linear column, 2 deep columns, hidden layers of 6 and 3 units, 2 classes; Adagrad and Ftrl.'
    )
    assert 'written by TensorFlow 1.15.0' in text
    kind = found['kind']
    assert (kind['version'], kind['head'], kind['parts']) == ('V1', 'binary', ['linear', 'dnn'])
    assert found['columns'] == {'linear column': ['city'], 'deep column': ['age', 'city_embedding']}
    assert 'deep columns: age, city_embedding.' in text
    assert re.search(r'\n  linear/linear_model/city/weights +weight +float32 +100x1 +400 B +2 +Ftrl, Ftrl_1\n', text)
    assert [(each['name'], each['weights'], each['settings']['learning_rate']) for each in found['optimizers']] == [
        ('Adagrad', 7, [pytest.approx(0.05)]),
        ('Ftrl', 2, [pytest.approx(0.2)]),
    ]
    assert [(each['name'], each['step'], each['form'], each['damage']) for each in found['checkpoints']] == [
        ('model.ckpt-10', 10, 'V2', ''), ('model.ckpt-20', 20, 'V2', '')
    ]  # fmt: skip
    sizes = {
        each['name']: each['bytes'] for each in found['variables'] if each['of'] == 'linear/linear_model/city/weights'
    }
    assert sum(sizes.values()) == 2 * 100 * 4  # the two slots of Ftrl
    (export,) = found['exports']
    assert (export['version'], export['damage'], export['signatures'][0]['name']) == ('1.15.0', '', 'predict')
    assert export['features'] == {
        'age': 'float32 [1]', 'city': 'string, any number of values', 'hours': 'float32 [1], may be missing'
    }  # fmt: skip
    assert [each['step'] for each in found['evaluations']] == [10, 20]
    assert 'the lowest loss is 0.4, at step 20.' in text and 'the highest accuracy is 0.6, at step 20.' in text
    assert answers(found) == {
        'resume': 'with its program',
        'evaluate': 'with its program',
        'serve': 'yes',
        'migrate': 'with its program',
    }
    assert f'--model_dir={run} --to=FOLDER' in ' '.join(text.split())
    assert before == sorted((str(path), path.stat().st_mtime_ns) for path in run.rglob('*'))


def test_a_graph_alone(run, tmp_path, capsys):
    (tmp_path / 'graph').mkdir()
    shutil.copy(run / 'graph.pbtxt', tmp_path / 'graph')
    code, text, found = inspect(capsys, tmp_path / 'graph')
    assert (code, found['what']) == (0, 'A graph without a checkpoint that can be read.')
    assert found['graph']['applied'].keys() == {'Adagrad', 'Ftrl'} and 'graph.pbtxt holds a graph of' in text
    assert found['advice'] == []


def test_a_run_that_was_moved(run, capsys):
    (run / 'checkpoint').write_text('model_checkpoint_path: "/old/place/model.ckpt-20"\n')
    assert tf.train.latest_checkpoint(str(run)) is None
    code, text, found = inspect(capsys, run)
    assert (code, found['step']) == (0, 20)
    assert found['notes'] == [
        'The file `checkpoint` names /old/place/model.ckpt-20, in another folder. TensorFlow looks there.'
    ]
    assert 'First write `model_checkpoint_path: "model.ckpt-20"`' in ' '.join(text.split())


def test_a_saved_model_without_variables_and_events_alone(tmp_path, capsys):
    module = tf.Module()
    module.double = tf.function(lambda x: 2 * x, [tf.TensorSpec([None])])
    tf.saved_model.save(module, str(tmp_path / 'model'), module.double)
    assert inspect(capsys, tmp_path / 'model')[2]['what'] == 'A SavedModel without variables.'
    (tmp_path / 'events').mkdir()
    (tmp_path / 'events' / 'events.out.tfevents.1.host').touch()
    code, _, found = inspect(capsys, tmp_path / 'events')
    assert (code, found['what']) == (0, 'A model_dir without a checkpoint that can be read.')


def test_without_a_graph_there_may_be_more_deep_columns(run, capsys):
    unlink(*run.glob('*.meta'))
    shutil.rmtree(run / 'export')
    (run / 'graph.pbtxt').write_text('node { name: "' + 'x' * 1000)
    code, _, found = inspect(capsys, run)
    assert code == 65 and '1 linear column, at least 1 deep column, hidden' in found['what']
    assert 'graph.pbtxt: it cannot be parsed' in found['damage'][0] and len(found['damage'][0]) < 250


def test_one_checkpoint_of_several(run, capsys):
    code, text, found = inspect(capsys, run / 'model.ckpt-10', path=run)
    assert (code, found['step'], len(found['checkpoints'])) == (0, 10, 1)
    assert 'A checkpoint of DNNLinearCombinedClassifier' in text and 'First write' not in text


def test_several_folders_and_every_variable(run, capsys):
    code, text, found = inspect(capsys, saved(run), run, '--variables')
    assert code == 0 and [each['path'] for each in found] == [str(saved(run)), str(run)]
    assert re.search(r'\n  dnn/hiddenlayer_0/kernel/Adagrad +slot +float32 +5x6 ', text)
    assert answers(found[0]) == {'serve': 'yes'} and 'A SavedModel of Linear' in text
    code, text, _ = inspect(capsys, saved(run) / 'saved_model.pb', path=run)
    assert code == 0 and f'--export={saved(run)}`' in ' '.join(text.split())


def test_format_v1(tmp_path, capsys):
    old_runs.wide_and_deep(tmp_path / 'run', saver_pb2.SaverDef.V1)
    code, _, found = inspect(capsys, tmp_path / 'run')
    assert (code, found['step'], found['kind']['name']) == (0, 20, 'DNNLinearCombinedClassifier')
    assert {(each['form'], each['damage']) for each in found['checkpoints']} == {('V1', '')}
    assert {each['name']: each['shape'] for each in found['variables']}['linear/linear_model/city/weights'] == [100, 1]
    flip(tmp_path / 'run' / 'model.ckpt-20')
    code, _, found = inspect(capsys, tmp_path / 'run')
    assert (code, found['step']) == (65, 10) and 'has a wrong checksum' in found['damage'][0]
    cut(tmp_path / 'run' / 'model.ckpt-20')
    assert 'does not end as a table does' in inspect(capsys, tmp_path / 'run')[2]['damage'][0]


def test_format_v1_in_several_files(tmp_path, capsys):
    (tmp_path / 'run').mkdir()
    with tf.Graph().as_default(), v1.Session() as session:
        step = v1.train.get_or_create_global_step()
        v1.get_variable('w', [2, 3])
        session.run(v1.global_variables_initializer())
        session.run(step.assign(7))
        saver = v1.train.Saver(write_version=saver_pb2.SaverDef.V1, sharded=True, save_relative_paths=True)
        saver.save(session, str(tmp_path / 'run' / 'model.ckpt'), 5)
    code, _, found = inspect(capsys, tmp_path / 'run')
    assert (code, found['step'], found['damage'], found['notes']) == (0, 7, [], [])
    assert [(each['name'], each['form']) for each in found['checkpoints']] == [('model.ckpt-5', 'V1')]
    assert [(each['name'], each['shape']) for each in found['variables']] == [('global_step', []), ('w', [2, 3])]
    unlink(*(tmp_path / 'run').glob('model.ckpt-5-*'))
    assert inspect(capsys, tmp_path / 'run')[2]['damage'] == ['model.ckpt-5: its index is missing.']


def test_operations_that_are_unknown_here(tmp_path, capsys):
    old_runs.wide_and_deep(tmp_path / 'run', unknown_op=True)
    code, text, found = inspect(capsys, tmp_path / 'run')
    assert code == 0 and found['graph']['unknown'] == ['OperationOfContrib']
    assert 'OperationOfContrib' in text and '`assess` says what of the program' in ' '.join(text.split())


def test_large_files_are_left_and_said(run, capsys, monkeypatch):
    monkeypatch.setattr(graph, 'LARGEST_TEXT', 1000)
    monkeypatch.setattr(graph, 'LARGEST_META', 1000)
    monkeypatch.setattr(folder_findings, 'LARGEST_EVENTS', 10)
    code, _, found = inspect(capsys, run)
    assert code == 0 and found['evaluations'] == [] and found['graph'] is None
    assert [note.partition(' ')[0] for note in found['notes']] == [
        'model.ckpt-10.meta', 'model.ckpt-20.meta', 'graph.pbtxt', f'eval/{os.listdir(run / "eval")[0]}'
    ]  # fmt: skip
    assert found['kind']['head'] == 'binary'  # by the export


def test_a_run_of_this_trainer(run, capsys):
    config = {'job': 'mnist', 'loop': 'estimator', 'params': {'l2': 0.1}, 'seed': 3, 'global_batch_size': 64}
    config |= {'cluster': None, 'versions': None}
    config['flags'] = {'seed': 3, 'param': ['l2=0.1'], 'max_steps': 20, 'export': ['final'], 'deterministic': True}
    (run / 'config.json').write_text(json.dumps(config))
    (run / 'training.json').write_text(json.dumps({'state': 'ended', 'why': 'max_steps', 'step': 20, 'max_steps': 20}))
    lines = b'{"kind": "train", "step": 20, "loss": 0.25}\n5\n{"kind": "\xff\n{"kind": "tr'
    (run / 'metrics.jsonl').write_bytes(lines)
    (run / 'eval' / 'metrics.jsonl').write_text('{"loss": 0.5, "stfp": 20}\n{"loss": 0.5, "step": 20}\n')
    code, text, found = inspect(capsys, run)
    assert code == 0 and 'A run of this trainer, job mnist, with DNNLinearCombinedClassifier (the' in text
    command_line = found['own_run']['command']
    assert command_line.startswith('python -m estimator_trainer --') and command_line.endswith(f'--model_dir={run}')
    for given in ('--seed=3', '--param=l2=0.1', '--max_steps=20', '--export=final', '--deterministic'):
        assert given in command_line
    assert (
        re.search('It is done: [^.]*[.] Step 20 of 20.*loss 0.25', ' '.join(text.split())) and 'global batch 64' in text
    )
    assert answers(found) == {'resume': 'yes', 'evaluate': 'yes', 'serve': 'yes', 'migrate': 'yes'}
    assert '--dataset=' not in found['own_run']['command']
    assert [each['step'] for each in found['evaluations']] == [20]
    (run / 'damaged').mkdir()
    (run / 'damaged' / 'model.ckpt-15.index').touch()
    assert inspect(capsys, run)[2]['notes'] == ['damaged/ holds 1 checkpoint that the trainer has set aside.']
    (run / 'config.json').write_text('{"job": ')
    assert inspect(capsys, run)[2]['damage'][0].startswith('config.json is damaged: it is no JSON')


@pytest.mark.parametrize('version', ['V1', 'V2'])
def test_a_real_canned_estimator(tmp_path, capsys, version):
    column = tf.feature_column.categorical_column_with_hash_bucket('city', 50)
    deep = [tf.feature_column.embedding_column(column, 4), tf.feature_column.numeric_column('age')]
    if version == 'V1':
        more = {'input_layer_partitioner': v1.fixed_size_partitioner(3), 'optimizer': 'Adam'}
        kind = v1.estimator.DNNRegressor
    else:
        more, kind = {'optimizer': 'Adam'}, tf.estimator.DNNRegressor
    estimator = kind([5], deep, str(tmp_path / 'run'), **more)
    data = {'city': ['a', 'b'], 'age': [1.0, 2.0]}, [1.0, 2.0]
    estimator.train(lambda: tf.data.Dataset.from_tensors(data).repeat(), steps=2)
    code, text, found = inspect(capsys, tmp_path / 'run')
    assert (code, found['damage'], found['step']) == (0, [], 2)
    assert (found['kind']['name'], found['kind']['version'], found['kind']['width']) == ('DNNRegressor', version, 1)
    assert found['columns'] == {'linear column': [], 'deep column': ['age', 'city_embedding']}
    slices = {
        each['shape'][-1]: each['slices'] for each in found['variables'] if each['name'].endswith('/embedding_weights')
    }
    assert slices == {4: 3 if version == 'V1' else 1}
    (adam,) = found['optimizers']
    assert (adam['name'], adam['weights']) == ('Adam', 5)
    assert sum(each['bytes'] for each in found['variables'] if each['role'] == 'slot') == 2 * 4 * (
        50 * 4 + 5 * 5 + 5 + 5 + 1
    )


def test_a_tree_of_objects(tmp_path, capsys):
    model = tf.keras.Sequential([tf.keras.layers.Dense(3, name='first'), tf.keras.layers.Dense(1, name='last')])
    optimizer = tf.keras.optimizers.legacy.SGD(0.1, momentum=0.9)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(tf.ones([2, 2])))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    tf.train.Checkpoint(model=model, optimizer=optimizer, step=tf.Variable(7)).save(str(tmp_path / 'run' / 'ckpt'))
    code, text, found = inspect(capsys, tmp_path / 'run')
    assert (code, found['step'], found['kind']['family']) == (0, 7, 'objects')
    weights = [each['shape'] for each in found['variables'] if each['role'] == 'weight']
    assert sorted(weights) == [[1], [2, 3], [3], [3, 1]] and found['columns'] == {}
    assert '4 weights of 13 numbers' in found['what']
    (sgd,) = found['optimizers']
    assert sgd['slots'] == ['momentum'] and sgd['weights'] == 4 and sgd['name'].startswith('SGD')
    assert sgd['settings']['learning_rate'] == [pytest.approx(0.1)]
