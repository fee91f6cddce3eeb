"""What tests do with the checkpoints of the fixture model_dir: name, damage and list them."""

import shutil

import tensorflow as tf

v1 = tf.compat.v1
STEPS = (10, 20, 30)


def save(folder):
    with tf.Graph().as_default(), v1.Session() as session:
        step = v1.train.get_or_create_global_step()
        weight = v1.get_variable('weight', [1000], initializer=v1.random_uniform_initializer())
        session.run(v1.global_variables_initializer())
        saver = v1.train.Saver(max_to_keep=None)
        for number in STEPS:
            session.run(step.assign(number))
            saver.save(session, str(folder / 'model.ckpt'), number)
        v1.train.Saver([weight]).save(session, str(folder / 'no_step'), write_state=False)


def name(model_dir, step):
    """Lets the file `checkpoint` name the one of a step."""
    v1.train.update_checkpoint_state(str(model_dir), f'model.ckpt-{step}', [f'model.ckpt-{number}' for number in STEPS])


def part(model_dir, kind, step=STEPS[-1]):
    (path,) = model_dir.glob(f'model.ckpt-{step}.{kind}*')
    return path


def truncate(path, left):
    with open(path, 'r+b') as file:
        file.truncate(left)


def flip(path):
    content = bytearray(path.read_bytes())
    content[30] ^= 1
    path.write_bytes(content)


def lose_step(model_dir):
    for kind in ('index', 'data'):
        shutil.copy(next(model_dir.glob(f'no_step.{kind}*')), part(model_dir, kind))


DAMAGES = {
    'data cut short': lambda folder: truncate(part(folder, 'data'), 2000),
    'data cut by a byte': lambda folder: truncate(part(folder, 'data'), 4007),
    'data empty': lambda folder: truncate(part(folder, 'data'), 0),
    'data missing': lambda folder: part(folder, 'data').unlink(),
    'a bit of the data': lambda folder: flip(part(folder, 'data')),
    'index cut short': lambda folder: truncate(part(folder, 'index'), 40),
    'index empty': lambda folder: truncate(part(folder, 'index'), 0),
    'index missing': lambda folder: part(folder, 'index').unlink(),
    'a bit of the index': lambda folder: flip(part(folder, 'index')),
    'all zeros': lambda folder: part(folder, 'data').write_bytes(bytes(4008)),
}


def steps_left(model_dir):
    return sorted(int(path.stem.split('-')[1]) for path in model_dir.glob('model.ckpt-*.index'))


def content(folder):
    return {path: path.read_bytes() for path in folder.rglob('*') if path.is_file()}
