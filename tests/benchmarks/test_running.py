"""A measured process: its line of JSON, its folder, its failures, and its end."""

import os
import pathlib
import sys
import time

import pytest

from benchmarks import running


def python(program):
    return [sys.executable, '-c', program]


def test_the_last_line_of_json_is_what_was_measured():
    found = running.run(python('print(\'{"steps_per_sec": 1}\'); print("noise"); print(\'{"steps_per_sec": 2}\')'), 60)
    assert found['steps_per_sec'] == 2 and found['seconds'] > 0


def test_the_folder_is_new_and_removed(tmp_path):
    program = 'import os, json; open("file", "w").close(); print(json.dumps({"folder": os.getcwd()}))'
    first, second = (running.run(python(program), 60)['folder'] for _ in range(2))
    assert first != second and not os.path.exists(first)


def test_read_looks_into_the_folder():
    def read(folder):
        return {'text': pathlib.Path(folder, 'file').read_text()}

    assert running.run(python('open("file", "w").write("here")'), 60, read)['text'] == 'here'


def test_it_says_why_it_is_skipped():
    with pytest.raises(running.Skipped, match='no such thing'):
        running.run(python('print(\'{"skipped": "no such thing"}\')'), 60)


@pytest.mark.parametrize(
    'program, why', [('raise ValueError("broken")', 'broken'), ('print("words")', 'no line of JSON')]
)
def test_a_failure_shows_the_end_of_the_output(program, why):
    with pytest.raises(running.Failed, match=why):
        running.run(python(program), 60)


def test_what_takes_too_long_is_killed_with_its_children(tmp_path):
    program = (
        'import subprocess, sys, time; '
        f'child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]); '
        f'open({str(tmp_path / "pid")!r}, "w").write(str(child.pid)); time.sleep(600)'
    )
    with pytest.raises(running.Failed, match='not done after 6 s'):
        running.run(python(program), 6)
    child = pathlib.Path('/proc', (tmp_path / 'pid').read_text(), 'cmdline')
    deadline = time.monotonic() + 30
    while child.exists() and child.read_bytes():  # a process that is not waited for has an empty command line
        assert time.monotonic() < deadline, 'the child lives'
        time.sleep(0.05)


def test_the_environment_is_not_that_of_a_task(monkeypatch):
    monkeypatch.setenv('TF_CONFIG', '{}')
    program = 'import os, json; print(json.dumps({name: os.environ.get(name) for name in ("TF_CONFIG", "MORE")}))'
    found = running.run(python(program), 60, env={'MORE': '1'})
    assert found['TF_CONFIG'] is None and found['MORE'] == '1'
