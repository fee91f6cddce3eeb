"""lifecycle.peers: what this process has lived through."""

from estimator_trainer.lifecycle import peers


def test_pauses_of_this_process_do_not_count():
    now = 100.0
    awake = peers.AwakeClock(lambda: now)
    began = awake()
    for now in range(101, 111):
        assert awake() - began == now - 100
    now = 1000.0
    assert awake() - began == 10 + peers.PAUSE_SECS
    now = 1001.5
    assert awake() - began == 10 + peers.PAUSE_SECS + 1.5
    assert awake() - began == 10 + peers.PAUSE_SECS + 1.5
