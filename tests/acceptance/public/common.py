"""What several of the public programs read: small data, the same in every run."""

import json
import random
import string
import struct


def words(count=40):
    """A vocabulary of made-up words."""
    chosen = random.Random(0)
    return sorted({''.join(chosen.choices(string.ascii_lowercase, k=5)) for _ in range(count)})


def sentences(count, seed=0, length=6):
    """Sentences of these words, of at least two each."""
    chosen = random.Random(seed)
    return [' '.join(chosen.choices(words(), k=chosen.randint(2, length))) for _ in range(count)]


def write_bert_vocabulary(path):
    """The vocab.txt of BERT: a token a line."""
    path.write_text('\n'.join(['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', *words()]) + '\n')


def write_cola(folder, count=32):
    """The tab-separated files of GLUE's task CoLA: source, label, mark, sentence."""
    for seed, name in enumerate(('train', 'dev', 'test')):
        rows = [f'made\t{len(sentence) % 2}\t*\t{sentence}' for sentence in sentences(count, seed)]
        (folder / f'{name}.tsv').write_text('\n'.join(rows) + '\n')


def write_bert_config(path, **more):
    """A BERT of two small layers."""
    sizes = {'hidden_size': 16, 'num_hidden_layers': 2, 'num_attention_heads': 2, 'intermediate_size': 32}
    positions = {'max_position_embeddings': 64, 'type_vocab_size': 2, 'vocab_size': 5 + len(words())}
    rest = {'hidden_act': 'gelu', 'initializer_range': 0.02}
    dropout = {'hidden_dropout_prob': 0.1, 'attention_probs_dropout_prob': 0.1}
    path.write_text(json.dumps({**sizes, **positions, **rest, **dropout, **more}))


def write_table(path, rows, header=None, separator=','):
    """A file of lines, each of values with a separator between them."""
    lines = [separator.join(map(str, row)) for row in ([header] if header else []) + list(rows)]
    path.write_text('\n'.join(lines) + '\n')


def write_examples(path, rows):
    """A TFRecord file of tf.train.Examples. A row is {name: list of int, of float or of bytes}."""
    import tensorflow as tf  # the runner needs it for this alone

    def feature(values):
        if isinstance(values[0], bytes):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        if isinstance(values[0], float):
            return tf.train.Feature(float_list=tf.train.FloatList(value=values))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    with tf.io.TFRecordWriter(str(path)) as file:
        for row in rows:
            features = tf.train.Features(feature={name: feature(values) for name, values in row.items()})
            file.write(tf.train.Example(features=features).SerializeToString())


def field(number, value):
    """A field of a protocol buffer: bytes, or a whole number."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value):
    start = bytearray()
    while value > 127:
        start.append(value & 127 | 128)
        value >>= 7
    return bytes(start) + bytes([value])


def write_census(path, count=200):
    """Rows of the form of the census income data: fifteen columns, with a space after each comma."""
    chosen = random.Random(0)
    columns = [(17, 25, 80), 'Private|State-gov', (20000, 400000), 'Bachelors|11th', (1, 9, 16)]
    columns += ['Divorced|Never-married', 'Sales|Tech-support', 'Husband|Unmarried', 'White|Black', 'Male|Female']
    columns += [(0, 500), (0, 100), (10, 40, 60), 'Cuba|Japan', '<=50K|>50K']
    values = [column.split('|') if isinstance(column, str) else column for column in columns]
    write_table(path, [list(map(chosen.choice, values)) for _ in range(count)], separator=', ')


def write_iris(path, seed=0, count=60):
    """The table of iris flowers of TensorFlow's first examples: four lengths and the kind."""
    chosen = random.Random(seed)
    kinds = [chosen.randrange(3) for _ in range(count)]
    rows = [[*(round(chosen.gauss(3 + kind, 0.5), 1) for _ in range(4)), kind] for kind in kinds]
    write_table(path, rows, header=[count, 4, 'setosa', 'versicolor', 'virginica'])


def write_mnist(folder, count=60):
    """The four idx files of MNIST."""
    chosen = random.Random(0)
    for name in ('train', 't10k'):
        images, labels = chosen.randbytes(count * 28 * 28), bytes(chosen.randrange(10) for _ in range(count))
        (folder / f'{name}-images-idx3-ubyte').write_bytes(struct.pack('>4I', 2051, count, 28, 28) + images)
        (folder / f'{name}-labels-idx1-ubyte').write_bytes(struct.pack('>2I', 2049, count) + labels)


def write_cars(path, count=60):
    """Rows of the form of UCI's automobile data: 26 columns, some of words, and the price last."""
    chosen = random.Random(0)
    words = {
        2: 'honda',
        3: 'gas',
        4: 'std',
        5: 'four',
        6: 'sedan',
        7: 'fwd',
        8: 'front',
        14: 'ohc',
        15: 'four',
        17: 'mpfi',
    }
    rows = []
    for _ in range(count):
        row = [words.get(column, chosen.randint(10, 99)) for column in range(25)]
        row[13], row[6] = chosen.randint(1500, 4000), chosen.choice(['sedan', 'wagon'])
        rows.append([*row, 10 * row[13] - 200 * row[24]])
    write_table(path, rows)
