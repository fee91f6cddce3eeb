"""How the corpus is trained.

No setting has --mixed_precision: 16 bits round in another way than the plain loop that is the oracle.
tests/training/test_tf_mixed_precision.py has jobs whose arithmetic is known.
"""

SEED, BATCH_SIZE, SAVE_STEPS, SUMMARY_STEPS = 3, 4, 10, 5
ALONE, RESUMED, WORKERS = ('1', '7', 'auto'), ('stopped', 'failed'), ('workers',)
REPLICAS = ('replicas', 'replicas_memory')
ACCUMULATED = ('accumulated',)  # steps of three batches, compared with three replicas
MEMORY = ('memory', 'replicas_memory')  # steps take their batches themselves
SETTINGS = (*ALONE, 'memory', *RESUMED, *REPLICAS, *ACCUMULATED, *WORKERS)
EVALUATED = '1'  # the setting in which checkpoints are evaluated on the way and at the end
EQUAL, SINGLE, DIFFERS, REFUSED, SKIPPED = 'equal', 'one step', 'DIFFERS', 'refused', '-'
