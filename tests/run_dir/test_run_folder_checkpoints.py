"""The checkpoints and exports of a RunFolder."""

import os

import pytest

from estimator_trainer.run_dir import file_names
from estimator_trainer.run_dir.listed_files import Checkpoint, Export
from estimator_trainer.run_dir.run_folder import RunFolder
from tests.run_dir.test_run_folder import write


def test_checkpoints(tmp_path):
    for name in ('model.ckpt-100', 'model.ckpt-20', 'model.ckpt-again-20', 'words', 'damaged/model.ckpt-7'):
        write(tmp_path, f'{name}.index', '12345')
    write(tmp_path, 'model.ckpt-20.data-00000-of-00001', '1234567')
    write(tmp_path, 'model.ckpt-20.meta', '1')
    write(tmp_path, 'model.ckpt-3.data-00000-of-00001', 'no index: its writer was killed')
    os.utime(tmp_path / 'model.ckpt-20.index', (50, 50))
    run = RunFolder(str(tmp_path))
    assert [(each.name, each.step, each.bytes, each.is_damaged) for each in run.checkpoints] == [
        ('words', None, 5, False),
        ('model.ckpt-20', 20, 13, False),
        ('model.ckpt-again-20', 20, 5, False),
        ('model.ckpt-100', 100, 5, False),
        ('model.ckpt-7', 7, 5, True),
    ]
    assert run.checkpoints[1] == Checkpoint('model.ckpt-20', 20, 13, 50.0)
    assert run.steps == {20, 100} and run.has_checkpoint


def test_twins():
    assert file_names.twin_of('model.ckpt-20') == 'model.ckpt-again-20' and file_names.twin_of('words') == 'words-again'
    assert file_names.step_of(file_names.twin_of('model.ckpt-20')) == 20 and file_names.step_of('words') is None


def test_a_checkpoint_that_is_removed_while_it_is_listed(tmp_path):
    write(tmp_path, 'model.ckpt-1.index')
    run = RunFolder(str(tmp_path))
    assert run.entries == ['model.ckpt-1.index']
    (tmp_path / 'model.ckpt-1.index').unlink()
    assert [(each.step, each.bytes, each.time) for each in run.checkpoints] == [(1, 0, 0.0)]


OTHERS = 'all_model_checkpoint_paths: "model.ckpt-80"\nall_model_checkpoint_paths: "model.ckpt-100"\n'


@pytest.mark.parametrize(
    'text, step, is_torn',
    [
        (f'model_checkpoint_path: "model.ckpt-100"\n{OTHERS}', 100, False),
        (f'{OTHERS}model_checkpoint_path: "/a folder/model.ckpt-40"\n', 40, False),
        ('model_checkpoint_path: "/na\\303\\257ve-7/\\"quoted\\"/model.ckpt-0"\r\n', 0, False),
        ('model_checkpoint_path: "model.ckpt-1"\nall_model_checkpoint_timestamps: 1.5\n', 1, False),
        ('model_checkpoint_path: "model.ckpt"\n', None, False),
        ('model_checkpoint_path: "model.ckpt-1', None, True),
        (OTHERS, None, False),
        ('', None, True),
        ('\0\ufffd', None, True),
    ],
)
def test_the_file_checkpoint(tmp_path, text, step, is_torn):
    (tmp_path / 'checkpoint').write_text(text, encoding='utf-8')
    run = RunFolder(str(tmp_path))
    assert (run.named_step, run.pointer.is_torn) == (step, is_torn)
    assert run.has_checkpoint == bool(run.pointer.path)


def test_where_the_file_checkpoint_is_a_folder(tmp_path):
    (tmp_path / 'checkpoint').mkdir()
    run = RunFolder(str(tmp_path))
    assert run.named_step is None and not run.has_checkpoint and run.pointer == file_names.Pointer('', (), False)


def test_when_the_named_checkpoint_was_written(tmp_path):
    write(tmp_path, 'checkpoint', 'model_checkpoint_path: "model.ckpt-5"\n')
    assert RunFolder(str(tmp_path)).named_time is None
    write(tmp_path, 'model.ckpt-5.index')
    os.utime(tmp_path / 'model.ckpt-5.index', (50, 50))
    assert RunFolder(str(tmp_path)).named_time == 50.0


def test_exports(tmp_path):
    for name in ('final/9', 'final/10', 'best/1700000000000', 'step_3/1', 'final/temp-11'):
        write(tmp_path, f'export/{name}/saved_model.pb')
    (tmp_path / 'export/final/12').mkdir()
    write(tmp_path, 'export/best/13', 'a file')
    exports = RunFolder(str(tmp_path)).exports
    assert [(each.kind, each.number, each.is_whole) for each in exports] == [
        ('best', 1700000000000, True),
        ('final', 9, True),
        ('final', 10, True),
        ('final', 12, False),
        ('step_3', 1, True),
    ]
    assert exports[1] == Export('export/final/9', True) and exports[1].time == 9
    assert exports[0].time == 1_700_000_000.0


def test_checkpoint_files_of_either_format(tmp_path):
    for name in ('model.ckpt-20.index', 'model.ckpt-20.meta', 'model.ckpt-3.data-00000-of-00001', 'model.ckpt-1.meta'):
        write(tmp_path, name)
    for name in ('model.ckpt-7-00000-of-00002', 'model.ckpt-7-00001-of-00002', 'model.ckpt-7.meta', 'my.ckpt', 'old'):
        write(tmp_path, name)
    (tmp_path / 'folder.ckpt-5').mkdir()
    write(tmp_path, 'checkpoint', 'model_checkpoint_path: "model.ckpt-7-?????-of-00002"\n'
          'all_model_checkpoint_paths: "old"\n')  # fmt: skip
    run = RunFolder(str(tmp_path))
    assert run.checkpoint_files == {
        'my.ckpt': ['my.ckpt'],
        'old': ['old'],
        'model.ckpt-3': ['model.ckpt-3.data-00000-of-00001'],
        'model.ckpt-7': ['model.ckpt-7-00000-of-00002', 'model.ckpt-7-00001-of-00002', 'model.ckpt-7.meta'],
        'model.ckpt-20': ['model.ckpt-20.index', 'model.ckpt-20.meta'],
    }
    assert list(run.checkpoint_files) == ['my.ckpt', 'old', 'model.ckpt-3', 'model.ckpt-7', 'model.ckpt-20']
    assert run.pointer.name == 'model.ckpt-7' and run.saved_models == []


@pytest.mark.parametrize('name', ['saved_model.pb', 'a/saved_model.pb', 'export/best/7/saved_model.pbtxt'])
def test_saved_models(tmp_path, name):
    write(tmp_path, name)
    for other in ('a/b/c/d/saved_model.pb', 'export/final/temp-8/saved_model.pb', '.hidden/saved_model.pb'):
        write(tmp_path, other)
    assert RunFolder(str(tmp_path)).saved_models == [os.path.dirname(name) or '.']
