"""training.what_failed: texts of TensorFlow, as 2.15.1 and 2.21 give them."""

import pytest

from estimator_trainer.training import what_failed

LABELS = (
    'assertion failed: [Labels must be %s] [Condition x %s did not hold element-wise:] [x (head/losses/Cast:0) = ] '
    '[[0][-1][3]...]%s\n\t [[{{node Assert}}]]'
)
TEXTS = [
    (
        'Restoring from checkpoint failed. This is most likely due to a Variable name or other graph key that is '
        'missing from the checkpoint. Please ensure that you have not altered the graph. '
        'Original error:\n\nGraph execution error:\n\nKey dense/kernel_1 not found in checkpoint\n'
        '\t [[{{node save/RestoreV2}}]]',
        'the variable dense/kernel_1 is not in the checkpoint',
    ),
    (
        'Restoring from checkpoint failed. Original error:\n\nAssign requires shapes of both tensors to match. '
        'lhs shape= [8,20] rhs shape= [8,30]\n\t [[{{node save/Assign}}]]',
        'a variable has the shape [8,20] in the model, and [8,30] in the checkpoint',
    ),
    (
        'Loss must be scalar, given: Tensor("pow:0", shape=(64, 1), dtype=float32)',
        'the shape (64, 1), and a loss is one',
    ),
    (
        'Input to reshape is a tensor with 16 values, but the requested shape has 1\n\t [[{{node Reshape}}]]',
        '16 values',
    ),
    (
        LABELS % ('<= n_classes - 1', '<= y', ' [y (head/losses/check_label_range/Const:0) = ] [2]'),
        'which is 2: the labels begin with [0][-1][3]. Classes',
    ),
    (LABELS % ('>= 0', '>= 0', ''), 'the numbers of the labels begin with [0][-1][3]. Add'),
    (LABELS % ('>= 0.  ', '>= 0', ''), 'label_vocabulary'),
    ('`config` must be provided with type `tpu_config.RunConfig`', 'a TPUEstimator is trained on a TPU only'),
    (
        'The given object is not a tf.keras.optimizers.Optimizer instance. Given: '
        '<tensorflow.python.training.adam.AdamOptimizer object at 0x7f9c67ceeb10>',
        'takes no AdamOptimizer of tf.compat.v1.train',
    ),
]


@pytest.mark.parametrize('text, meaning', TEXTS)
def test_what_a_text_means(text, meaning):
    assert meaning in what_failed.meaning_of(text)
    assert meaning in what_failed.described(ValueError(text))


def test_a_model_that_has_changed_is_refused():
    refused = [text for text, _ in TEXTS if what_failed.refusal(ValueError(text))]
    assert refused == [TEXTS[0][0], TEXTS[1][0]]
    assert what_failed.refusal(ValueError(TEXTS[0][0])).startswith('the variable dense/kernel_1 is not in')


@pytest.mark.parametrize(
    'text',
    [
        'Input to reshape is a tensor with 16 values, but the requested shape has 12',
        "KeyError: 'age'",
        'Key x is there',
    ],
)
def test_other_texts_speak_for_themselves(text):
    assert what_failed.meaning_of(text) == ''
    assert text in what_failed.described(ValueError(text))


@pytest.mark.parametrize(
    'text, part',
    [
        (
            'Detected unsupported operations when trying to compile graph __inference_step_9[_XlaMustCompile=true] on '
            "XLA_CPU_JIT: StringToNumber (No registered 'StringToNumber' OpKernel for XLA_CPU_JIT devices)",
            'the operation StringToNumber',
        ),
        (
            'Input 1 to node `while/Range` with op Range must be a compile-time constant.\n\nXLA compilation requires',
            'the operation Range',
        ),
        ('Detected at node Cast', ''),
    ],
)
def test_what_xla_cannot_compile(text, part):
    assert what_failed.not_compiled(text) == part
