"""profiles.profiler: real recordings, in a session and in an eager loop."""

import logging

import pytest
import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from estimator_trainer.monitoring.profiles import event_names, profiler, schedule, trace

v1 = tf.compat.v1
READ_SECS = 300


@pytest.fixture
def said(caplog, monkeypatch):
    """() -> what was logged."""
    monkeypatch.setattr(logging.getLogger('estimator_trainer'), 'propagate', True)
    caplog.set_level(logging.INFO, 'estimator_trainer')
    return lambda: [record.getMessage() for record in caplog.records]


def in_session():
    with tf.Graph().as_default(), v1.Session() as session:
        numbers = v1.placeholder(tf.float32, [300, 300])
        product = tf.matmul(numbers, numbers, name='product')
        feed = session.run(tf.ones([300, 300]))
        yield lambda: session.run(product, {numbers: feed})


def eagerly():
    numbers = tf.Variable(tf.ones([300, 300]))
    yield tf.function(lambda: tf.matmul(numbers, numbers, name='product'))


def train(profiles, take_a_step, first, last):
    """Calls of two steps."""
    profiles.start(first)
    for step in range(first, last, 2):
        profiles.begins_call()
        take_a_step()
        profiles.stepped(step + 2, 2)


def end(profiles):
    profiles.finish()
    profiles.close(READ_SECS)


def of_steps(folder, after=4, to=8, task='worker:1'):
    return profiler.Profiler(str(folder), task, schedule.Steps(after, to), chosen=True, end=100)


@pytest.mark.parametrize('loop', [in_session, eagerly])
def test_a_profile(tmp_path, said, loop):
    for take_a_step in loop():
        profiles = of_steps(tmp_path)
        train(profiles, take_a_step, 0, 20)
        end(profiles)
    folder = tmp_path / 'plugins' / 'profile' / 'steps-5-8'
    assert sorted(path.name for path in folder.iterdir()) == ['worker-1.trace.json.gz', 'worker-1.xplane.pb']
    assert [path.name for path in (tmp_path / 'plugins').iterdir()] == ['profile']
    data = (folder / 'worker-1.xplane.pb').read_bytes()
    lines = trace.lines(data)
    calls = [event.stats for line in lines for event in line.events if event.name == event_names.CALL]
    assert calls == [{'first': 5, 'last': 6}, {'first': 7, 'last': 8}]
    assert any(event.name.startswith('product:') for line in lines for event in line.events)
    theirs = xplane_pb2.XSpace.FromString(data)
    assert sum(len(line.events) for plane in theirs.planes for line in plane.lines) >= sum(
        len(line.events) for line in lines
    )
    first, second, third = said()
    assert first.startswith('profile of steps 5 to 8: ') and '% computing' in first
    assert 'product (' in second and 'ui.perfetto.dev' in third


def test_the_same_steps_again_get_a_folder_of_their_own(tmp_path):
    for take_a_step in in_session():
        for _ in range(2):
            profiles = of_steps(tmp_path, task='chief')
            train(profiles, take_a_step, 0, 10)
            end(profiles)
    assert sorted(path.name for path in tmp_path.glob('plugins/profile/*')) == ['steps-5-8', 'steps-5-8.2']


def test_a_request(tmp_path, said):
    for take_a_step in in_session():
        profiles = profiler.Profiler(str(tmp_path), 'chief', None, chosen=False, end=100)
        train(profiles, take_a_step, 0, 4)
        profiles.ask()
        train(profiles, take_a_step, 4, 30)
        end(profiles)
    assert 'received SIGUSR2: profiles the next 20 steps' in said()
    assert [path.name for path in tmp_path.glob('plugins/profile/*')] == ['steps-5-24']


def test_another_profiler_costs_the_profile(tmp_path, said):
    tf.profiler.experimental.start(str(tmp_path / 'other'))
    try:
        for take_a_step in in_session():
            profiles = of_steps(tmp_path)
            train(profiles, take_a_step, 0, 20)
            end(profiles)
    finally:
        tf.profiler.experimental.stop(save=False)
    (warning,) = said()
    assert warning.startswith('WARNING: no profile: Another profiler is running')


def test_a_profiler_that_was_stopped_costs_the_profile(tmp_path, said):
    for take_a_step in in_session():
        profiles = of_steps(tmp_path)
        train(profiles, take_a_step, 4, 6)
        tf.profiler.experimental.stop(save=False)
        train(profiles, take_a_step, 6, 20)
        end(profiles)
    (warning,) = said()
    assert warning.startswith('WARNING: no profile: ')


def test_a_folder_that_cannot_be_made_costs_the_profile(tmp_path, said):
    (tmp_path / 'plugins').write_text('a file')
    for take_a_step in in_session():
        profiles = of_steps(tmp_path)
        train(profiles, take_a_step, 0, 20)
        end(profiles)
    (warning,) = said()
    assert warning.startswith('WARNING: no profile: ') and warning.endswith('training is not affected')


def test_an_evaluation_ends_the_profile_or_postpones_it(tmp_path, said):
    for take_a_step in in_session():
        profiles = of_steps(tmp_path)
        train(profiles, take_a_step, 0, 4)
        profiles.interrupt(4, 'an evaluation follows')  # nothing was recorded yet
        profiles.go_on(4)
        profiles.begins_call()
        take_a_step()
        profiles.interrupt(6, 'an evaluation follows')
        profiles.go_on(6)
        profiles.stepped(6, 2)
        end(profiles)
    assert [path.name for path in tmp_path.glob('plugins/profile/*')] == ['steps-5-6']
    assert said()[0] == 'the profile ends after step 6: an evaluation follows'


def test_the_end_of_training_ends_the_profile(tmp_path, said):
    for take_a_step in in_session():
        profiles = of_steps(tmp_path)
        train(profiles, take_a_step, 0, 6)
        end(profiles)
    assert [path.name for path in tmp_path.glob('plugins/profile/*')] == ['steps-5-6']
    profiles.ask()
    assert said()[0] == 'the profile ends after step 6: training is over'
    assert said()[-1] == 'received SIGUSR2: training is over, so there is nothing to profile'


def test_a_run_that_goes_on_behind_the_steps_says_so(tmp_path, said):
    profiles = of_steps(tmp_path)
    profiles.start(8)
    assert said() == ['--profile_steps=4,8: nothing is profiled, because step 8 is done already']
