"""How the corpus is trained."""

SEED, BATCH_SIZE, SAVE_STEPS, SUMMARY_STEPS = 3, 4, 10, 5
ALONE, RESUMED, REPLICAS = ('1', '7', 'auto'), ('stopped', 'failed'), ('replicas',)
SETTINGS = (*ALONE, *RESUMED, *REPLICAS)
