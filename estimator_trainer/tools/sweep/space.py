"""What --param_space says: NAME:KIND:VALUES -> Space. Pure.

learning_rate:log:1e-4:1e-1     a number between the bounds, each magnitude equally likely
dropout:uniform:0:0.5           a number between the bounds
decay_epochs:int:1:10           a whole number, bounds included
hidden:choice:16,32,64          one of these; with | between them where the values have commas
"""

import dataclasses
import math
from collections.abc import Sequence

from estimator_trainer.errors import UsageError

LOG, UNIFORM, INT, CHOICE = 'log', 'uniform', 'int', 'choice'
_BOUNDED = (LOG, UNIFORM, INT)
_EXAMPLES = 'such as learning_rate:log:1e-4:1e-1, dropout:uniform:0:0.5, layers:int:1:4 or hidden:choice:16,32,64'


@dataclasses.dataclass(frozen=True)
class Space:
    """The values that one parameter may take, as they were written.

    Attributes:
        texts: the lowest and the highest value; of a choice all values.
    """

    name: str
    kind: str
    texts: tuple[str, ...]

    def __str__(self):
        between = ':' if self.kind != CHOICE else '|' if any(',' in text for text in self.texts) else ','
        return f'{self.name}:{self.kind}:{between.join(self.texts)}'


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A Space whose values have the type of the flag or param that they are for.

    Attributes:
        type: int, float, str or bool.
        values: the lowest and the highest value; of a choice all values.
    """

    name: str
    kind: str
    type: type
    values: tuple


def parse(given: Sequence[str]) -> list[Space]:
    """Reads the values of --param_space.

    Raises:
        UsageError: one of them is not NAME:KIND:VALUES, or two have one name.
    """
    spaces = [_parse(text) for text in given]
    names = [space.name for space in spaces]
    for space in spaces:
        if names.count(space.name) > 1:
            raise UsageError(f'--param_space={space}: {space.name} is given twice; give it once.')
    return spaces


def _parse(text: str) -> Space:
    name, _, rest = text.partition(':')
    kind, _, values = rest.partition(':')
    if not name or kind not in (*_BOUNDED, CHOICE) or not values:
        raise UsageError(f'--param_space={text}: give NAME:KIND:VALUES, {_EXAMPLES}.')
    if kind == CHOICE:
        texts = tuple(part.strip() for part in values.split('|' if '|' in values else ','))
        if len(set(texts)) < max(2, len(texts)) or '' in texts:
            raise UsageError(f'--param_space={text}: give two or more different values with commas between them.')
        return Space(name, kind, texts)
    texts = tuple(values.split(':'))
    try:
        low, high = (float(part) for part in texts)
    except ValueError:
        raise UsageError(f'--param_space={text}: give the lowest and the highest value, {_EXAMPLES}.') from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise UsageError(f'--param_space={text}: the first bound has to be lower than the second one.')
    if kind == LOG and low <= 0:
        raise UsageError(f'--param_space={text}: a logarithm needs bounds over 0; use uniform.')
    return Space(name, kind, texts)


def typed(space: Space, kind: type) -> Parameter:
    """The values of `space` for a flag or param of type `kind`.

    Raises:
        UsageError: a value is not of this type, or the kind of space does not go with it.
    """
    if space.kind != CHOICE and kind not in (int, float):
        raise UsageError(f'--param_space={space}: {space.name} is not a number; use {space.name}:{CHOICE}:A,B.')
    wanted = int if space.kind == INT else kind
    try:
        values = tuple(_value(text, wanted) for text in space.texts)
    except ValueError:
        named = {int: 'a whole number', float: 'a number', bool: 'true or false'}[wanted]
        raise UsageError(f'--param_space={space}: {space.name} is {named}; give such values.') from None
    if len(set(values)) < len(values):
        raise UsageError(f'--param_space={space}: two of its values are the same; give each once.')
    return Parameter(space.name, space.kind, wanted, values)


def text_of(value) -> str:
    """A value as a flag of the trainer has it; reading it gives the same value."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def shown(value) -> str:
    """A value as people read it."""
    return f'{value:.4g}' if isinstance(value, float) else text_of(value)


def _value(text: str, kind: type):
    if kind is bool:
        if text.lower() not in ('true', 'false'):
            raise ValueError(text)
        return text.lower() == 'true'
    if kind is int:
        number = float(text)
        if not number.is_integer():
            raise ValueError(text)
        return int(number)
    value = kind(text)
    if kind is float and not math.isfinite(value):
        raise ValueError(text)
    return value
