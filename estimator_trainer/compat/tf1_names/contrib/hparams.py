"""tf.contrib.training.HParams: the values that describe a training, with types that stay.

Behaviour: https://www.tensorflow.org/versions/r1.15/api_docs/python/tf/contrib/training/HParams
"""

from __future__ import annotations

import json
import numbers
import re
from collections.abc import Mapping
from typing import Any

_ITEM = re.compile(
    r'\s*(?P<name>[A-Za-z][\w.]*)(\[\s*(?P<index>\d+)\s*\])?\s*=\s*(\[(?P<list>[^\]]*)\]|(?P<value>[^,\[]*))\s*(,|$)'
)


class HParams:
    """Named values. Each keeps the type of its first value, and a list stays a list.

    Args:
        hparam_def: has to be None: protos of hyperparameters were never common.
        model_structure: anything, which `get_model_structure` gives back.
        **kwargs: names and values.
    """

    _model_structure = None

    def __init__(self, hparam_def: Any = None, model_structure: Any = None, **kwargs: Any) -> None:
        if hparam_def is not None:
            raise ValueError('HParams: hparam_def is not supported; give the values by name.')
        self._hparam_types: dict[str, tuple[type, bool]] = {}  # name -> (type, whether it is a list)
        self._model_structure = model_structure
        for name, value in kwargs.items():
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: Any) -> None:
        """Adds a value.

        Raises:
            ValueError: the name is taken, or the value is an empty list.
        """
        if getattr(self, name, None) is not None:
            raise ValueError(f'Hyperparameter name is reserved: {name}')
        if isinstance(value, list | tuple):
            if not value:
                raise ValueError(f'Multi-valued hyperparameters cannot be empty: {name}')
            self._hparam_types[name] = (type(value[0]), True)
        else:
            self._hparam_types[name] = (type(value), False)
        setattr(self, name, value)

    def set_hparam(self, name: str, value: Any) -> None:
        """Sets a value that was added before.

        Raises:
            KeyError: it was not.
            ValueError: the value does not have the type of the first one, or is a list in place of one value.
        """
        kind, is_list = self._hparam_types[name]
        if isinstance(value, list) != is_list:
            must = 'be a list' if is_list else 'not be a list'
            raise ValueError(f'{name}={value!r}: the value has to {must}.')
        cast = [_cast(name, kind, each) for each in value] if is_list else _cast(name, kind, value)
        setattr(self, name, cast)

    def del_hparam(self, name: str) -> None:
        """Removes a value, if there is one of this name."""
        if hasattr(self, name):
            delattr(self, name)
            del self._hparam_types[name]

    def parse(self, values: str) -> HParams:
        """Sets values from text such as `rate=0.1,layers=[3,4],sizes[1]=5`. Returns self.

        Blanks and commas separate the values of a list.

        Raises:
            ValueError: the text cannot be read, a name is unknown or set twice, or a value is of another type.
        """
        position = 0
        seen: set[tuple[str, str | None]] = set()
        while position < len(values):
            item = _ITEM.match(values, position)
            if not item:
                raise ValueError(f'Malformed hyperparameter value: {values[position:]}')
            position = item.end()
            name, index = item['name'], item['index']
            if name not in self._hparam_types:
                raise ValueError(f'Unknown hyperparameter: {name}')
            if (name, index) in seen or (name, None) in seen or index is None and any(name == one for one, _ in seen):
                raise ValueError(f'Multiple assignments to variable {name!r} in {values!r}')
            seen.add((name, index))
            self._set_text(name, index, item['list'], item['value'])
        return self

    def _set_text(self, name: str, index: str | None, list_text: str | None, text: str) -> None:
        kind, is_list = self._hparam_types[name]
        if index is not None:
            if not is_list:
                raise ValueError(f'{name}[{index}]: {name} is not a list.')
            changed = list(getattr(self, name))
            changed[int(index)] = _parsed(name, kind, text)
            setattr(self, name, changed)
        elif list_text is not None:
            if not is_list:
                raise ValueError(f'Must not pass a list for single-valued parameter: {name}')
            setattr(self, name, [_parsed(name, kind, each) for each in re.split(r'[\s,]+', list_text) if each])
        else:
            if is_list:
                raise ValueError(f'Must pass a list for multi-valued parameter: {name}')
            setattr(self, name, _parsed(name, kind, text.strip()))

    def override_from_dict(self, values_dict: Mapping[str, Any]) -> HParams:
        """Sets values by name. Returns self. Raises as set_hparam does."""
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    def parse_json(self, values_json: str) -> HParams:
        """Sets values from a JSON object. Returns self. Raises as set_hparam does."""
        return self.override_from_dict(json.loads(values_json))

    def to_json(
        self, indent: int | str | None = None, separators: tuple[str, str] | None = None, sort_keys: bool = False
    ) -> str:
        """The values as a JSON object, without those that are functions."""
        values = {name: value for name, value in self.values().items() if not callable(value)}
        return json.dumps(values, indent=indent, separators=separators, sort_keys=sort_keys)

    def values(self) -> dict[str, Any]:
        """{name: value}"""
        return {name: getattr(self, name) for name in self._hparam_types}

    def get(self, key: str, default: Any = None) -> Any:
        """The value of this name, or the default.

        Raises:
            ValueError: the default has another type than the value.
        """
        if key not in self._hparam_types:
            return default
        if default is not None:
            kind, is_list = self._hparam_types[key]
            for each in default if is_list else [default]:
                _cast(key, kind, each)
        return getattr(self, key)

    def get_model_structure(self) -> Any:
        return self._model_structure

    def set_model_structure(self, model_structure: Any) -> None:
        self._model_structure = model_structure

    def __contains__(self, key: str) -> bool:
        return key in self._hparam_types

    def __str__(self) -> str:
        return str(sorted(self.values().items()))

    def __repr__(self) -> str:
        return f'HParams({self})'


def _cast(name: str, kind: type, value: Any) -> Any:
    """value as that type, if nothing is lost. Raises ValueError."""
    if kind is type(None) or value is None or isinstance(value, kind) and not isinstance(value, bool):
        return value
    if kind is bool or isinstance(value, bool):
        fits = kind is bool and isinstance(value, bool)
    elif issubclass(kind, str) or isinstance(value, str):
        fits = issubclass(kind, str) and isinstance(value, str)
    elif issubclass(kind, numbers.Integral):
        fits = isinstance(value, numbers.Integral)
    else:
        fits = issubclass(kind, numbers.Number) and isinstance(value, numbers.Number)
    if not fits:
        raise ValueError(f'Could not cast hparam {name!r} of type {kind.__name__} from value {value!r}')
    return kind(value)


def _parsed(name: str, kind: type, text: str) -> Any:
    """The value of that type that the text says. Raises ValueError."""
    try:
        if kind is bool:
            return {'true': True, 'false': False}[text.lower()] if text.isalpha() else bool(int(text))
        return text if kind is type(None) else kind(text)
    except (KeyError, ValueError) as error:
        raise ValueError(f'Could not parse hparam {name!r} of type {kind.__name__} from {text!r}') from error
