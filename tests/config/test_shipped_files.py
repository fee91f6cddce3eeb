"""Flag files of the package, found by name where the user has none of that name."""

import pathlib

import pytest

from estimator_trainer.config import shipped_files

SHIPPED = pathlib.Path(shipped_files.__file__).parents[1] / 'shipped'


@pytest.mark.parametrize('name', ['mnist_5k', 'mnist_5k.flags', 'configs/mnist_5k.flags', './configs/mnist_5k.flags'])
def test_by_any_of_its_names(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    assert shipped_files.path_of(name) == str(SHIPPED / 'configs/mnist_5k.flags')


def test_a_file_of_the_user_counts_more(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pathlib.Path('mnist_5k').write_text('--seed=7')
    pathlib.Path('configs').mkdir()
    pathlib.Path('configs/flights.flags').symlink_to('nowhere')  # his own, although it leads nowhere
    assert shipped_files.path_of('mnist_5k') == 'mnist_5k'
    assert shipped_files.path_of('configs/flights.flags') == 'configs/flights.flags'


@pytest.mark.parametrize(
    'name', ['other', '/configs/mnist_5k.flags', '../configs/mnist_5k.flags', 'py.typed', '..', '']
)
def test_other_names_stay(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    assert shipped_files.path_of(name) == name


def test_the_names_of_the_flag_files():
    assert shipped_files.flag_files() == sorted(path.stem for path in (SHIPPED / 'configs').iterdir())
