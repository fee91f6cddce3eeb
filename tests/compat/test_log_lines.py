"""Which lines of `logging` are a job's."""

import logging
import os
import sys

import pytest

from estimator_trainer.compat.patches import log_lines

PACKAGES = os.path.join(os.sep, 'venv', 'lib', 'python3.11', 'site-packages')


@pytest.fixture
def root(monkeypatch):
    root = logging.getLogger()
    monkeypatch.setattr(root, 'handlers', [])
    level = root.level
    root.setLevel(logging.WARNING)
    yield root
    log_lines.show('')  # later tests have no job
    root.setLevel(level)


@pytest.mark.parametrize(
    'path, is_of_job',
    [
        (os.path.join(os.sep, 'home', 'you', 'job.py'), True),
        ('/tmp/__autograph_generated_file1.py', True),
        (os.path.join(PACKAGES, 'mine', 'model.py'), True),
        (os.path.join(PACKAGES, 'mine.py'), True),
        (os.path.join(PACKAGES, 'theirs', 'mine.py'), False),
        (logging.__file__, False),
        (log_lines.__file__, False),
    ],
)
def test_files(path, is_of_job, root):
    log_lines.show('mine.model:job')
    assert log_lines.is_of_job(path) == is_of_job


def test_lines(root, capsys, tmp_path):
    root.handlers[:] = [logging.StreamHandler(sys.stderr)]  # as the first logging.warning() leaves it
    root.handlers[0].setFormatter(logging.Formatter(logging.BASIC_FORMAT))
    log_lines.show('mine:job')
    for folder in ('mine', 'site-packages'):
        text = f"logging.info('{folder} says it')\nlogging.getLogger('x').warning('{folder} warns')"
        exec(compile(text, tmp_path / folder / 'lines.py', 'exec'), {'logging': logging})
    lines = [line.partition(' ')[2] for line in capsys.readouterr().err.splitlines()]
    assert lines == ['mine says it', 'WARNING: x: mine warns', 'WARNING: x: site-packages warns']


def test_a_deprecation_is_shown_once_and_any_other_warning_each_time(root, capsys):
    root.handlers[:] = []
    log_lines.show('')
    for _ in range(3):
        logging.getLogger('a.library').warning('`%s` is deprecated.', 'a name of this test')
        logging.getLogger('a.library').warning('waits')
    err = capsys.readouterr().err
    assert (err.count('a name of this test'), err.count('waits')) == (1, 3)


@pytest.mark.parametrize('folder, is_shown', [('site-packages', False), ('mine', True), ('', True)])
def test_what_autograph_has_made_of_a_function_is_of_its_file(folder, is_shown, root, capsys, tmp_path):
    """AutoGraph compiles a function anew in a temporary file, with the globals of the function."""
    root.handlers[:] = []
    log_lines.show('mine:job')
    of_module = {'__file__': str(tmp_path / folder / 'lines.py')} if folder else {}  # a notebook has no file
    code = compile("logging.info('made of a function')", '/tmp/__autograph_generated_file1.py', 'exec')
    exec(code, {'logging': logging, **of_module})
    assert ('made of a function' in capsys.readouterr().err) == is_shown


@pytest.mark.parametrize('options', [{'level': 'DEBUG'}, {'format': '%(message)s'}, {'stream': sys.stdout}])
def test_a_job_that_has_configured_logging_keeps_it(options, root):
    root.handlers[:] = []  # without pytest's
    logging.basicConfig(**options)
    before = [*root.handlers], root.level
    log_lines.show('mine:job')
    assert ([*root.handlers], root.level) == before
