"""--mixed_precision: what acts, and where nothing does."""

import re

import pytest

from estimator_trainer.config import mixed_precision
from estimator_trainer.config.trainer_config import parse
from estimator_trainer.errors import UsageError

FAST, SLOW = 'fpu avx512f avx512_bf16', 'fpu avx2'
(BF16,) = mixed_precision.KINDS


def test_the_flag():
    flags = ['trainer', '--model_dir=/tmp/no_such_model_dir', '--max_steps=1']
    assert parse(flags).mixed_precision is None
    assert parse([*flags, '--mixed_precision=bfloat16']).mixed_precision == BF16
    with pytest.raises(UsageError, match='--mixed_precision=half.*bfloat16'):
        parse([*flags, '--mixed_precision=half'])


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
    ],
)
def test_where_nothing_becomes_faster(kind, loop, has_gpu, cpu_flags, text):
    warning = mixed_precision.warning(kind, loop, has_gpu, cpu_flags)
    assert (warning is None) == (text is None)
    assert text is None or re.search(text, warning)


def test_what_a_rewrite_has_made():
    assert mixed_precision.counted(BF16, 17, 14) == (
        True,
        'precision: 17 operations of a step compute in bfloat16, 14 convert',
    )
    has_acted, text = mixed_precision.counted(BF16, 0, 0)
    assert not has_acted and 'computes no operation' in text
