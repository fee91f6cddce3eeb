"""What config.json says of the machine."""

import json

from estimator_trainer.run_dir import machine


def test_facts():
    found = machine.facts()
    assert found['cores'] >= 1 and found['system'] and found['processor']
    assert json.loads(json.dumps(found)) == found


def test_a_machine_that_tells_less(tmp_path):
    assert 'memory_gb' not in machine.facts(proc=str(tmp_path))
