"""Trains a job of the corpus as two workers, in processes of their own: in single steps and in calls of several."""

import os
import subprocess
import sys
import tempfile

from estimator_trainer.run_dir.run_folder import RunFolder
from tests.differential import compare, outcome
from tests.differential.registry import CASES
from tests.differential.settings import BATCH_SIZE, DIFFERS, EQUAL, SAVE_STEPS, SEED, SINGLE, SKIPPED, SUMMARY_STEPS

_SECS = 240
_PLAYED = {  # a few of each axis: a cluster takes half a minute
    *('linear', 'small_dnn', 'cnn', 'wide_and_deep_by_hand'),
    *('wide_and_deep', 'dnn_classifier_of_three', 'keras_estimator_of_an_lstm'),
    *('dynamic_rnn_with_lengths', 'keras_lstm', 'keras_gru', 'keras_batch_normalization', 'keras_embedding'),
    *('loop', 'mapped', 'inner_loop_of_updates', 'static_table', 'stateless_random'),
    *('nan_tensor_hook', 'stop_at_step_hook', 'hook_that_fetches', 'data_that_end_for_two', 'sparse_features'),
    *('scaffold_with_own_saver', 'partitioned_table', 'variables_of_float64', 'several_train_calls'),
    *(
        'optimizer_adam',
        'gan',
        'moving_averages',
        'clipped_by_global_norm',
        'dynamic_loss_scale',
        'keras_optimizer_adam',
    ),
}


def verdict(name) -> tuple:
    """(verdict, in detail)"""
    case = CASES[name]
    if name not in _PLAYED:
        return SKIPPED, 'not played by workers'
    expected, found = _trained(case, '1'), _trained(case, '7')
    wrong = compare.differences(expected, found, case, 1e-6)
    if wrong:
        return DIFFERS, '; '.join(wrong)
    return (EQUAL, '') if found.single is None else (SINGLE, found.single)


def _trained(case, steps_per_call):
    with tempfile.TemporaryDirectory(prefix='differential-') as folder:
        done = subprocess.run(
            [
                *(sys.executable, '-m', 'estimator_trainer', 'cluster', '--workers=2', '--noevaluator', '--'),
                f'--job=tests.differential.registry:{case.name}',
                f'--model_dir={folder}/run',
                f'--max_steps={case.steps[-1]}',
                f'--steps_per_call={steps_per_call}',
                f'--seed={SEED}',
                f'--batch_size={BATCH_SIZE}',
                f'--save_checkpoints_steps={SAVE_STEPS}',
                f'--save_summary_steps={SUMMARY_STEPS}',
                '--eval_steps=1',
                '--export=',
                '--report=off',
            ],
            env={**os.environ, 'ESTIMATOR_TRAINER_REPORT': 'off'},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECS,
        )
        lines = (done.stdout + done.stderr).splitlines()
        if done.returncode:
            raise RuntimeError(f'the cluster ends with {done.returncode}: {" | ".join(lines[-3:])}')
        why = RunFolder(f'{folder}/run').training.get('why')
        return outcome.of_folder(f'{folder}/run', [], [], why, lines)
