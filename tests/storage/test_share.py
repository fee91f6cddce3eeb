"""Which files are whose, and which clusters cannot work in a store."""

import pytest

import tf_config
from estimator_trainer.errors import UsageError
from estimator_trainer.storage import share
from estimator_trainer.storage.share import Share
from tests import fakes

ALONE = Share()
CHIEF = Share('worker:0', 'chief', has_evaluator=True)
CHIEF_WITHOUT = Share('worker:0', 'chief')
WORKER = Share('worker:1', 'worker', has_evaluator=True)
EVALUATOR = Share('evaluator:0', 'evaluator', has_evaluator=True)


@pytest.mark.parametrize(
    'name, owner',
    [
        ('checkpoint', CHIEF),
        ('model.ckpt-20.index', CHIEF),
        ('config.json', CHIEF),
        ('training.json', CHIEF),
        ('.start.json', CHIEF),
        ('events.out.tfevents.1', CHIEF),
        ('plugins/profile/steps-1-2/worker-0.xplane.pb', CHIEF),
        ('plugins/profile/steps-1-2/worker-1.trace.json.gz', WORKER),
        ('eval/metrics.jsonl', EVALUATOR),
        ('eval/stop.json', EVALUATOR),
        ('export/best/1700/saved_model.pb', EVALUATOR),
        ('report.html', EVALUATOR),
    ],
)
def test_each_file_has_one_owner(name, owner):
    assert [each.task for each in (CHIEF, WORKER, EVALUATOR) if each.owns(name)] == [owner.task]
    assert ALONE.owns(name)
    assert CHIEF_WITHOUT.owns(name) == (owner is not WORKER)


def test_what_a_task_follows_another_one_owns():
    for each in (CHIEF, WORKER, EVALUATOR):
        followed = [*each.follows, *filter(None, [each.follows_checkpoint])]
        assert followed and not any(map(each.owns, followed))
        assert all(any(other.owns(name) for other in (CHIEF, EVALUATOR)) for name in followed)
    assert not ALONE.follows and not CHIEF_WITHOUT.follows


def test_an_evaluator_has_a_lease_of_its_own():
    assert len({CHIEF.lease, WORKER.lease, EVALUATOR.lease}) == 3 and WORKER.lease is None


def plan(role='worker', name='worker:1', evaluator=('e:1',), ps=(), num_tasks=3):
    return fakes.Plan(
        role=role,
        name=name,
        config=fakes.config(model_dir='s3://bucket/run'),
        num_tasks=num_tasks,
        cluster=tf_config.Cluster(evaluator=evaluator, ps=ps),
        has_evaluator=bool(evaluator) or role == 'evaluator',
    )


def test_the_share_of_a_task():
    assert share.of(plan()) == WORKER
    assert share.of(plan(num_tasks=1)) == ALONE
    assert WORKER.folder == 'worker-1'


@pytest.mark.parametrize(
    'told, said',
    [
        ({'ps': ('p:1',)}, 'parameter servers'),
        ({'role': 'evaluator', 'name': 'evaluator:0', 'evaluator': ()}, 'is not listed'),
    ],
)
def test_what_cannot_work_in_a_store(told, said):
    with pytest.raises(UsageError, match=said) as caught:
        share.of(plan(**told))
    assert 's3://bucket/run' in str(caught.value)
