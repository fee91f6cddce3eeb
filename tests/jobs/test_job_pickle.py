"""A Job as bytes: its functions keep their source, which AutoGraph needs."""

import inspect
import linecache
import subprocess
import sys
import textwrap

import cloudpickle
import pytest

from estimator_trainer.jobs import Job, job_pickle

LOAD = """
    import inspect, sys
    from estimator_trainer.jobs import job_file
    for function in vars(job_file.load(sys.argv[1])).values():
        if callable(function):
            try:
                print(inspect.getsource(function))
            except OSError as error:
                print(error)
"""
SCRIPT = """\
import sys
from estimator_trainer.jobs import Job, job_file

password = 'secret'


def doubled(x):
    return 2 * x  # twice


def tripled(x):
    return 3 * x


def as_it_is(function):
    return function


@as_it_is
def model_fn(features, labels, mode, params):
    return doubled(features)


job = Job(
    model_fn=model_fn,
    input_fn=lambda mode: mode,
)
if __name__ == '__main__':
    job_file.write(job, sys.argv[1])
"""


def ran(*words) -> str:
    return subprocess.run([sys.executable, *words], check=True, timeout=60, capture_output=True, text=True).stdout


@pytest.fixture
def script(tmp_path):
    path = tmp_path / 'script.py'
    path.write_text(SCRIPT)
    return path


@pytest.fixture
def loaded(tmp_path):
    """() -> the sources of the functions of the job, in a process that loads it."""
    return lambda: ran('-c', textwrap.dedent(LOAD), str(tmp_path / 'job.pkl'))


def test_functions_of_a_script_keep_their_source(tmp_path, script, loaded):
    ran(str(script), str(tmp_path / 'job.pkl'))
    script.write_text('# changed\n' + SCRIPT.replace('doubled', 'quadrupled'))
    assert '@as_it_is\ndef model_fn' in loaded() and 'return doubled' in loaded() and 'lambda mode: mode' in loaded()
    script.unlink()
    assert 'return doubled' in loaded()


def test_nothing_else_of_the_script_is_kept(tmp_path, script):
    ran(str(script), str(tmp_path / 'job.pkl'))
    content = (tmp_path / 'job.pkl').read_bytes()
    assert b'# twice' in content and b'secret' not in content and b'tripled' not in content


def test_a_script_that_has_changed_before_gives_no_source(tmp_path, script, loaded):
    change = "open(__file__, 'w').write(open(__file__).read().replace('2 * x', '4 * x'))\n    "
    script.write_text(SCRIPT.replace('job_file.write(', change + 'job_file.write('))
    ran(str(script), str(tmp_path / 'job.pkl'))
    assert 'doubled' not in loaded() and 'could not get source code' in loaded()


def test_a_function_without_any_source(monkeypatch):
    monkeypatch.setattr(linecache, 'cache', {})
    names = {}
    exec('def model_fn(features): return features', names)
    assert job_pickle.loads(job_pickle.dumps(Job(model_fn=names['model_fn']))).model_fn(3) == 3 and not linecache.cache


def test_a_cell_of_a_notebook(tmp_path, loaded):
    """Each of its statements is compiled by itself. That of an import is another one for the compiler."""
    cell = """
        import os
        from estimator_trainer.jobs import Job, job_file

        def model_fn(features):
            return os.path.join('of a cell', features)

        job = Job(model_fn=model_fn)
    """
    name = '<ipython-input-3-2f1e>'
    run = """
        import ast, linecache, sys
        cell, name = sys.argv[2:]
        linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)
        for statement in ast.parse(cell).body:
            exec(compile(ast.Module([statement], []), name, 'exec'))
        job_file.write(job, sys.argv[1])
    """
    ran('-c', textwrap.dedent(run), str(tmp_path / 'job.pkl'), textwrap.dedent(cell), name)
    assert "'of a cell', features)" in loaded()


def test_a_traceback_names_the_script(tmp_path, script):
    ran(str(script), str(tmp_path / 'job.pkl'))
    load = (
        'import sys; from estimator_trainer.jobs import job_file; print(job_file.load(sys.argv[1]).model_fn.__code__)'
    )
    assert f'file "{tmp_path}/./script.py", line 19' in ran('-c', load, str(tmp_path / 'job.pkl'))


def test_a_file_of_before(tmp_path, monkeypatch):
    """It ends with the Job."""
    monkeypatch.setattr(linecache, 'cache', {})
    job = job_pickle.loads(cloudpickle.dumps(Job(model_fn=lambda features: 1)))
    assert inspect.isfunction(job.model_fn) and not linecache.cache
