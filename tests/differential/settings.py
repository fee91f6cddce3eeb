"""How the corpus is trained."""

SEED, BATCH_SIZE, SAVE_STEPS, SUMMARY_STEPS = 3, 4, 10, 5
ALONE, RESUMED, REPLICAS, WORKERS = ('1', '7', 'auto'), ('stopped', 'failed'), ('replicas',), ('workers',)
SETTINGS = (*ALONE, *RESUMED, *REPLICAS, *WORKERS)
EQUAL, SINGLE, DIFFERS, SKIPPED = 'equal', 'one step', 'DIFFERS', '-'
