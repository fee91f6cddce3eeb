"""A Ray cluster of two nodes with one CPU each, and the driver of one job on it: `python two_raylets.py JOB.yaml SECS`.

SIGUSR1: the second node is lost, and another one comes. Run it where nobody else reaches its ports: Ray listens on
every interface. Exit code: the driver's.
"""

import os
import signal
import subprocess
import sys

from ray.cluster_utils import Cluster

NODE = {'num_cpus': 1, 'memory': 4 << 30, 'object_store_memory': 100 << 20, 'node_ip_address': '127.0.0.1'}


def main(job, secs):
    cluster = Cluster(initialize_head=True, head_node_args={**NODE, 'include_dashboard': False})
    try:
        nodes = [cluster.add_node(**NODE)]

        def replace(signum, frame):
            cluster.remove_node(nodes.pop(), allow_graceful=False)
            nodes.append(cluster.add_node(**NODE))
            print('a node was replaced', flush=True)

        signal.signal(signal.SIGUSR1, replace)
        print('two raylets are up', flush=True)
        driver = [sys.executable, '-m', 'estimator_trainer.submit.ray_driver', job]
        return subprocess.run(
            driver, env={**os.environ, 'RAY_ADDRESS': cluster.address}, timeout=float(secs)
        ).returncode
    finally:
        cluster.shutdown()


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
