"""What runs for weeks leaves nothing to a garbage collector: a job may have turned it off."""

import collections
import gc
import json

import pytest

from estimator_trainer.lifecycle import watchdog as watchdogs
from estimator_trainer.run_dir import protocol, training_file

FIRST_LOOKS, LOOKS = 10, 4 * 60 * 5  # five minutes of them


def test_the_watchdog_leaves_no_garbage(tmp_path, monkeypatch):
    monkeypatch.setattr(training_file, 'BEAT_SECS', 0)
    now = [0.0]
    watchdog = watchdogs.Watchdog('worker:0', watchdogs.Bounds(), {}, lambda: now[0], leave=None)
    watchdog.write_training_file(str(tmp_path), 1000)

    def look(times):
        for _ in range(times):
            now[0] += 0.25
            watchdog.stepped(int(now[0]))
            watchdog._inbox.wake()  # so that the look does not wait for a signal
            watchdog._look()

    def count():
        return collections.Counter(map(type, gc.get_objects()))

    watchdog._inbox.open()
    look(FIRST_LOOKS)
    count()  # the first Counter leaves weak references in the caches of abstract classes
    gc.collect()
    gc.disable()
    try:
        before = count()
        look(LOOKS)
        more = count() - before
    finally:
        gc.enable()
        watchdog._inbox.close()
    assert sum(more.values()) < LOOKS / 10, more.most_common(5)
    assert watchdog._training_file.wait(1 + FIRST_LOOKS + LOOKS, 60)  # no look waits for its file
    assert protocol.read_json(str(tmp_path / 'training.json'))['step'] == int(now[0])


@pytest.mark.parametrize(
    'value',
    [
        {},
        [],
        None,
        1.5,
        'ä"\n',
        {'b': [], 'a': {}, 'ö': None},
        {'tasks': [{'name': 'worker:0', 'codes': (1, 2), 'rate': 1e-7}, {}], 'ended': True, 'of': {'x': [[1], []]}},
    ],
)
def test_files_are_indented_as_by_the_json_module(value):
    assert protocol.indented(value) == json.dumps(value, indent=2, sort_keys=True)
