"""folder: what a folder holds, by names alone, and what is refused."""

import pytest

from estimator_trainer.errors import UsageError
from estimator_trainer.tools.inspection import folder, inspect_command, inspect_report
from estimator_trainer.tools.inspection.folder_findings import EvaluationMetrics


def write(root, *names, text=''):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding='utf-8')


STATE = 'model_checkpoint_path: "/old/place/model.ckpt-20"\nall_model_checkpoint_paths: "/old/place/model.ckpt-3"\n'


@pytest.fixture
def model_dir(tmp_path):
    root = tmp_path / 'run'
    for step in (20, 3):
        parts = ('index', 'meta', 'data-00000-of-00002', 'data-00001-of-00002')
        write(root, *(f'model.ckpt-{step}.{part}' for part in parts))
    write(
        root,
        'graph.pbtxt',
        'events.out.tfevents.1.host',
        'eval/events.out.tfevents.2.host',
        'eval_x/events.out.tfevents.3',
    )
    write(
        root,
        'export/best/17/saved_model.pb',
        'export/final/18/saved_model.pbtxt',
        'export/final/temp-19/saved_model.pb',
    )
    write(root, 'checkpoint', text=STATE)
    return root


def test_a_model_dir(model_dir):
    place = folder.find(str(model_dir))
    assert list(place.checkpoints) == ['model.ckpt-3', 'model.ckpt-20']  # by step, and not by the alphabet
    assert len(place.checkpoints['model.ckpt-3']) == 4
    assert place.run.pointer.name == 'model.ckpt-20' and not place.has_torn_pointer
    assert place.elsewhere == '/old/place/model.ckpt-20'  # the folder was moved
    assert place.run.saved_models == ['export/best/17', 'export/final/18']
    assert place.run.evaluation_folders == ['eval', 'eval_x'] and len(place.run.events()) == 1
    assert not place.only


@pytest.mark.parametrize('name', ['model.ckpt-20', 'model.ckpt-20.meta', 'model.ckpt-20.data-00000-of-00002'])
def test_one_checkpoint(model_dir, name):
    assert folder.find(str(model_dir / name)).only == 'model.ckpt-20'


@pytest.mark.parametrize('name', ['checkpoint', 'graph.pbtxt'])
def test_a_file_of_the_folder_means_the_folder(model_dir, name):
    place = folder.find(str(model_dir / name))
    assert (place.only, place.path, len(place.checkpoints)) == ('', str(model_dir), 2)


@pytest.mark.parametrize(
    'text',
    [
        '',
        'model_checkpoint_pa',
        'model_checkpoint_path: "model.ck',
        '\0' * 40,
        'all_model_checkpoint_paths: "model.ckpt-3"\n',
        '{"a": 1}\n',
    ],
)
def test_a_torn_file_checkpoint(model_dir, text):
    write(model_dir, 'checkpoint', text=text)
    place = folder.find(str(model_dir))
    assert place.has_torn_pointer and len(place.checkpoints) == 2


@pytest.mark.parametrize('path', ['model.ckpt-20', './model.ckpt-20', '{root}/model.ckpt-20', '{link}/model.ckpt-20'])
def test_a_path_to_this_folder_is_not_elsewhere(model_dir, path):
    link = model_dir.parent / 'link'
    link.symlink_to(model_dir)
    path = path.format(root=model_dir, link=link)
    write(model_dir, 'checkpoint', text=f'model_checkpoint_path: "{path}"\n')
    place = folder.find(str(model_dir))
    assert (place.run.pointer.name, place.elsewhere) == ('model.ckpt-20', '')


def test_what_tensorflow_2_adds_to_the_file_checkpoint_is_no_damage(model_dir):
    more = 'all_model_checkpoint_timestamps: 1760000000.25\nlast_preserved_timestamp: 1.7e+09\n'
    write(model_dir, 'checkpoint', text=STATE + more)
    assert not folder.find(str(model_dir)).has_torn_pointer


def test_graphs_of_checkpoints_that_were_removed_are_no_checkpoints(model_dir):
    write(model_dir, 'model.ckpt-1.meta')
    assert list(folder.find(str(model_dir)).checkpoints) == ['model.ckpt-3', 'model.ckpt-20']


@pytest.mark.parametrize(
    'made, named, said',
    [
        ([], '', 'is empty.'),
        ([], 'nowhere', 'there is no such folder or checkpoint.'),
        (['model.h5', 'a.txt'], '', 'It holds a.txt, model.h5.'),
        ([f'{number}.csv' for number in range(9)], '', '4.csv, 5.csv and 3 more.'),
        (['a.txt'], 'a.txt', 'is no file of a checkpoint'),
    ],
)
def test_what_is_nothing_of_tensorflow_is_refused(tmp_path, capsys, made, named, said):
    root = tmp_path / 'folder'
    root.mkdir()
    write(root, *made)
    with pytest.raises(UsageError):
        folder.find(str(root / named))
    assert inspect_command.main([str(root / named)]) == 64
    error = capsys.readouterr().err
    assert error.startswith(f'error: {root / named}') and said in error and len(error.splitlines()) == 1


@pytest.mark.parametrize(
    'argv, said', [([], 'name the folders'), (['--jsn=x'], '--json?'), (['x', '--verify=no'], 'verify')]
)
def test_mistakes_in_flags(capsys, argv, said):
    assert inspect_command.main(argv) == 64
    assert said in capsys.readouterr().err


def test_an_evaluation_that_is_not_finite_is_never_the_best():
    losses, nan = [float('nan'), 0.5, 0.7, float('-inf')], {'loss': float('nan')}
    every = [EvaluationMetrics('eval', step, {'loss': loss, 'auc': 1 - loss}) for step, loss in enumerate(losses)]
    said = inspect_report._evaluation_lines(
        [*every, EvaluationMetrics('other', 1, nan), EvaluationMetrics('other', 2, nan)]
    )
    assert said == [
        'eval: 4 evaluations; the last one at step 3: auc inf, loss -inf.',
        'eval: the lowest loss is 0.5, at step 1.',
        'eval: the highest auc is 0.5, at step 1.',
        'other: 2 evaluations; the last one at step 2: loss nan.',
    ]
