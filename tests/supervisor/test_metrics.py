"""--metrics_port of a whole run: the supervisor serves, across restarts, and its tasks do not."""

import http.client
import re

import pytest

from tests.processes import until

pytest.importorskip('prometheus_client', reason='prometheus-client is not installed')


def test_the_supervisor_serves_for_all_tasks(one_worker):
    run = one_worker(
        """
        echo "$*" > args
        board training 5 null
        [ $attempt = 1 ] && exit 196
        wait_for scraped
        """,
        trainer_flags=('--model_dir=model', '--metrics_port=0'),
    )
    told = iter(lambda: run.popen.stderr.readline().decode(), '')
    address = next(found[1] for line in told if (found := re.search(r'metrics: http://(\S+)/metrics', line)))

    def scrape():
        connection = http.client.HTTPConnection(address, timeout=60)
        connection.request('GET', '/metrics')
        return connection.getresponse().read().decode().splitlines()

    wanted = {
        'estimator_trainer_restarts_total 1.0',
        'estimator_trainer_step 5.0',
        'estimator_trainer_state{state="training"} 1.0',
        'estimator_trainer_task_up{task="worker:0"} 1.0',
    }
    until(lambda: wanted <= set(scrape()))
    (run.folder / 'here-scraped').touch()
    assert run.finish().code == 0, run.err
    assert (run.folder / 'args').read_text().endswith(' --metrics_port=\n')


def test_a_flag_that_is_no_address_ends_it_first(cluster):
    run = cluster('touch started', trainer_flags=('--model_dir=model', '--metrics_port=http')).finish()
    assert run.code == 64
    assert run.err.startswith('error: --metrics_port=http: give a port')
    assert not (run.folder / 'started').exists()
