"""assess.source_files: files, folders, notebooks, and what cannot be parsed."""

import ast
import json

import pytest

from estimator_trainer.errors import UsageError
from estimator_trainer.tools.assess import source_files


def cell(source, kind='code'):
    return {'cell_type': kind, 'source': source}


def test_a_folder(tmp_path):
    for name in (
        'b.py',
        'a/c.py',
        'a/d.ipynb',
        'notes.txt',
        '.git/e.py',
        'env/pyvenv.cfg',
        'env/lib/f.py',
        'build/g.py',
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = [path.removeprefix(f'{tmp_path}/') for path in source_files.find([str(tmp_path), f'{tmp_path}/b.py'])]
    assert found == ['a/c.py', 'a/d.ipynb', 'b.py']


def test_what_is_refused(tmp_path):
    (tmp_path / 'data.csv').touch()
    for path, said in (
        (tmp_path / 'none.py', 'there is no such file or folder.'),
        (tmp_path, 'the folder has no file that ends with .py or .ipynb.'),
        (tmp_path / 'data.csv', 'is neither a Python program nor a notebook (.ipynb).'),
    ):
        with pytest.raises(UsageError) as error:
            source_files.find([str(path)])
        assert str(error.value) == f'{path}: {said}'


@pytest.mark.parametrize(
    'text, line, said',
    [
        ('x = 1\nprint "a"\n', 2, 'is Python 2 (Missing parentheses'),
        ('try:\n  f()\nexcept A, e:\n  pass\n', 3, 'is Python 2 (multiple exception types'),
        ('x = 0777\n', 1, 'is Python 2 (leading zeros'),
        ('def f(:\n', 1, 'is no Python 3 (invalid syntax): def f(:'),
        ('x\0', 1, ''),
    ],
)
def test_what_cannot_be_parsed(text, line, said):
    source = source_files.parse('a.py', text)
    assert source.problem.startswith(said) and source.problem and source.line == line


def test_an_encoding(tmp_path):
    (tmp_path / 'a.py').write_bytes('# -*- coding: latin-1 -*-\nx = "é"\n'.encode('latin-1'))
    (tmp_path / 'b.py').write_bytes(b'# -*- coding: klingon -*-\n')
    assert source_files.read(f'{tmp_path}/a.py').tree.body[0].value.value == 'é'
    assert 'klingon' in source_files.read(f'{tmp_path}/b.py').problem


def test_a_notebook(tmp_path):
    path = tmp_path / 'a.ipynb'
    cells = [
        cell('# title', 'markdown'),
        cell(['%matplotlib inline\n', 'import tensorflow as tf\n', '!pip install x']),
        cell('%%bash\nls -l'),
        cell('for x in y:\n    %timeit x\n    tf.x\ntf.data?'),
    ]
    path.write_text(json.dumps({'cells': cells}), encoding='utf-8')
    source = source_files.read(str(path))
    assert source.tree and source.cells == (1, 4, 6)
    last = source.tree.body[-2]
    assert isinstance(last, ast.For) and source.place(last.lineno) == f'{path}:cell 3:1'


def test_a_cell_that_is_no_python_does_not_hide_the_others(tmp_path):
    cells = [cell('pip install x\ny = 1'), cell('what a cell'), cell('print "a"'), cell('z = 2')]
    (tmp_path / 'a.ipynb').write_text(json.dumps({'cells': cells}), encoding='utf-8')
    source = source_files.read(f'{tmp_path}/a.ipynb')
    assert source.place(source.line) == f'{tmp_path}/a.ipynb:cell 2:1' and 'what a cell' in source.problem
    assert [ast.unparse(node) for node in source.tree.body] == ['pass', 'y = 1', 'z = 2']


def test_magics():
    cell_of_all = '\n# a\n!gcloud submit \\\n  --job x \\\n  --dir y\nhost = !hostname\nif x:\n  %cd y\ny = x % 2'
    text, _ = source_files.code_of_notebook({'cells': [cell(cell_of_all), cell('\n%%bash\nls')]})
    assert text.splitlines() == ['', '# a', 'pass', '', '', 'host = None', 'if x:', '  pass', 'y = x % 2', '', '', '']


def test_a_cell_that_is_python_has_no_magics():
    of_python = 'y = (x\n  % 2)\ntext = """\n!ls\n%d\n"""'
    assert source_files.code_of_notebook({'cells': [cell(of_python)]})[0] == of_python + '\n'


def test_the_names_of_a_program_of_python_2():
    text = (
        'import tensorflow as tf\nprint "tf.no"\n"""\ntf.no"""\nx = tf.log(y)  # tf.no\nif z:\n\ttf.train.Saver(a.b)\n'
    )
    found = [line for line in ast.unparse(source_files.parse('a.py', text).tree).splitlines() if line]
    assert found == ['import tensorflow as tf', 'tf.log', 'tf.train.Saver', 'a.b']


def test_an_old_notebook():
    assert (
        source_files.code_of_notebook({'worksheets': [{'cells': [{'cell_type': 'code', 'input': ['x = 1']}]}]})[0]
        == 'x = 1\n'
    )


@pytest.mark.parametrize('content', ['[]', '{}', '{', '{"cells": [{}]}', '{"cells": 3}'])
def test_a_damaged_notebook(tmp_path, content):
    (tmp_path / 'a.ipynb').write_text(content, encoding='utf-8')
    assert source_files.read(f'{tmp_path}/a.ipynb').problem.startswith('is no readable notebook (')
