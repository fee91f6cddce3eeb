"""predict.examples: keys, complex outputs and the order of files."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.errors import BadExample, DatasetError, UsageError
from estimator_trainer.tools.predict import signature
from estimator_trainer.tools.predict.examples import Examples
from tests.tools.predict import models
from tests.tools.predict.test_tf_examples import opened, planned


def float_key_export(folder, takes_serialized) -> str:
    """A SavedModel that reads its rows' ids as float32."""
    spec = {'id': tf.io.FixedLenFeature([], tf.float32), 'x': tf.io.FixedLenFeature([], tf.float32)}

    class Both(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name) for name in spec])
        def of_tensors(self, id, x):
            return {'y': id + x}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, 'examples')])
        def of_examples(self, examples):
            return self.of_tensors(**tf.io.parse_example(examples, spec))

    module = Both()
    signatures = {'serving_default': module.of_examples if takes_serialized else module.of_tensors}
    tf.saved_model.save(module, str(folder / 'export'), signatures)
    return str(folder / 'export')


@pytest.mark.parametrize('takes_serialized', [False, True])
@pytest.mark.parametrize('kind', ['csv', 'parquet'])
def test_a_key_that_the_model_reads_rounded_stays_as_it_is(tmp_path, kind, takes_serialized):
    ids = [123456789, 123456790, 123456791] if kind == 'csv' else [7, 8, 9]  # Parquet's would be no float32
    if kind == 'csv':
        files = tmp_path / 'all.csv'
        files.write_text('x,id\n' + ''.join(f'1,0{number}\n' for number in ids))
        keys = [b'0%d' % number for number in ids]
    else:
        files, keys = tmp_path / 'all.parquet', ids
        models.pyarrow.parquet.write_table(models.pa.table({'x': [1.0] * 3, 'id': ids}), files)
    model = signature.Model(float_key_export(tmp_path, takes_serialized))
    inputs, read = opened(model, str(files)).read(range(3))
    assert read.tolist() == keys
    assert model.predict(inputs, 3)['y'].tolist() == (np.float32(ids) + 1).tolist()


def test_large_whole_numbers_and_categories_are_keys(tmp_path):
    class Doubled(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, 'x')])
        def __call__(self, x):
            return {'y': x + x}

    module, pa = Doubled(), models.pa
    tf.saved_model.save(module, str(tmp_path / 'export'), {'serving_default': module.__call__})
    for ids in (pa.array([2**63, 2**64 - 1, 3], pa.uint64()), pa.array([7, 9, 7]).dictionary_encode()):
        models.pyarrow.parquet.write_table(pa.table({'x': [1.0] * 3, 'key': ids}), tmp_path / 'all.parquet')
        model = signature.Model(str(tmp_path / 'export'))
        _, read = opened(model, str(tmp_path / 'all.parquet'), key='key').read(range(3))
        assert read.tolist() == ids.to_pylist()


def test_a_complex_output_is_refused_before_any_row_is_read(tmp_path):
    class Complex(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, 'x')])
        def __call__(self, x):
            return {'y': tf.complex(x, x), 'x': x}

    module = Complex()
    tf.saved_model.save(module, str(tmp_path / 'export'), {'serving_default': module.__call__})
    with pytest.raises(UsageError, match='the output y of the signature serving_default has complex numbers'):
        signature.Model(str(tmp_path / 'export'))
    assert signature.Model(str(tmp_path / 'export'), outputs=('x',))


def test_a_first_record_that_is_no_example_has_no_key(tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / 'all.tfrecord')) as writer:
        writer.write(b'?')
        writer.write(models.example(1))
    model = signature.Model(float_key_export(tmp_path, True))
    with pytest.raises(BadExample, match='all.tfrecord, record 0 at byte 0: is no tf.Example, so it has no key'):
        opened(model, str(tmp_path / 'all.tfrecord'))


def test_times_have_the_unit_on_which_the_run_was_trained(tmp_path):
    class Next(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, 't')])
        def __call__(self, t):
            return {'y': t + 1}

    module = Next()
    tf.saved_model.save(module, str(tmp_path / 'export'), {'serving_default': module.__call__})
    model = signature.Model(str(tmp_path / 'export'))
    times = models.pa.array([7], models.pa.timestamp('ns'))
    models.pyarrow.parquet.write_table(models.pa.table({'t': times}), tmp_path / 'all.parquet')
    plan = planned(str(tmp_path / 'all.parquet'), key='', export='runs/a/export/best/170')
    for trained in ({}, {'t': 'timestamp[ns]'}, {'another': 'timestamp[us]'}):
        inputs, _ = Examples(dataclasses.replace(plan, units=trained), model, None).read(range(1))
        assert inputs['t'].numpy().tolist() == [7]
    for unit, said in (('timestamp[us]', 'timestamp.us.'), ('', 'values without a unit')):
        with pytest.raises(
            UsageError,
            match=f"column 't' is timestamp.ns., and the run in runs/a was trained on {said}; .* by --export",
        ):
            Examples(dataclasses.replace(plan, units={'t': unit}), model, None)


def test_files_are_read_in_the_order_of_the_plan(tmp_path):
    for name, row in (('a', 1), ('b', 2)):
        (tmp_path / f'{name}.csv').write_text(f'x,id\n{row},{row}\n')
    model = signature.Model(float_key_export(tmp_path, False))
    plan = planned(str(tmp_path / '*.csv'))
    plan = dataclasses.replace(plan, files=plan.files[::-1])
    inputs, _ = Examples(plan, model, None).read(range(2))
    assert inputs['id'].numpy().tolist() == [2, 1]


def test_a_file_that_was_replaced_since_the_command_looked_at_it_is_refused(tmp_path):
    path = tmp_path / 'a.csv'
    path.write_text('x,id\n1,1\n')
    model, plan = signature.Model(float_key_export(tmp_path, False)), planned(str(path))
    path.write_text('x,id\n1,1\n2,2\n')
    with pytest.raises(DatasetError, match='a.csv has changed while it was in use'):
        Examples(plan, model, None)
