"""The values of a job's params: what a default may be, and what --param says of it. Pure.

A value is a bool, an int, a float, a string, or a list of numbers or of strings. In a text, commas stand between the
values of a list.
"""

import math
from typing import Any

_ONE = (bool, int, float, str)


def problem(default: Any) -> str:
    """Why this cannot be the default of a param, for a message: 'a dict; …'; '' if it can."""
    values = default if isinstance(default, (list, tuple)) else [default]
    if any(isinstance(each, float) and math.isnan(each) for each in values):
        return f'{own(default)!r}; NaN is not equal to itself, so that no run could be resumed. Give another value'
    if isinstance(default, _ONE):
        return ''
    if not isinstance(default, (list, tuple)):
        return f'a {type(default).__name__}; only a bool, int, float, str or a list of them can be set by --param'
    if not default:
        return 'an empty list, which does not say whether it is one of numbers or of strings; give it a value'
    if all(isinstance(each, str) for each in default) or all(type(each) in (int, float) for each in default):
        return ''
    own_types = ' of Python, as values.tolist() gives them' if any(hasattr(each, 'tolist') for each in default) else ''
    return f'{list(default)!r}; a list has numbers{own_types}, or it has strings'


def own(value: Any) -> Any:
    """The value for somebody who may change it: a list, also of a tuple, is copied."""
    return list(value) if isinstance(value, (list, tuple)) else value


def parse(text: str, default: Any) -> Any:
    """The value of a text, of the type of the default. An empty text is an empty list.

    Raises:
        ValueError: it is of another type.
    """
    if isinstance(default, (list, tuple)):
        kind = _kind_in(default)
        return [_parse(part.strip(), kind) for part in text.split(',')] if text.strip() else []
    return _parse(text, type(default))


def text_of(value: Any) -> str:
    """The text of which `parse` makes the value.

    Raises:
        ValueError: it is a list, and a string in it has a comma or blanks at an end, or is the only one and empty.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, (list, tuple)):
        return str(value)
    texts = [str(each) for each in value]
    if texts == [''] or any(',' in each or each != each.strip() for each in texts):
        raise ValueError(value)
    return ','.join(texts)


def described(default: Any) -> str:
    """'an int', 'a list of floats': what a value has to be."""
    if isinstance(default, (list, tuple)):
        return f'a list of {_kind_in(default).__name__.replace("str", "string")}s, with commas between them'
    return {int: 'an int', str: 'a string'}.get(type(default), f'a {type(default).__name__}')


def _kind_in(default: Any) -> type:
    """The type of the values in a list."""
    return float if any(isinstance(each, float) for each in default) else type(default[0])


def _parse(text: str, kind: type) -> Any:
    if kind is bool:
        if text.lower() not in ('true', 'false', '1', '0'):
            raise ValueError(text)
        return text.lower() in ('true', '1')
    value = kind(text)
    if kind is float and not math.isfinite(value):
        raise ValueError(text)
    return value
