"""inspect: runs that are damaged, or change while they are read."""

import os
import shutil

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

from estimator_trainer.run_dir import bundle
from estimator_trainer.tools.inspection import folder, inspect_command
from tests.tools.inspection import old_runs
from tests.tools.inspection.inspected import answers, cut, flip, inspect, saved, unlink

v1 = tf.compat.v1

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


def test_an_asset_is_missing_and_saved_model_as_text(tmp_path, capsys):
    old_runs.export(tmp_path / 'export', asset=True)
    code, _, found = inspect(capsys, tmp_path / 'export')
    assert (code, found['damage']) == (65, ['saved_model.pb: assets/words.txt is missing.'])
    (tmp_path / 'export' / 'assets').mkdir()
    (tmp_path / 'export' / 'assets' / 'words.txt').touch()
    old_runs.as_text(tmp_path / 'export' / 'saved_model.pb')
    code, _, found = inspect(capsys, tmp_path / 'export')
    assert code == 0 and list(found['exports'][0]['features']) == ['age', 'city', 'hours']


def test_events_that_end_within_a_record(run, capsys):
    (events,) = (run / 'eval').iterdir()
    os.truncate(events, events.stat().st_size - 5)
    code, _, found = inspect(capsys, run)
    assert code == 0 and [each['step'] for each in found['evaluations']] == [10]
    assert 'ends within a record' in found['notes'][0]
