"""run_dir.removal: only what a proof covers is removed, and each proof covers what it says."""

import os

import pytest

from estimator_trainer.run_dir import removal


def written(path, text=''):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_file_goes_only_with_a_proof(tmp_path):
    mine, ours = written(tmp_path / 'thesis.tex'), written(tmp_path / 'part-1.tmp')
    proof = removal.Named(r'part-\d+\.tmp')
    assert removal.file(str(ours), proof) and not removal.file(str(ours), proof)
    with pytest.raises(removal.NotOurs, match='thesis.tex is not a file of this program, and stays'):
        removal.file(str(mine), proof)
    with pytest.raises(removal.NotOurs):
        removal.file(str(written(tmp_path / 'part-1.tmp.bak')), proof)  # the whole name has to match
    assert sorted(os.listdir(tmp_path)) == ['part-1.tmp.bak', 'thesis.tex']


def test_a_list_covers_what_is_in_it(tmp_path):
    one, other = written(tmp_path / 'one'), written(tmp_path / 'other')
    removal.files_in(str(tmp_path), removal.Written([str(one)]))
    assert os.listdir(tmp_path) == [other.name]


def test_a_mark_covers_what_is_below_it_and_no_more(tmp_path):
    folder = removal.claim(str(tmp_path / 'cache'))
    outside = written(tmp_path / 'cache2' / 'file')
    written(tmp_path / 'cache' / 'a' / 'file')
    os.symlink(tmp_path / 'cache2', tmp_path / 'cache' / 'link')
    proof = removal.Marked(folder)
    assert proof.covers(f'{folder}/a/file') and proof.covers(f'{folder}/link')
    for path in (str(outside), f'{folder}/../cache2/file', f'{folder}/link/file', str(tmp_path)):
        assert not proof.covers(path), path
        with pytest.raises(removal.NotOurs):
            removal.file(path, proof)
    removal.tree(f'{folder}/a', proof)
    with pytest.raises(removal.NotOurs):
        removal.tree(f'{folder}/link', proof)
    removal.file(f'{folder}/link', proof)
    assert os.listdir(folder) == [removal.MARK] and outside.exists()
    removal.empty_folder(folder, proof)
    assert os.listdir(tmp_path) == ['cache2']


def test_only_an_empty_folder_is_claimed(tmp_path):
    written(tmp_path / 'mine' / 'file')
    with pytest.raises(removal.NotOurs):
        removal.claim(str(tmp_path / 'mine'))
    assert os.listdir(tmp_path / 'mine') == ['file']
    (tmp_path / 'empty').mkdir()
    assert removal.claim(str(tmp_path / 'empty')) == removal.claim(str(tmp_path / 'empty'))
    assert not removal.Marked(str(tmp_path / 'mine')).covers(str(tmp_path / 'mine' / 'file'))


def test_files_of_others_below_a_folder_stay(tmp_path):
    written(tmp_path / 'work' / 'a' / 'x.tmp'), written(tmp_path / 'work' / 'b' / 'x.tmp')
    kept = written(tmp_path / 'work' / 'b' / 'letter')
    removal.files_below(str(tmp_path / 'work'), removal.Named(r'.*\.tmp'))
    assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob('*'))] == [
        'work',
        'work/b',
        str(kept.relative_to(tmp_path)),
    ]


def test_a_folder_whose_path_ends_with_a_separator(tmp_path):
    (tmp_path / 'made-1').mkdir()
    removal.empty_folder(f'{tmp_path}/made-1/', removal.Named(r'made-\d'))
    assert not os.listdir(tmp_path)
