"""How the corpus is trained."""

SEED, BATCH_SIZE, SAVE_STEPS, SUMMARY_STEPS = 3, 4, 10, 5
ALONE, RESUMED, REPLICAS, WORKERS = ('1', '7', 'auto'), ('stopped', 'failed'), ('replicas',), ('workers',)
SETTINGS = (*ALONE, *RESUMED, *REPLICAS, *WORKERS)
EVALUATED = '1'  # the setting in which checkpoints are evaluated on the way and at the end
EQUAL, SINGLE, DIFFERS, SKIPPED = 'equal', 'one step', 'DIFFERS', '-'
