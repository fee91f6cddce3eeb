"""Prints every public name of tf.estimator with its arguments and defaults: the same on 2.15.1 and under compat."""

import inspect
import re

import tensorflow as tf
from tensorflow.python.util import tf_export


def lines(module, path, above=()):
    for name in sorted(name for name in dir(module) if not name.startswith('_')):
        value, full_name = getattr(module, name), f'{path}.{name}'
        if inspect.ismodule(value):
            if value not in above and 'estimator' in value.__name__:
                yield from lines(value, full_name, (*above, value))
        elif inspect.isclass(value):
            yield f'{full_name} {[base.__name__ for base in value.__mro__[1:]]} {api_names(value)}'
            for method in sorted(name for name in dir(value) if name == '__init__' or not name.startswith('_')):
                yield f'{full_name}.{method}{arguments(getattr(value, method))}'
        else:
            yield f'{full_name}{arguments(value)} {api_names(value)}'


def arguments(value):
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return f' = {value!r}'
    untyped = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()]
    return str(signature.replace(parameters=untyped, return_annotation=inspect.Signature.empty))  # ours may have types


def api_names(value):
    canonical = tf_export.get_canonical_name_for_symbol(value, 'estimator')
    return f'{sorted(tf_export.get_v1_names(value))} {sorted(tf_export.get_v2_names(value))} {canonical}'


def main():
    found = [*lines(tf.estimator, 'tf.estimator'), *lines(tf.compat.v1.estimator, 'tf.compat.v1.estimator')]
    print(re.sub(r' at 0x[0-9a-f]+', '', '\n'.join(found)))


if __name__ == '__main__':
    main()
