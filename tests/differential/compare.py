"""What differs between two runs of a job."""

import numpy as np


def differences(expected, found, case, tolerance=0.0) -> list:
    """Of two undisturbed runs. `tolerance`: relative and absolute, of every number; 0: to the bit."""
    wrong = differences_of_last(expected, found, tolerance)
    names, others = list(expected.checkpoints), list(found.checkpoints)
    if names != others:
        wrong.append(f'checkpoints {", ".join(others)}, not {", ".join(names)}')
    for name, variables in found.checkpoints.items():
        if variables.get('global_step') != int(name.rpartition('-')[2]):
            wrong.append(f'{name} is of step {variables.get("global_step")}')
        if name in expected.checkpoints:
            wrong += [f'{name}: {text}' for text in _of_variables(expected.checkpoints[name], variables, tolerance)[:2]]
    if expected.read != found.read:
        wrong.append(f'batches {_shown(found.read)}, not {_shown(expected.read)}')
    if expected.calls != found.calls:
        wrong.append(f'hooks saw {_first_other(expected.calls, found.calls)}')
    if case.events:
        wrong += _of_events(expected.events, found.events, case.counts_by_one, tolerance)
    if found.why != case.why:
        wrong.append(f'the reason is {found.why}, not {case.why}')
    return list(dict.fromkeys(wrong))


def differences_of_resumed(expected, found, exact_reads: bool, tolerance=0.0) -> list:
    """Of an undisturbed run and one that was stopped and resumed.

    Args:
        exact_reads: whether no batch may be read twice. A run that failed does some of its steps again.
    """
    wrong = differences_of_last(expected, found, tolerance)
    read = sum(found.read, [])
    whole = sum(expected.read, [])
    if exact_reads and read != whole:
        wrong.append(f'batches {_shown(found.read)}, not {_shown(expected.read)}')
    last = found.read[-1]
    if last != whole[len(whole) - len(last) :]:
        wrong.append(f'the last batches are {_shown([last])}, not the end of {_shown(expected.read)}')
    return wrong


def differences_of_last(expected, found, tolerance) -> list:
    """Of the variables in the last checkpoints of two runs."""
    step, of = found.last.get('global_step'), expected.last.get('global_step')
    if step != of:
        return [f'last step {step}, not {of}']
    return _of_variables(expected.last, found.last, tolerance)


def _of_variables(expected, found, tolerance) -> list:
    wrong = []
    missing = sorted(set(expected) - set(found))
    if missing:
        wrong.append(f'without {", ".join(missing)}')
    different = [
        name for name in sorted(set(expected) & set(found)) if not _same(expected[name], found[name], tolerance)
    ]
    if different:
        name = different[0]
        wrong.append(
            f'{len(different)} of {len(expected)} variables, {name} {_number(found[name])}, not '
            f'{_number(expected[name])}'
        )
    return wrong


def _same(one, other, tolerance) -> bool:
    one, other = np.asarray(one), np.asarray(other)
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if tolerance and one.dtype.kind in 'fV':
        return np.allclose(one.astype(np.float64), other.astype(np.float64), tolerance, tolerance, equal_nan=True)
    return one.tobytes() == other.tobytes()


def _of_events(expected, found, exact_steps, tolerance) -> list:
    if not exact_steps:
        both = set(expected) & set(found)
        expected, found = ({key: events[key] for key in both} for events in (expected, found))
    wrong = []
    for text, keys in (('no summary', set(expected) - set(found)), ('a summary more', set(found) - set(expected))):
        if keys:
            wrong.append(f'{text}: {", ".join(f"{tag} of step {step}" for tag, step in sorted(keys)[:3])}')
    for key in sorted(set(expected) & set(found)):
        if not all(_same_value(one, other, tolerance) for one, other in zip(expected[key], found[key])):
            wrong.append(
                f'summary {key[0]} of step {key[1]}: {_number(found[key][0])}, not {_number(expected[key][0])}'
            )
            break
    return wrong


def _same_value(one, other, tolerance) -> bool:
    if isinstance(one, bytes):
        return tolerance > 0 or one == other
    return np.allclose(one, other, tolerance, tolerance, equal_nan=True)


def _number(value) -> str:
    return str(np.ravel(value)[:3].tolist())[:60] if not isinstance(value, bytes) else 'a histogram'


def _shown(read) -> str:
    """Numbers of batches, ascending ones as a range."""
    texts = []
    for numbers in read:
        ascending = numbers and numbers == list(range(numbers[0], numbers[-1] + 1))
        texts.append(f'{numbers[0]}..{numbers[-1]}' if ascending else _in_short(numbers))
    return ' + '.join(texts) or 'none'


def _in_short(numbers) -> str:
    text = str(numbers)
    return text if len(text) < 80 else f'{text[:40]} ... {text[-30:]} ({len(numbers)})'


def _first_other(expected, found) -> str:
    for number, (one, other) in enumerate(zip(expected, found)):
        if one != other:
            return f'{other}, not {one}, in place {number}'
    return f'{len(found)} things, not {len(expected)}'
