"""What checkpoints are evaluated on, in a text. Results on other data are not compared with each other."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from estimator_trainer.config.trainer_config import TrainerConfig


def described(examples: str, count: int | None, config: 'TrainerConfig') -> str:
    """The text: the examples, then how much of them `--eval_steps` allows.

    Args:
        examples: which ones there are, without a slash.
        count: how many; None: nobody knows.
        config: the flags.
    """
    if not config.eval_steps:
        return f'{examples}/all'
    replicas = config.num_replicas if config.eval_strategy == 'mirrored' else 1
    allowed = config.eval_steps * config.batch_of_evaluation * replicas
    # Earlier versions ended it before the last part: see evaluation_journal.are_other_data.
    return f'{examples}/{config.eval_steps}/{allowed if count is None else min(allowed, count)}'
