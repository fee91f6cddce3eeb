"""profiles.profile_flags: what --profile_steps and --profile_tasks may be."""

import pytest

from estimator_trainer.errors import UsageError
from estimator_trainer.monitoring.profiles import profile_flags


def test_a_range():
    assert profile_flags.steps('') is None
    assert profile_flags.steps('100,120') == (100, 120)
    assert profile_flags.steps('0,100') == (0, 100)
    profile_flags.check_steps('0,100', max_steps=100)
    profile_flags.check_steps('0,100', max_steps=None)


@pytest.mark.parametrize(
    'text, max_steps, says',
    [
        ('100', None, 'give two steps'),
        ('-1,5', None, 'give two steps'),
        ('a,b', None, 'give two steps'),
        ('5,5', None, 'after the first'),
        ('0,101', None, '101 steps; give 100 at most'),
        ('90,110', 100, '--max_steps=100'),
    ],
)
def test_no_range(text, max_steps, says):
    with pytest.raises(UsageError, match=says) as caught:
        profile_flags.check_steps(text, max_steps)
    assert str(caught.value).startswith(f'--profile_steps={text}: ')


def test_tasks():
    tasks = ['worker:0', 'worker:1']
    for text in ('chief', 'all', 'worker:1', 'worker:1,worker:0'):
        profile_flags.check_tasks(text, tasks)
    for text in ('', 'worker:2', 'worker:0,ps:0', 'evaluator:0'):
        with pytest.raises(UsageError, match='give one of chief, all, worker:0, worker:1'):
            profile_flags.check_tasks(text, tasks)
    with pytest.raises(UsageError, match="'worker:0' trains here; give one of chief, all\\."):
        profile_flags.check_tasks('worker:0', [])


@pytest.mark.parametrize(
    'text, chosen', [('chief', [0]), ('all', [0, 1, 2]), ('worker:2', [2]), ('worker:0,worker:2', [0, 2])]
)
def test_who_is_included(text, chosen):
    assert [n for n in range(3) if profile_flags.includes(text, f'worker:{n}', is_chief=n == 0)] == chosen
