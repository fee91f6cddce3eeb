"""`dataset.py` of the result: the data side of the Estimator, as plain code that its reader owns."""

import pprint

_TEXT = '''\
"""What the Estimator did with its data before the model: `dataset.map(for_keras)`, and `parse` for tf.Example."""

import tensorflow as tf

FEATURES = {features}  # feature -> dtype; what the model reads, and nothing else
WEIGHT = {weight!r}  # the feature that holds the weight of an example
LABELS = {labels}  # the label vocabulary, in the order of the classes

PARSE_SPEC = {spec}


def parse(examples) -> dict:
    """Serialized tf.Examples, string [batch], to what `saved_model/` reads of them, as the Estimator's export does.

    Categories are tf.SparseTensors: one that is missing is not there, and a cross of it is not there either. A number
    must be there unless its spec has a default. The model files take the features of `for_keras` instead.
    """
    return tf.io.parse_example(examples, PARSE_SPEC)


def for_keras(features, labels):
    """A batch of the input_fn to what fit and evaluate take: (features, labels{weights_doc})."""
    taken = {{name: features[name] for name in FEATURES}}
    return {returned}


def to_labels(labels):
    """{labels_doc}"""
{label_body}
'''


def text(description: dict) -> str:
    """The file."""
    features, head = description['features'], description['head']
    weight = head['weight_column']
    weights = ', tf.reshape(tf.cast(features[WEIGHT], tf.float32), [-1, 1])' if weight else ''
    doc, body = _labels(head, description['units'], description['labels_are_sparse'])
    return _TEXT.format(
        features=pprint.pformat({name: one['dtype'] for name, one in features.items()}, width=110),
        weight=weight,
        labels=pprint.pformat(head['label_vocabulary'], width=110, compact=True),
        spec=_spec(features),
        weights_doc=', weights' if weight else '',
        returned=f'taken, to_labels(labels){weights}',
        labels_doc=doc,
        label_body=body,
    )


def _spec(features) -> str:
    lines = ['{']
    for name, one in features.items():
        parsed = one['parsed']
        if parsed['shape'] is None:
            made = f'tf.io.VarLenFeature(tf.{parsed["dtype"]})'
        else:
            default = '' if parsed['default'] is None else f', {parsed["default"]!r}'
            made = f'tf.io.FixedLenFeature({parsed["shape"]}, tf.{parsed["dtype"]}{default})'
        lines.append(f'    {name!r}: {made},')
    return '\n'.join([*lines, '}'])


def _labels(head, units, are_sparse):
    if head['kind'] == 'multi_label' and are_sparse:
        return _sparse_labels(head, units)
    if head['kind'] == 'multi_label':
        return f'0 or 1 for each class, float32 [batch, {units}].', _lines(
            f'return tf.reshape(tf.cast(labels, tf.float32), [-1, {units}])'
        )
    if head['kind'] in ('binary', 'multi_class'):
        dtype = 'float32' if head['kind'] == 'binary' else 'int64'
        doc = f'Numbers of classes, {dtype} [batch, 1].'
        if not head['label_vocabulary']:
            return doc, _lines(f'return tf.reshape(tf.cast(labels, tf.{dtype}), [-1, 1])')
        return f'{doc} Raises InvalidArgumentError for a word that is not in LABELS.', _lines(
            'found = tf.cast(tf.equal(tf.reshape(labels, [-1, 1]), LABELS), tf.int64)',
            "tf.debugging.assert_equal(tf.reduce_sum(found, 1), tf.cast(1, tf.int64), 'a label that is not in LABELS')",
            f'return tf.cast(tf.argmax(found, 1)[:, None], tf.{dtype})',
        )
    return f'float32 [batch, {units}].', _lines(f'return tf.reshape(tf.cast(labels, tf.float32), [-1, {units}])')


def _sparse_labels(head, units):
    doc = f'Of a tf.SparseTensor of classes: 0 or 1 for each class, float32 [batch, {units}].'
    classes = 'tf.cast(labels.values, tf.int64)'
    check = ()
    if head['label_vocabulary']:
        doc += ' Raises InvalidArgumentError for a word that is not in LABELS.'
        check = (
            'found = tf.cast(tf.equal(labels.values[:, None], LABELS), tf.int64)',
            "tf.debugging.assert_equal(tf.reduce_sum(found, 1), tf.cast(1, tf.int64), 'a label that is not in LABELS')",
        )
        classes = 'tf.argmax(found, 1)'
    return doc, _lines(
        *check,
        f'there = tf.sparse.to_indicator(labels.with_values({classes}), {units})',
        f'return tf.reshape(tf.cast(there, tf.float32), [-1, {units}])',
    )


def _lines(*lines) -> str:
    return '\n'.join(f'    {line}' for line in lines)
