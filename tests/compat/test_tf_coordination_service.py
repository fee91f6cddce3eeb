"""compat.patches.coordination_service: what TensorFlow's coordination service is told."""

from tensorflow.python.eager import context

from estimator_trainer.compat.patches import coordination_service


def test_heartbeats_are_put_off_for_what_is_made_meanwhile(monkeypatch):
    now = context.Context()
    monkeypatch.setattr(context, 'context', lambda: now)
    with coordination_service.heartbeats_put_off():
        now.configure_coordination_service(service_type='standalone', service_leader='/job:worker/task:0')
    config = now.coordination_service
    assert (config.service_type, config.service_leader) == ('standalone', '/job:worker/task:0')
    assert config.heartbeat_timeout_in_ms > 24 * 3600 * 1000
    now.configure_coordination_service(service_type='standalone')
    assert now.coordination_service.heartbeat_timeout_in_ms == 0
