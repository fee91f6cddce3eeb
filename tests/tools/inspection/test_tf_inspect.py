"""inspect: runs of TensorFlow 1.15 and of this one, whole and damaged, through the command."""

import json
import os
import re
import shutil

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2, saver_pb2

from estimator_trainer.run_dir import bundle
from estimator_trainer.tools.inspection import folder, folder_findings, graph, inspect_command
from tests.tools.inspection import old_runs

v1 = tf.compat.v1


@pytest.fixture(scope='session')
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp('made')
    old_runs.wide_and_deep(folder / 'run')
    return folder / 'run'


@pytest.fixture
def run(made, tmp_path):
    return shutil.copytree(made, tmp_path / 'run')


def inspect(capsys, *argv, path=None):
    """(exit code, text, JSON)."""
    out = str(path or argv[0]).rstrip('/') + '.json'
    code = inspect_command.main([*map(str, argv), f'--json={out}'])
    shown = capsys.readouterr()
    assert shown.err == ''
    with open(out, encoding='utf-8') as file:
        return code, shown.out, json.load(file)


def answers(found):
    return {each['what']: each['answer'] for each in found['advice']}


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


def cut(path, left=0.5):
    os.truncate(path, int(os.path.getsize(path) * left))


def flip(path, place=0.5):
    content = bytearray(path.read_bytes())
    content[int(len(content) * place)] ^= 1
    path.write_bytes(content)


def unlink(*paths):
    for path in paths:
        path.unlink()


DAMAGES = {
    'data cut': (lambda run: cut(run / 'model.ckpt-20.data-00000-of-00001'), 'it was cut short', 10),
    'data missing': (lambda run: unlink(*run.glob('model.ckpt-20.data-*')), 'data-00000-of-00001 is missing', 10),
    'a bit of the data': (lambda run: flip(run / 'model.ckpt-20.data-00000-of-00001'), 'Checksum does not match', 10),
    'index cut': (lambda run: cut(run / 'model.ckpt-20.index'), 'model.ckpt-20.index cannot be read', 10),
    'index missing': (lambda run: unlink(run / 'model.ckpt-20.index'), 'its index is missing', 10),
    'checkpoint missing': (lambda run: unlink(*run.glob('model.ckpt-20.*')), 'which is not there', 10),
    'state torn': (lambda run: cut(run / 'checkpoint', 0.2), 'The file `checkpoint` is empty, was cut short', 20),
    'meta cut': (lambda run: cut(run / 'model.ckpt-20.meta', 0.9), 'model.ckpt-20.meta: it cannot be parsed', 20),
    'meta empty': (lambda run: cut(run / 'model.ckpt-20.meta', 0), 'it holds no graph', 20),
    'graph.pbtxt cut': (lambda run: cut(run / 'graph.pbtxt'), 'graph.pbtxt: it cannot be parsed', 20),
    'saved_model.pb cut': (lambda run: cut(saved(run) / 'saved_model.pb', 0.9), 'cannot be parsed', 20),
    'saved_model.pb empty': (lambda run: cut(saved(run) / 'saved_model.pb', 0), 'holds no graph', 20),
    'variables missing': (lambda run: shutil.rmtree(saved(run) / 'variables'), 'its variables are missing', 20),
    'variables cut': (lambda run: cut(next(saved(run).glob('variables/*.data*'))), 'it was cut short', 20),
}


def saved(run):
    return run / 'export' / 'final' / '1500000000'


@pytest.mark.parametrize('name', DAMAGES)
def test_damage_is_one_sentence_and_the_rest_is_told(run, capsys, name):
    harm, said, whole = DAMAGES[name]
    harm(run)
    code, text, found = inspect(capsys, run)
    assert code == 65
    assert len(found['damage']) == 1 and said in found['damage'][0] and '\n' not in found['damage'][0]
    assert (found['newest_whole_checkpoint'], found['step']) == (f'model.ckpt-{whole}', whole)
    assert found['kind']['name'] == 'DNNLinearCombinedClassifier'
    assert answers(found)['resume'] == 'with its program'
    assert ('First write `model_checkpoint_path: "' in ' '.join(text.split())) == (whole == 10 or name == 'state torn')
    assert answers(found)['serve'] == ('no' if 'saved_model' in name or 'variables' in name else 'yes')


def test_data_that_were_never_finished_are_a_note(run, capsys):
    shutil.copy(run / 'model.ckpt-20.data-00000-of-00001', run / 'model.ckpt-30.data-00000-of-00001')
    code, _, found = inspect(capsys, run)
    assert (code, found['step'], found['damage']) == (0, 20, [])
    assert found['notes'] == ['model.ckpt-30 has no index: its writer did not finish it, or the index was removed.']


def test_a_checkpoint_that_a_run_removes_meanwhile(run, capsys, monkeypatch):
    real = folder.find

    def find(path):
        place = real(path)
        unlink(*run.glob('model.ckpt-10.*'))
        return place

    monkeypatch.setattr(folder, 'find', find)
    code, _, found = inspect(capsys, run)
    assert (code, found['step'], found['notes']) == (0, 20, ['model.ckpt-10 was removed while it was read.'])


def test_a_file_that_cannot_be_read(run, capsys):
    (run / 'checkpoint').unlink()
    (run / 'checkpoint').mkdir()
    assert inspect_command.main([str(run)]) == 74
    assert (
        capsys.readouterr().err
        == f'error: {run}/checkpoint: Is a directory; mend that, then give the same command again\n'
    )


def test_no_checkpoint_is_whole(run, capsys):
    for path in run.glob('model.ckpt-*.data*'):
        cut(path)
    code, text, found = inspect(capsys, run)
    assert (code, found['newest_whole_checkpoint'], len(found['damage'])) == (65, None, 2)
    assert found['kind']['name'] == 'DNNLinearCombinedClassifier'  # the index is whole
    assert found['what'].endswith('. No checkpoint of it is whole.')
    assert answers(found) == {'resume': 'no', 'evaluate': 'no', 'serve': 'yes', 'migrate': 'no'}


def test_a_graph_alone(run, tmp_path, capsys):
    (tmp_path / 'graph').mkdir()
    shutil.copy(run / 'graph.pbtxt', tmp_path / 'graph')
    code, text, found = inspect(capsys, tmp_path / 'graph')
    assert (code, found['what']) == (0, 'A graph without a checkpoint that can be read.')
    assert found['graph']['applied'].keys() == {'Adagrad', 'Ftrl'} and 'graph.pbtxt holds a graph of' in text
    assert found['advice'] == []


def test_sizes_alone_do_not_see_a_changed_bit(run, capsys):
    flip(run / 'model.ckpt-10.data-00000-of-00001')
    for verify, code, state in (
        ('all', 65, 'damaged'),
        ('newest', 0, 'whole by its sizes'),
        ('sizes', 0, 'whole by its sizes'),
    ):
        done, text, found = inspect(capsys, run, f'--verify={verify}')
        assert done == code and f'V2    {state}' in text
        assert found['checkpoints'][1]['checked'] == ('sizes' if verify == 'sizes' else 'checksums')


def test_a_step_that_cannot_be_read_is_damage_whatever_is_verified(run, capsys):
    data = run / 'model.ckpt-20.data-00000-of-00001'
    entry = bundle.read(str(run / 'model.ckpt-20')).tensors['global_step']
    flip(data, (entry.offset + 0.5) / data.stat().st_size)
    code, _, found = inspect(capsys, run, '--verify=sizes')
    assert (code, found['step']) == (65, 10) and 'model.ckpt-20: ' in found['damage'][0]


def test_a_run_that_was_moved(run, capsys):
    (run / 'checkpoint').write_text('model_checkpoint_path: "/old/place/model.ckpt-20"\n')
    assert tf.train.latest_checkpoint(str(run)) is None
    code, text, found = inspect(capsys, run)
    assert (code, found['step']) == (0, 20)
    assert found['notes'] == [
        'The file `checkpoint` names /old/place/model.ckpt-20, in another folder. TensorFlow looks there.'
    ]
    assert 'First write `model_checkpoint_path: "model.ckpt-20"`' in ' '.join(text.split())


def test_a_graph_that_can_be_parsed_and_makes_no_sense(run, capsys):
    meta = meta_graph_pb2.MetaGraphDef()
    meta.graph_def.node.add(name='train', op='ApplyGradientDescent', input=['w', 'rate', 'gradient'])
    meta.graph_def.node.add(name='rate', op='Const')  # its value has no type
    for name in old_runs.STEPS:
        (run / f'model.ckpt-{name}.meta').write_bytes(meta.SerializeToString())
    model = saved_model_pb2.SavedModel()
    model.meta_graphs.add().CopyFrom(meta)
    (saved(run) / 'saved_model.pb').write_bytes(model.SerializeToString())
    code, _, found = inspect(capsys, run)
    assert code == 65 and [each.partition(' (')[0] for each in found['damage']] == [
        'model.ckpt-10.meta: its graph was changed',
        'model.ckpt-20.meta: its graph was changed',
        'export/final/1500000000: its saved_model.pb: its graph was changed',
    ]
    assert found['kind']['name'] == 'DNNLinearCombinedClassifier'


@pytest.mark.parametrize(
    'harm, code, sentence',
    [
        (lambda run: unlink(*run.glob('model.ckpt-*.*'), run / 'checkpoint'), 0, 'A SavedModel of LinearClassifier: '),
        (
            lambda run: [cut(path) for path in run.glob('model.ckpt-*.index')],
            65,
            'A run without a checkpoint that can be read; its SavedModel is of LinearClassifier: ',
        ),
    ],
)
def test_without_a_checkpoint_the_export_is_described(run, capsys, harm, code, sentence):
    harm(run)
    done, _, found = inspect(capsys, run)
    assert done == code and found['what'].startswith(sentence)


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


def test_an_asset_is_missing_and_saved_model_as_text(tmp_path, capsys):
    old_runs.export(tmp_path / 'export', asset=True)
    code, _, found = inspect(capsys, tmp_path / 'export')
    assert (code, found['damage']) == (65, ['saved_model.pb: assets/words.txt is missing.'])
    (tmp_path / 'export' / 'assets').mkdir()
    (tmp_path / 'export' / 'assets' / 'words.txt').touch()
    old_runs.as_text(tmp_path / 'export' / 'saved_model.pb')
    code, _, found = inspect(capsys, tmp_path / 'export')
    assert code == 0 and list(found['exports'][0]['features']) == ['age', 'city', 'hours']


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


def test_events_that_end_within_a_record(run, capsys):
    (events,) = (run / 'eval').iterdir()
    os.truncate(events, events.stat().st_size - 5)
    code, _, found = inspect(capsys, run)
    assert code == 0 and [each['step'] for each in found['evaluations']] == [10]
    assert 'ends within a record' in found['notes'][0]


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
