"""Which flags say when a checkpoint is saved, and in which words --dry_run says it."""

import pytest

from estimator_trainer.config import trainer_config
from estimator_trainer.training import dues
from estimator_trainer.training.dues import SaveRule

FIT, CUSTOM = '--loop=keras_fit', '--loop=custom_loop'


@pytest.mark.parametrize(
    'given, rule, words',
    [
        ([], SaveRule(secs=600), 'every 600 s'),
        (['--save_checkpoints_steps=5'], SaveRule(steps=5), 'every 5 steps'),
        (['--save_checkpoints_secs=9'], SaveRule(secs=9), 'every 9 s'),
        ([CUSTOM], SaveRule(secs=600), 'every 600 s'),
        ([CUSTOM, '--save_checkpoints_epochs=2'], SaveRule(epochs=2), 'every 2 epoch(s)'),
        ([FIT], SaveRule(secs=600, epochs=1), 'every 600 s, and every 1 epoch(s)'),
        ([FIT, '--save_checkpoints_epochs=2'], SaveRule(epochs=2), 'every 2 epoch(s)'),
        ([FIT, '--save_checkpoints_steps=5'], SaveRule(steps=5, epochs=1), 'every 5 steps, and every 1 epoch(s)'),
    ],
)
def test_of_flags(given, rule, words):
    found = dues.save_rule(trainer_config.parse(['trainer', '--model_dir=m', '--max_steps=9', *given]))
    assert (found, str(found)) == (rule, words)
