"""Pages that a run has written: by other processes, which may fail, hang or be missing."""

import os
import subprocess
import sys
import threading
import time

import pytest

from estimator_trainer.config.two_parts import read_trainer_flags
from estimator_trainer.monitoring import report_page


def writer(script):
    return (sys.executable, '-c', f'import os, sys; (folder,) = sys.argv[1:]\n{script}')


def test_pages_of_a_run_that_lives(tmp_path, monkeypatch):
    monkeypatch.setattr(report_page, 'REST_TIMES', 0)
    pipe = tmp_path / 'pipe'
    os.mkfifo(pipe)
    warnings = []
    tells = writer(f'print(os.nice(0), folder, file=open({str(pipe)!r}, "w"))')
    with report_page.Pages(str(tmp_path), warnings.append, every_secs=0.001, writer=tells):
        for _ in range(2):
            assert pipe.read_text() == f'19 {tmp_path}\n'  # the processes that train come first
    assert warnings == []


def test_the_last_page(tmp_path):
    pages = report_page.Pages(
        str(tmp_path), pytest.fail, short_secs=0, writer=writer('open(folder + "/page", "w").write(str(os.nice(0)))')
    )
    with pages:
        pages.last()
        assert (tmp_path / 'page').read_text() == str(os.nice(0))


def test_a_process_that_is_told_to_stop_gives_the_last_page_up(tmp_path):
    pipe = tmp_path / 'pipe'
    os.mkfifo(pipe)
    writes = writer(f'open({str(pipe)!r}, "w").close(); __import__("signal").pause()')
    pages = report_page.Pages(str(tmp_path), pytest.fail, short_secs=0, writer=writes)
    asked = []
    pages.last(told=lambda: asked or not asked.append(pipe.read_text()), most_secs=100)  # once it has begun
    assert asked == ['']


@pytest.mark.parametrize(
    'command, words',
    [
        (writer('sys.exit("first line\\nit is broken")'), 'it is broken'),
        (writer('sys.exit("error: it is broken")'), 'it is broken'),  # as a command says it
        (writer('sys.exit(3)'), 'its process ended with 3'),
        (('/nowhere/python',), 'No such file or directory'),
        (writer('__import__("signal").pause()'), 'it took longer than 0.2 s'),
    ],
)
def test_a_failure_is_one_warning(tmp_path, command, words):
    warnings = []
    pages = report_page.Pages(str(tmp_path), warnings.append, short_secs=0, writer=command)
    pages.last(most_secs=0.2 if 'longer' in words else 100)
    (said,) = warnings
    assert said == (
        f'{tmp_path}/report.html was not written: {words}; the run is not affected (--report=off writes none). '
        f'To write it: estimator-trainer report {tmp_path}'
    )
    pages.last(most_secs=0.01)
    assert len(warnings) == 1


def test_no_warning_comes_after_the_last_line_of_a_run_that_has_failed(tmp_path):
    report_page.Pages(str(tmp_path), pytest.fail, short_secs=0, writer=('/nowhere/python',)).last(warns=False)


def test_a_page_that_is_being_written_holds_up_no_end(tmp_path):
    pipe = tmp_path / 'pipe'
    os.mkfifo(pipe)
    script = f'open({str(pipe)!r}, "w").close(); __import__("signal").pause()'
    with report_page.Pages(str(tmp_path), pytest.fail, 0.001, short_secs=0, writer=writer(script)) as pages:
        pipe.read_text()
    assert not pages._thread.is_alive()


def test_the_end_may_come_while_the_process_of_a_page_starts(tmp_path, monkeypatch):
    started = threading.Event()

    def starts_slowly(*args, **kwargs):
        process = start(*args, **kwargs)
        started.set()
        assert pages._over.wait(60)
        time.sleep(0.2)  # so that `_stop` looks for the process before it is known
        return process

    start = subprocess.Popen
    monkeypatch.setattr(subprocess, 'Popen', starts_slowly)
    script = '__import__("signal").pause()'
    pages = report_page.Pages(str(tmp_path), pytest.fail, 0.001, short_secs=0, writer=writer(script))
    with pages:
        assert started.wait(60)
    assert not pages._thread.is_alive()


def test_when_a_page_is_wanted(monkeypatch):
    assert report_page.is_on('auto', {}, pytest.fail)
    assert not report_page.is_on('off', {}, pytest.fail)
    assert not report_page.is_on('auto', {'ESTIMATOR_TRAINER_REPORT': 'off'}, pytest.fail)


def test_a_page_that_lacks_a_package_is_named(monkeypatch):
    monkeypatch.setattr(report_page, 'NEEDED', ('json', 'a_package_that_nobody_has'))
    lines = []
    assert not report_page.is_on('auto', {}, lines.append)
    assert lines == [
        'No report.html is written: it needs a_package_that_nobody_has (pip install a_package_that_nobody_has).'
    ]
    assert not report_page.is_on('off', {}, pytest.fail)


def test_the_supervisor_knows_the_flag():
    assert (
        read_trainer_flags(['--report=off']).config.report == 'off' and read_trainer_flags([]).config.report == 'auto'
    )


def test_a_short_run_does_not_wait_for_a_page(tmp_path):
    pages = report_page.Pages(str(tmp_path), pytest.fail, short_secs=60, writer=('no-such-program',))
    with pages:
        pass
    pages.last()
    assert list(tmp_path.iterdir()) == []
