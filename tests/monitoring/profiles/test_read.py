"""profiles.trace and read: a small profile made here, read in this process and in one of its own."""

import gzip
import json
import os
import subprocess
import sys
import threading

import pytest
from google.protobuf import message

from estimator_trainer.monitoring.profiles import event_names, read, trace
from estimator_trainer.monitoring.side_process import SideProcessFailed


def profile():
    """Of one call with a matrix product, in microseconds as 10**6 ps."""
    space = trace.XSpace()
    plane = space.planes.add(name='/host:CPU')
    for number, name in enumerate((event_names.CALL, 'dense/MatMul:MatMul', 'ThreadpoolListener::Record'), 1):
        plane.event_metadata.add(key=number).value.name = name
    for number, name in enumerate((event_names.FIRST, event_names.LAST, 'shape', '(2,3)', '_r'), 1):
        plane.stat_metadata.add(key=number).value.name = name
    call = plane.lines.add(name='python', timestamp_ns=1).events.add(metadata_id=1, duration_ps=8 * 10**6)
    call.stats.add(metadata_id=1, int64_value=1)
    call.stats.add(metadata_id=2, int64_value=2)
    call.stats.add(metadata_id=5, int64_value=1)
    work = plane.lines.add(name='tf_Compute/1', timestamp_ns=1)
    work.events.add(metadata_id=3, offset_ps=1)
    product = work.events.add(metadata_id=2, offset_ps=2 * 10**6, duration_ps=4 * 10**6)
    product.stats.add(metadata_id=3, ref_value=4)
    return space.SerializeToString()


def test_the_events_of_a_profile():
    python, compute = trace.lines(profile())
    assert (python.name, compute.name, compute.on_device) == ('python', 'tf_Compute/1', False)
    assert [event.name for event in compute.events] == ['dense/MatMul:MatMul']
    assert compute.events[0].stats == {'shape': '(2,3)'}
    assert (compute.events[0].start, compute.events[0].length) == (10**3 + 2 * 10**6, 4 * 10**6)


def test_events_of_a_thread_are_nested():
    space = trace.XSpace()
    plane = space.planes.add(name='/host:CPU')
    line = plane.lines.add(name='tf_Compute/1')
    for number, (start, end) in enumerate(((0, 100), (10, 30), (29, 50), (30, 40), (60, 110)), 1):
        plane.event_metadata.add(key=number).value.name = str(number)
        line.events.add(metadata_id=number, offset_ps=start, duration_ps=end - start)
    (found,) = trace.lines(space.SerializeToString())
    assert [(event.start, event.end) for event in found.events] == [(0, 60), (10, 29), (29, 50), (30, 40), (60, 110)]


def test_the_trace_for_perfetto(tmp_path, capsys):
    path = tmp_path / 'chief.xplane.pb'
    path.write_bytes(profile())
    assert read.main([str(path)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith('0.004 ms a step: 50% computing') and '100% dense/MatMul (MatMul)' in said[1]
    assert str(tmp_path / 'chief.trace.json.gz') in said[2] and len(said) == 3
    with gzip.open(tmp_path / 'chief.trace.json.gz', 'rt') as file:
        events = json.load(file)['traceEvents']
    threads = {event['tid']: event['args']['name'] for event in events if event['ph'] == 'M'}
    (product,) = [event for event in events if event['name'] == 'dense/MatMul:MatMul']
    assert threads[product['tid']] == 'tf_Compute/1'
    assert (product['ph'], product['ts'], product['dur']) == ('X', pytest.approx(2.001), 4)
    assert product['args'] == {'shape': '(2,3)'}
    (call,) = [event for event in events if event['name'] == event_names.CALL]
    assert call['args'] == {'first': 1, 'last': 2}
    assert sorted(path.name for path in tmp_path.iterdir()) == ['chief.trace.json.gz', 'chief.xplane.pb']


def test_what_is_no_profile(tmp_path, capsys):
    with pytest.raises(message.DecodeError):
        trace.lines(b'\xff' * 9)
    (tmp_path / 'a.xplane.pb').write_bytes(b'\xff' * 9)
    for name in ('a.xplane.pb', 'missing.xplane.pb'):
        assert read.main([str(tmp_path / name)]) == 1
        assert name in capsys.readouterr().err


def test_a_process_of_its_own_reads(tmp_path, monkeypatch):
    path = tmp_path / 'chief.xplane.pb'
    path.write_bytes(profile())
    monkeypatch.chdir(tmp_path)  # as a job may
    assert len(read.ProfileReader().read(str(path))) == 3
    with pytest.raises(SideProcessFailed, match='missing'):
        read.ProfileReader().read(str(tmp_path / 'missing'))


def test_the_process_does_not_outlive_the_task(tmp_path):
    fifo = tmp_path / 'for_ever.xplane.pb'
    os.mkfifo(fifo)  # opening it waits for a writer
    task = subprocess.Popen(
        [
            sys.executable,
            '-c',
            f'from estimator_trainer.monitoring.profiles import read; read.ProfileReader().read({str(fifo)!r})',
        ],
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )
    try:
        with open(fifo, 'wb') as writer:  # the process has opened it to read
            task.kill()
            task.wait(30)
            with pytest.raises(BrokenPipeError):
                while True:
                    writer.write(bytes(65536))
                    writer.flush()
    finally:
        task.kill()
        task.wait(30)


def test_a_reader_can_be_killed():
    reader = read.ProfileReader([sys.executable, '-c', 'import time; time.sleep(600)'])

    def kill():
        while reader._process is None:
            pass
        reader.kill()

    threading.Thread(target=kill, daemon=True).start()
    for _ in range(2):  # none is started after it
        with pytest.raises(SideProcessFailed, match='training is over'):
            reader.read('nothing')


def test_a_reader_can_be_killed_while_its_process_starts(monkeypatch):
    reader = read.ProfileReader([sys.executable, '-c', 'import time; time.sleep(600)'])

    def starts_after_the_kill(*args, **kwargs):
        reader.kill()
        return start(*args, **kwargs)

    start = subprocess.Popen
    monkeypatch.setattr(subprocess, 'Popen', starts_after_the_kill)
    with pytest.raises(SideProcessFailed, match='training is over'):
        reader.read('nothing')


def test_the_reader_finds_the_package_where_it_is_not_installed():
    import pathlib

    import estimator_trainer

    assert pathlib.Path(read._ROOT) == pathlib.Path(estimator_trainer.__file__).parents[1]
