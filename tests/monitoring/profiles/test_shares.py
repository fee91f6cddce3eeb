"""profiles.shares: where the time of made-up profiles went."""

import pytest

from estimator_trainer.monitoring.profiles import event_names, shares
from estimator_trainer.monitoring.profiles.shares import COMMUNICATING, COMPUTING, INPUT, OVERHEAD, PYTHON
from estimator_trainer.monitoring.profiles.trace import TraceEvent, TraceLine

MS = 10**9  # picoseconds
START, DONE = 'ExecutorState::ProcessAsync::Start', 'ExecutorState::ProcessAsync::Done'


def event(name, start, end, /, **stats):
    return TraceEvent(name, start * MS, (end - start) * MS, stats)


def line(name, *events, on_device=False):
    return TraceLine(name, on_device, sorted(events, key=lambda one: (one.start, -one.length)))


def python(*calls, begin=0):
    """Calls are (start, end, first step, last step)."""
    events = [event(event_names.CALL, start, end, first=first, last=last) for start, end, first, last in calls]
    return line('python', event(event_names.BEGIN, begin, begin), *events)


def waiting(name, kind, start, end):
    stats = {'name': name, 'kernel_type': kind, 'step_id': 1}
    return line('tf_Compute/9', event(START, start, start, **stats), event(DONE, end, end, **stats))


def parts(*lines):
    return {kind: round(100 * part) for kind, part in shares.of(lines).of_kind.items()}


def test_each_moment_counts_once():
    lines = [
        python((10, 50, 1, 2), (60, 100, 3, 4)),
        line('tf_Compute/1', event('dense/MatMul:MatMul', 10, 30), event('dense/MatMul:MatMul', 60, 70)),
        line('tf_Compute/2', event('conv:Conv2D', 20, 40)),
        waiting('reduce', 'CollectiveReduceV2', 35, 45),
        waiting('IteratorGetNext', 'IteratorGetNext', 65, 80),
    ]
    assert parts(*lines) == {COMPUTING: 40, COMMUNICATING: 5, INPUT: 10, OVERHEAD: 25, PYTHON: 20}
    found = shares.of(lines)
    assert found.steps == 4 and found.secs == pytest.approx(0.1)
    assert found.threads == pytest.approx(50 / 40)
    assert found.top == (('dense/MatMul', 'MatMul', 0.6), ('conv', 'Conv2D', 0.4))


def test_what_lies_outside_the_calls_window_does_not_count():
    work = line('tf_Compute/1', event('a:MatMul', 0, 20), event('a:MatMul', 90, 150))
    assert parts(python((50, 100, 1, 1), begin=10), work)[COMPUTING] == round(100 * (10 + 10) / 90)


def test_an_operation_that_calls_others_counts_without_them():
    outer = line(
        'tf_Compute/1',
        event('PyFunc:PyFunc', 0, 50),
        event(event_names.ADD_UP, 10, 40),
        event('ExecutorState::Process', 50, 100, id=1),
        event('while/body/_3/while/cond_1/then/_5/dense/Relu:Relu', 60, 80),
    )
    found = shares.of([python((0, 100, 1, 1)), outer])
    assert [(name, kind) for name, kind, _ in found.top] == [('PyFunc', 'PyFunc'), ('dense/Relu', 'Relu')]
    assert found.of_kind[COMPUTING] == pytest.approx(0.4) and found.of_kind[COMMUNICATING] == pytest.approx(0.3)


def test_the_work_of_the_input_pipeline_is_no_computing_of_the_step():
    shared = line(  # a data set of the job's runs its functions in the threads of the step
        'tf_Compute/1',
        event('ExecutorState::Process', 0, 40, id=77),
        event('Gather:GatherV2', 0, 40),
        event('ExecutorState::Process', 40, 50, id=1),
        event('a:MatMul', 40, 50),
    )
    runner = line('tf_data_iterator_resource/1', event('InstantiatedCapturedFunction::Run', 0, 40, id=77))
    own = line('tf_data_private_threadpool/1', event('Shuffle:RandomIndexShuffle', 50, 90))
    assert parts(python((0, 100, 1, 1)), shared, runner, own)[COMPUTING] == 10


def test_asynchronous_operations_of_a_loop_are_paired_in_their_order():
    stats = {'name': 'recv', 'kernel_type': '_Recv', 'step_id': 1}
    late = [event(DONE, end, end, **stats) for end in (5, 20, 60)]  # the first belongs to a start before the profile
    early = [event(START, start, start, **stats) for start in (10, 50)]
    assert parts(python((0, 100, 1, 1)), line('a', *early), line('b', *late))[COMMUNICATING] == 20


def test_kernels_of_a_device_are_computing():
    kernel = line('Stream #1', event('void gemm<128>', 10, 60, tf_op='dense/MatMul:MatMul'), on_device=True)
    found = shares.of([python((0, 100, 1, 1)), kernel])
    assert found.of_kind[COMPUTING] == pytest.approx(0.5) and found.top == (('dense/MatMul', 'MatMul', 1.0),)


def test_an_eager_loop_waits_for_its_input_in_python():
    waits = line('python', event('IteratorGetNextOp::DoCompute', 0, 30))
    assert parts(python((0, 100, 1, 1)), waits)[INPUT] == 30


def test_no_call_has_ended():
    unfinished = line('python', event(event_names.CALL, 0, 10))
    with pytest.raises(shares.NoSteps):
        shares.of([unfinished])


def test_two_lines_for_people():
    first, second = shares.describe(
        shares.of([python((0, 100, 11, 20)), line('tf_Compute/1', event('a:MatMul', 0, 75), event('b:Relu', 75, 80))])
    )
    assert first == (
        "10 ms a step: 80% computing, 0% waiting for other tasks or devices, 0% waiting for input, 20% TensorFlow's "
        'own work in its calls, 0% Python between the calls'
    )
    assert second == 'computing, on 1 threads on average: 94% a (MatMul), 6% b (Relu)'
    assert 'no operation' in shares.describe(shares.of([python((0, 1, 1, 1))]))[1]
