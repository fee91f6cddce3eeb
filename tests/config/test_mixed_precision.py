"""--mixed_precision: what acts, and where nothing does."""

import re

import pytest

from estimator_trainer.config import mixed_precision
from estimator_trainer.config.trainer_config import parse
from estimator_trainer.errors import UsageError

FAST, SLOW = 'fpu avx512f avx512_bf16', 'fpu avx2'
BF16, F16 = mixed_precision.KINDS


def test_the_flag():
    flags = ['trainer', '--model_dir=/tmp/no_such_model_dir', '--max_steps=1']
    assert parse(flags).mixed_precision is None
    assert parse([*flags, '--mixed_precision=bfloat16']).mixed_precision == BF16
    with pytest.raises(UsageError, match='--mixed_precision=half.*bfloat16.*float16'):
        parse([*flags, '--mixed_precision=half'])


def test_float16_is_for_keras_loops():
    flags = ['trainer', '--model_dir=/tmp/no_such_model_dir', '--max_steps=1', '--mixed_precision=float16']
    for loop in ('keras_fit', 'custom_loop'):
        assert parse([*flags, f'--loop={loop}']).mixed_precision == F16
    cures = '--mixed_precision=bfloat16.*--loop=keras_fit or custom_loop.*MixedPrecisionLossScaleOptimizer'
    with pytest.raises(UsageError, match=f'^--mixed_precision=float16 with --loop=estimator: .*{cures}'):
        parse(flags)
    with pytest.raises(UsageError, match='--mixed_precision=float16 with --loop=estimator'):
        parse([*flags, '--strategy=parameter_server', '--sync_ps'])


@pytest.mark.parametrize(
    'kind, loop, text',
    [
        (None, 'estimator', ''),
        (BF16, 'estimator', "bfloat16 by TensorFlow's rewrite auto_mixed_precision_onednn_bfloat16, on CPUs; weights"),
        (
            BF16,
            'keras_fit',
            "precision: bfloat16 by Keras's policy mixed_bfloat16; weights, evaluations and exports are",
        ),
        (
            F16,
            'custom_loop',
            "precision: float16 by Keras's policy mixed_float16, the loss scaled dynamically from 32,768 on; weights",
        ),
    ],
)
def test_what_acts(kind, loop, text):
    assert text in mixed_precision.sentence(kind, loop)
    assert bool(text) == bool(mixed_precision.sentence(kind, loop))


@pytest.mark.parametrize(
    'kind, loop, has_gpu, cpu_flags, text',
    [
        (None, 'estimator', False, SLOW, None),
        (BF16, 'estimator', False, FAST, None),
        (BF16, 'estimator', False, 'neon bf16', None),
        (BF16, 'estimator', False, '', None),  # it is not known
        (BF16, 'estimator', False, SLOW, 'no instructions for it'),
        (BF16, 'keras_fit', False, SLOW, 'no instructions for it'),
        (BF16, 'estimator', True, FAST, 'acts on CPUs only, and this task computes on a GPU.*use a Keras loop'),
        (BF16, 'keras_fit', True, SLOW, None),
        (F16, 'keras_fit', True, SLOW, None),
        (F16, 'keras_fit', False, FAST, '--mixed_precision=float16: a CPU is not faster with it.*bfloat16'),
        (F16, 'custom_loop', False, '', 'a CPU is not faster'),
    ],
)
def test_where_nothing_becomes_faster(kind, loop, has_gpu, cpu_flags, text):
    warning = mixed_precision.warning(kind, loop, has_gpu, cpu_flags)
    assert (warning is None) == (text is None)
    assert text is None or re.search(text, warning)


def test_what_has_overflowed():
    assert mixed_precision.repeated(7, 2, 2, 2.0**13) == (
        'precision: until step 7 the gradients of 2 attempt(s) overflowed, and each batch was computed again with half '
        'the loss scale, which is 8,192 now'
    )
    assert 'of 1 attempt(s) overflowed (3 since the start), and' in mixed_precision.repeated(2000, 1, 3, 2.0**14)


def test_what_a_rewrite_has_made():
    assert mixed_precision.counted(BF16, 17, 14) == (
        True,
        'precision: 17 operations of a step compute in bfloat16, 14 convert',
    )
    has_acted, text = mixed_precision.counted(BF16, 0, 0)
    assert not has_acted and 'computes no operation' in text
