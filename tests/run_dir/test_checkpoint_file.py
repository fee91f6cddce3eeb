"""Which step the file `checkpoint` names."""

import pytest

from estimator_trainer.run_dir import checkpoint_file

OTHERS = 'all_model_checkpoint_paths: "model.ckpt-80"\nall_model_checkpoint_paths: "model.ckpt-100"\n'


@pytest.mark.parametrize(
    'text, step',
    [
        (f'model_checkpoint_path: "model.ckpt-100"\n{OTHERS}', 100),
        (f'{OTHERS}model_checkpoint_path: "/a folder/model.ckpt-40"\n', 40),
        ('model_checkpoint_path: "/na\\303\\257ve-7/\\"quoted\\"/model.ckpt-0"\r\n', 0),
        ('model_checkpoint_path: "model.ckpt"\n', None),
        ('model_checkpoint_path: "model.ckpt-1', None),
        (OTHERS, None),
        ('', None),
        ('\0\ufffd', None),
    ],
)
def test_the_named_step(tmp_path, text, step):
    (tmp_path / 'checkpoint').write_text(text, encoding='utf-8')
    assert checkpoint_file.named_step(str(tmp_path)) == step


def test_none_where_there_is_no_such_file(tmp_path):
    assert checkpoint_file.named_step(str(tmp_path)) is None
    (tmp_path / 'checkpoint').mkdir()
    assert checkpoint_file.named_step(str(tmp_path)) is None
