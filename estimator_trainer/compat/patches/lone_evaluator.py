"""If the cluster does not list the evaluator, the strategy of the evaluator spans its own process only.

Touches: CollectiveAllReduceExtended._initialize_strategy and _initialize_local
Without it: MultiWorkerMirroredStrategy fails in an evaluator that is not in the `cluster` of TF_CONFIG
For: every program
"""

import functools


def mend(module) -> None:
    """Mends `tensorflow.python.distribute.collective_all_reduce_strategy`."""
    extended = module.CollectiveAllReduceExtended
    original, _ = extended._initialize_strategy, extended._initialize_local

    @functools.wraps(original)
    def initialize(self, cluster_resolver, devices):
        listed = cluster_resolver.cluster_spec().as_dict()
        if cluster_resolver.task_type == 'evaluator' and 'evaluator' not in listed:
            self._initialize_local(cluster_resolver, devices=devices)
        else:
            original(self, cluster_resolver, devices)

    extended._initialize_strategy = initialize
