"""The pods of a rendered Job, run for real where there is no kubelet.

Each has a host name, an address, a hosts file, a file system that is read-only but for its volumes, and no variable
but those that Kubernetes and the manifest set.
"""

import contextlib
import sys

import launch
import pytest

from estimator_trainer.submit import description as descriptions
from estimator_trainer.submit import kubernetes_objects
from tests.submit import kubernetes_pod
from tests.submit.hosts import ADDRESSES, Hosts

yaml = pytest.importorskip('yaml', reason='PyYAML, which reads job descriptions, is not installed')

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('can_have_hosts')]
BOUND_SECS = 300
# Host name, hosts file, then what the volumes are; /tmp is the manifest's own.
START = """
set -e
echo "$1" > /proc/sys/kernel/hostname
mount --bind "$2" /etc/hosts
for folder in "$3" /tmp; do mount --bind "$folder" "$folder"; done
mount -o remount,bind,ro /
cd "$4"
shift 4
exec "$@"
"""


@contextlib.contextmanager
def running(pod, on, hosts_file, volume):
    """The pod's container, as a process of a namespaced host."""
    command = [
        *on,
        'unshare',
        '--uts',
        '--mount',
        'sh',
        '-c',
        START,
        'sh',
        pod.hostname,
        hosts_file,
        volume,
        pod.container['workingDir'],
        'env',
        '-i',
        *(f'{name}={value}' for name, value in pod.environ.items()),
        *pod.argv,
    ]
    with launch.start(command) as process:
        yield process


def test_two_pods_reach_the_accuracy(tmp_path, data_dir):
    volume = tmp_path / 'volume'
    volume.mkdir()
    description = descriptions.parse(
        {
            'name': 'mnist',
            'image': 'none',
            'python': sys.executable,
            'working_dir': str(launch.REPOSITORY),
            'flagfile': 'configs/mnist_5k.flags',
            'model_dir': f'{volume}/run',
            'args': ['--batch_size=32', f'--data_dir={data_dir}'],
            'roles': {'worker': {'count': 2}},
            'kubernetes': {'claim': 'models', 'mount': str(volume)},
        }
    )
    pods = kubernetes_pod.pods(yaml.safe_load(kubernetes_objects.render(description)['job.yaml']))
    hosts_file = tmp_path / 'hosts'
    hosts_file.write_text(
        '127.0.0.1 localhost\n'
        + ''.join(f'{address} {pod.hostname}.{pod.spec["subdomain"]}\n' for address, pod in zip(ADDRESSES, pods))
    )
    with Hosts() as hosts, running(pods[0], hosts.on(0), hosts_file, volume) as chief:
        with running(pods[1], hosts.on(1), hosts_file, volume) as worker:
            outputs = [launch.finished(process, timeout=BOUND_SECS).output for process in (chief, worker)]
    assert [chief.returncode, worker.returncode] == [0, 0], '\n'.join(outputs)
    for rank, output in enumerate(outputs):
        assert 'cluster from Kubernetes: the pods mnist-* of service mnist' in output
        assert f'rank {rank} of 2 is worker:{rank}' in output
    assert launch.metrics(volume / 'run')[-1]['accuracy'] >= 0.965
