"""Real runs, scraped while they train."""

import re
import signal
import sys
import time
import urllib.error
import urllib.request

import launch
import pytest

parser = pytest.importorskip('prometheus_client.parser', reason='prometheus-client is not installed')
BOUND_SECS = 300
TRAINER = (
    *('--job=tests.end_to_end.held_job:job', '--max_steps=1000000', '--batch_size=16', '--log_every_steps=20'),
    *('--save_checkpoints_steps=20', '--export=none', '--metrics_port=0'),
)


def url_in(lines) -> str:
    return next(
        found[1] for line in lines if (found := re.search(r'metrics: (http://127\.0\.0\.1:\d+/metrics)$', line))
    )


def scraped(url) -> dict:
    """(name, labels in the order of their names) -> value"""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=BOUND_SECS) as answer:
            text = answer.read().decode()
    except urllib.error.HTTPError as error:
        raise AssertionError(error.read().decode()) from error
    return {
        (sample.name.removeprefix('estimator_trainer_'), *(value for _, value in sorted(sample.labels.items()))): (
            sample.value
        )
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    }


def until(url, *wanted) -> dict:
    """What is told as soon as all of `wanted` is."""
    deadline = time.monotonic() + BOUND_SECS
    while True:
        found = scraped(url)
        if all(name in found for name in wanted):
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.2)


@pytest.mark.parametrize(
    'start',
    [pytest.param((), id='alone'), pytest.param(('cluster', '--workers=2', '--noevaluator', '--'), id='cluster')],
)
@pytest.mark.slow
def test_a_run_is_scraped_while_it_trains(tmp_path, start):
    command = [sys.executable, '-m', 'estimator_trainer', *start, *TRAINER, f'--model_dir={tmp_path}/run']
    hold = tmp_path / 'hold'
    hold.touch()
    with launch.start(command, HELD_BY=str(hold), HELD_AT='0') as process:
        lines = iter(process.stdout.readline, '')
        url = url_in(lines)
        assert ('step',) not in scraped(url)
        hold.unlink()
        found = until(
            url,
            ('state', 'training'),
            ('loss',),
            ('examples_per_second',),
            ('checkpoint_step',),
            ('input_wait_seconds_total',),
        )
        process.send_signal(signal.SIGTERM)
        ended = launch.finished(process, timeout=BOUND_SECS)
    assert ended.code == 143, ended.output
    assert 0 < found['step',] <= found['max_steps',] == 1_000_000
    assert 0 < found['loss',] < 10 and found['examples_per_second',] > 0
    assert 0 <= found['checkpoint_age_seconds',] < BOUND_SECS
    tasks = ['worker:0', 'worker:1'] if start else ['trainer']
    assert [found['task_up', task] for task in tasks] == [1] * len(tasks)
    assert all(found['resident_memory_bytes', task] > 100 << 20 for task in tasks)
    if start:
        assert found['restarts_total',] == 0
        assert found['peer_silence_seconds', 'worker:1'] == 0
        assert found['peer_wait_seconds_total',] > 0
    with pytest.raises(OSError):
        scraped(url)
