"""Classes for protobuf messages of TensorFlow, made from tables of their fields.

TensorFlow's own classes come with all of TensorFlow, which takes seconds to import; these take milliseconds. Fields
that nobody here reads are left out of the tables, and protobuf skips them.
"""

from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_Field = descriptor_pb2.FieldDescriptorProto
DOUBLE, INT32, INT64, UINT64 = _Field.TYPE_DOUBLE, _Field.TYPE_INT32, _Field.TYPE_INT64, _Field.TYPE_UINT64
FIXED32, STRING = _Field.TYPE_FIXED32, _Field.TYPE_STRING
ONE, MANY = _Field.LABEL_OPTIONAL, _Field.LABEL_REPEATED


def classes(package: str, messages: Mapping[str, list[tuple[str, int, int | str, int]]]) -> dict[str, Any]:
    """{name: class} of the messages.

    Args:
        package: a name for them.
        messages: {message: [(field, its number, its type or the message that it holds, ONE or MANY)]}. A map is a
            repeated message with the fields `key` and `value`, numbers 1 and 2.
    """
    file = descriptor_pb2.FileDescriptorProto(name=f'{package}.proto', package=package, syntax='proto2')
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field, number, kind, label in fields:
            if isinstance(kind, str):
                held = f'.{package}.{kind}'
                message.field.add(name=field, number=number, type=_Field.TYPE_MESSAGE, type_name=held, label=label)
            else:
                message.field.add(name=field, number=number, type=kind, label=label)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f'{package}.{name}')) for name in messages}
