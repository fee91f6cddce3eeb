"""assess.findings and the table: what a line needs here and becomes in Keras 3."""

import textwrap

import pytest

from estimator_trainer.tools.assess import findings, knowledge, source_files, tf_names

RESOLVER = 'cluster_resolver.TPUClusterResolver'
V1, V2 = 'import tensorflow.compat.v1 as tf\n', 'import tensorflow as tf\n'


def assess(*texts):
    return findings.assess(
        [source_files.parse(f'{name}.py', textwrap.dedent(text)) for name, text in zip('abc', texts)]
    )


def states(text):
    return {finding.name: finding.state for finding in assess(text).findings}


@pytest.mark.parametrize(
    'line, name, with_v2, with_v1',
    [
        ('tf.estimator.Estimator(f)', 'tf.estimator.Estimator', 'runs', 'runs'),
        ('tf.estimator.train_and_evaluate(a, b, c)', 'tf.estimator.train_and_evaluate', 'runs', 'runs'),
        ('tf.placeholder(tf.int32)', 'tf.placeholder', 'needs', 'runs'),
        ('tf.log(x)', 'tf.log', 'needs', 'runs'),
        ('tf.train.AdamOptimizer()', 'tf.train.AdamOptimizer', 'needs', 'runs'),
        ('tf.estimator.inputs.numpy_input_fn(x)', 'tf.estimator.inputs.numpy_input_fn', 'needs', 'runs'),
        ('tf.estimator.tpu.TPUEstimator(f)', 'tf.estimator.tpu.TPUEstimator', 'needs', 'runs'),
        ('tf.estimator.BoostedTreesClassifier(x)', 'tf.estimator.BoostedTreesClassifier', 'blocks', 'blocks'),
        ('tf.estimator.ProfilerHook(5)', 'tf.estimator.ProfilerHook', 'needs', 'needs'),
        ('tf.contrib.tpu.TPUEstimator(f)', 'tf.contrib.tpu.TPUEstimator', 'needs', 'needs'),
        ('tf.contrib.crf.viterbi_decode(x)', 'tf.contrib.crf.viterbi_decode', 'blocks', 'blocks'),
        ('tf.contrib.distribute.MirroredStrategy()', 'tf.contrib.distribute.MirroredStrategy', 'blocks', 'blocks'),
        ('tf.contrib.training.python.training.hparam.HParams', 'tf.contrib.training.HParams', 'needs', 'needs'),
        ('tf.contrib.whatever.x', 'tf.contrib.whatever.x', 'blocks', 'blocks'),
        ('tf.mul(x, y)', 'tf.mul', 'needs', 'needs'),
        ('tf.reduce_sum(x, keep_dims=True)', 'tf.reduce_sum(keep_dims)', 'needs', 'runs'),
        ('tf.random.set_seed(1)', 'tf.random.set_seed', None, 'needs'),
        ('dataset.make_one_shot_iterator()', '.make_one_shot_iterator', 'needs', 'runs'),
        ('estimator.export_savedmodel(x)', '.export_savedmodel', 'needs', 'runs'),
        ('estimator.train(input_fn=f)', '.train(input_fn)', 'runs', 'runs'),
        ('tf.estimator.TrainSpec(f, hooks=[h])', 'tf.estimator.TrainSpec(hooks)', 'runs', 'runs'),
        ('tf.data.Dataset.from_generator(f)', 'tf.data.Dataset.from_generator', 'runs', 'runs'),
        ('x.get_shape()[0].value', '.value of a size', 'needs', 'needs'),
        ('tf.matmul(x, y)', 'tf.matmul', None, None),
        ('tf.summary.scalar(x, y)', 'tf.summary.scalar', 'needs', 'runs'),
        ('tf.losses.Reduction.AUTO', 'tf.losses.Reduction', 'runs', 'runs'),
        ('tf.losses.Reduction.MEAN', 'tf.losses.Reduction.MEAN', 'needs', 'runs'),
        ('tf.device(tf.train.replica_device_setter())', 'tf.device(function)', 'needs', 'runs'),
        ('tf.device(lambda op: x)', 'tf.device(function)', 'needs', 'runs'),
        ("tf.device('/cpu:0')", 'tf.device(function)', None, None),
        ('tf.DeviceSpec.from_string(x).merge_from(y)', '.merge_from', 'needs', 'needs'),
        ('dataset.map(f, num_threads=2)', '.map(num_threads)', 'needs', 'needs'),
        ('dataset.map(f, num_parallel_calls=2)', '.map(num_threads)', None, None),
        (f'tf.distribute.{RESOLVER}()', f'tf.distribute.{RESOLVER}', 'needs', 'needs'),
    ],
)
def test_states(line, name, with_v2, with_v1):
    assert states(V2 + line).get(name) == with_v2
    assert states(V1 + line).get(name) == with_v1


OPTIMIZER = 'tf.compat.v1.train.AdamOptimizer()'
OLD_OPTIMIZER = 'tf.estimator.DNNClassifier(optimizer of v1)'


@pytest.mark.parametrize(
    'text, state',
    [
        (f'{V2}tf.estimator.DNNClassifier([4], c, optimizer={OPTIMIZER})', 'needs'),
        (f'{V2}tf.estimator.DNNClassifier([4], c, optimizer=lambda: {OPTIMIZER})', 'needs'),
        (f'{V1}tf.estimator.DNNClassifier([4], c, optimizer=tf.train.AdamOptimizer())', 'runs'),
        (f"{V2}tf.estimator.DNNClassifier([4], c, optimizer='Adam')", None),
        (f'{V2}tf.compat.v1.estimator.DNNClassifier([4], c, optimizer={OPTIMIZER})', 'runs'),
        (f'{V2}tf.estimator.DNNClassifier([4], c, optimizer=tf.keras.optimizers.Adam())', None),
    ],
)
def test_an_optimizer_of_tensorflow_1_in_an_estimator_of_tensorflow_2(text, state):
    assert states(text).get(OLD_OPTIMIZER) == state


def test_an_optimizer_of_a_combined_estimator_has_another_argument():
    text = f'{V2}tf.estimator.DNNLinearCombinedClassifier(dnn_optimizer={OPTIMIZER})'
    assert states(text)['tf.estimator.DNNLinearCombinedClassifier(optimizer of v1)'] == 'needs'


@pytest.mark.parametrize(
    'estimator, state',
    [
        ('tf.estimator.DNNClassifier(x)', 'needs'),
        ('tf.estimator.DNNLinearCombinedRegressor(x)', 'needs'),
        ('tf.compat.v1.estimator.DNNClassifier(x)', 'runs'),
        ('tf.estimator.Estimator(x)', 'runs'),
    ],
)
def test_shared_embeddings_are_not_trained_by_every_estimator(estimator, state):
    text = f'{V2}columns = tf.feature_column.shared_embeddings(x, 3)\n{estimator}'
    assert states(text)['tf.feature_column.shared_embeddings'] == state


@pytest.mark.parametrize(
    'line, state',
    [
        ('from tensorflow.python.estimator import estimator', 'runs'),
        ('from tensorflow_estimator.python.estimator.canned import head', 'runs'),
        ('from tensorflow.python.framework import ops', 'runs'),
        ('from tensorflow.python.ops import gone_long_ago', 'runs'),  # a name of a module that is there: not known
        ('from tensorflow.python.eager.gone import x', 'needs'),
        ('from tensorflow import *', 'runs'),
        ('from tensorflow.examples.tutorials.mnist import input_data', 'blocks'),
        ('import tensor2tensor', 'blocks'),
        ('from tensorflow.core.protobuf import config_pb2', 'runs'),
    ],
)
def test_imports(line, state):
    assert list(states(line).values())[0] == state


def test_a_guarded_import_does_not_block():
    found = assess('try:\n  from tensorflow.contrib import crf\nexcept ImportError:\n  crf = None').findings
    assert [(one.state, one.here) for one in found] == [('runs', findings.GUARDED)]


def test_a_module_by_another_name_needs_one_change():
    found = assess(f'{V2}flags = tf.flags\nflags.DEFINE_bool(x)\nlogging = tf.logging\nlogging.info(x)').findings
    assert [(one.line, one.state) for one in found if one.name == 'tf.flags'] == [(2, 'needs'), (3, 'runs')]
    assert [(one.line, one.state) for one in found if one.name == 'tf.logging.info'] == [(5, 'runs')]


@pytest.mark.parametrize(
    'condition, first, second',
    [
        ('use_tpu', 'runs', 'needs'),
        ('FLAGS.use_tpu and FLAGS.tpu_name', 'runs', 'needs'),
        ("params['use_tpu']", 'runs', 'needs'),
        ("strategy == 'tpu'", 'runs', 'needs'),
        ('not use_tpu', 'needs', 'runs'),
        ('use_tpu or x', 'needs', 'needs'),
        ("strategy != 'tpu'", 'needs', 'needs'),
        ('x', 'needs', 'needs'),
    ],
)
def test_what_only_a_tpu_reaches_runs(condition, first, second):
    text = f'if {condition}:\n  tf.contrib.tpu.CrossShardOptimizer(x)\nelse:\n  tf.contrib.tpu.RunConfig(x)'
    assert [one.state for one in assess(V2 + text).findings] == [first, second]


@pytest.mark.parametrize(
    'text, state',
    [
        (f'tf.distribute.{RESOLVER}() if use_tpu else None', 'runs'),
        (f'None if not use_tpu else tf.distribute.{RESOLVER}()', 'runs'),
        (f'tf.distribute.{RESOLVER}() if not use_tpu else None', 'needs'),
        (f'None if use_tpu else tf.distribute.{RESOLVER}()', 'needs'),
    ],
)
def test_what_only_a_tpu_reaches_within_a_line(text, state):
    assert states(V2 + text)[f'tf.distribute.{RESOLVER}'] == state


def test_summaries_of_tensorflow_2_run():
    text = "with tf.summary.create_file_writer(x).as_default():\n  tf.summary.scalar('a', b, step=1)"
    assert states(V2 + text)['tf.summary.scalar'] == 'runs'


def test_names_that_left_a_private_module():
    text = (
        'from tensorflow.python.feature_column import feature_column_lib as f\nf.DenseFeatures(x)\nf.numeric_column(x)'
    )
    assert [(one.line, one.state) for one in assess(text).findings] == [(1, 'runs'), (2, 'needs')]


def test_sizes_of_tensorflow_1_are_asked_for():
    assert states(f'{V1}tf.disable_v2_behavior()\nx.shape[0].value')['.value of a size'] == 'runs'


def test_python_2_is_a_finding_and_the_other_files_are_read():
    found = assess(V2 + 'print "a"\ntf.log(x)', V2 + 'tf.estimator.Estimator(f)').findings
    assert [(one.place, one.state) for one in found] == [('a.py:2', 'blocks'), ('a.py:3', 'needs'), ('b.py:2', 'runs')]


@pytest.mark.parametrize(
    'line, runs',
    [
        ('tf.placeholder(tf.int32)', True),
        ('tf.reduce_sum(x, keep_dims=True)', True),
        ('dataset.make_one_shot_iterator()', True),
        ('x.shape[0].value', True),
        ('from tensorflow.examples.tutorials.mnist import input_data', True),
        ('from tensorflow.python.training.tracking import base', True),
        ('tf.contrib.training.HParams(rate=1)', True),
        ('tf.contrib.crf.viterbi_decode(x)', True),
        ('tf.train.ProfilerHook(5)', True),
        ('tf.contrib.seq2seq.BasicDecoder(x)', False),
        ('from tensorflow.python.eager.gone import x', False),
        ('tf.estimator.BoostedTreesClassifier(x)', False),
        ('tf.mul(x, y)', False),
        ('tf.DeviceSpec.from_string(x).merge_from(y)', False),
        ('import tensor2tensor', False),
    ],
)
def test_what_runs_with_tf1(line, runs):
    """A line that needs a change or blocks, in a program whose other lines need `--tf1`."""
    found = assess(f'{V2}tf.app.run()\n{line}')
    (one,) = [each for each in found.findings if each.line == 3 and each.state != 'runs']
    assert one.with_tf1 == runs == found.runs_with_tf1
    assert found.lines_with_tf1 == (0 if runs else 1)


def test_with_tf1_a_name_of_tensorflow_2_is_gone():
    """Then `--tf1` is no way to run the program."""
    found = assess(f'{V2}tf.app.run()\ntf.random.set_seed(1)')
    assert not found.runs_with_tf1 and not any(each.with_tf1 for each in found.findings)


def test_without_old_names_tf1_is_not_spoken_of():
    found = assess(f'{V1}tf.mul(x, y)', V2)
    assert not found.runs_with_tf1 and not any(each.with_tf1 for each in found.findings)
    assert not assess(f'{V2}tf.estimator.Estimator(f)').runs_with_tf1


INPUT = """
import tensorflow as tf
def train_input_fn():
    def input_fn_of_files():
        return tf.data.TFRecordDataset(x)
    return input_fn_of_files
def eval_input_fn():
    return tf.data.TFRecordDataset(x)
def sharded_input_fn(input_context=None):
    return tf.data.TFRecordDataset(x)
def input_fn_by_hand():
    return tf.data.TFRecordDataset(x).shard(n, i)
def synthetic_input_fn():
    return tf.data.Dataset.from_tensors(x).repeat()
def serving_input_receiver_fn():
    return x
"""


@pytest.mark.parametrize(
    'more',
    [
        'tf.distribute.MirroredStrategy()',
        "os.environ['TF_CONFIG']",
        'tf.estimator.RunConfig(train_distribute=x)',
        'tf.contrib.distribute.MirroredStrategy()',
    ],
)
def test_an_input_fn_that_shards_nothing_matters_to_several_workers(more):
    name = 'train_input_fn without input_context'
    assert name not in states(INPUT)
    found = [one for one in assess(INPUT + more).findings if 'input_context' in one.name]
    assert [(one.name, one.line, one.state) for one in found] == [(name, 3, 'needs')]


def test_a_tpu_is_not_several_workers():
    assert not [
        name for name in states(f'{INPUT}tf.distribute.cluster_resolver.TPUClusterResolver()') if 'input_' in name
    ]


def test_of_a_package_only_the_import_counts_and_not_in_the_package_itself():
    text = 'from tensor2tensor.utils import registry\nregistry.x\nimport tensorflow_hub as hub\nhub.Module(x)'
    found = assess(text).findings
    assert [(one.line, one.state) for one in found] == [(1, 'blocks'), (3, 'runs'), (4, 'blocks')]
    inside = findings.assess([source_files.parse('/x/tensor2tensor/utils/a.py', text)]).findings
    assert [one.line for one in inside] == [3, 4]


def test_effort_counts_each_part_once_in_a_file():
    text = V2 + 'tf.train.AdamOptimizer()\ntf.train.AdamOptimizer()\ntf.estimator.Estimator(f)\ntf.contrib.crf.x\n'
    assert assess(text).points == 1 + 8 + 3
    assert assess(text, text).points == 2 * (1 + 8 + 3)
    assert assess(text).lines_to_change == 2  # the import, and the line of tf.contrib


def test_files_without_tensorflow():
    found = assess('import os\nos.train(input_fn=1)', V2)
    assert (found.files, found.without_tensorflow, found.findings) == (2, 1, ())


def test_the_table():
    """Each entry says what to do where something is to be done, and names only what there is."""
    for name, entry in knowledge.table().items():
        assert entry.keras and entry.effort in knowledge.EFFORTS, name
        assert entry.here or entry.state in ('runs', 'tf1'), name
        bare = name.partition('(')[0]
        if entry.state in ('runs', 'tf1') and bare.startswith('tf.') and not bare.startswith('tf.contrib'):
            assert tf_names.find(bare).version != tf_names.UNKNOWN, name


def test_a_sum_of_very_many_terms():
    terms = ' + '.join(['tf.log(x)'] * 2500)
    assert len(assess(f'import tensorflow as tf\ny = {terms}\n').having('needs')) == 1
