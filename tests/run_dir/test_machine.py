"""What config.json says of the machine."""

import json

from estimator_trainer.run_dir import machine


def test_facts():
    found = machine.facts()
    assert found['cores'] >= 1 and found['system'] and found['processor']
    assert json.loads(json.dumps(found)) == found


def test_a_container_has_less_than_its_machine(tmp_path):
    (tmp_path / 'meminfo').write_text('MemTotal: 9000 kB\nMemAvailable: 8000 kB\n')
    cgroup = tmp_path / 'cgroup'
    assert machine.free_bytes(str(tmp_path), str(cgroup)) == 8000 * 1024
    cgroup.mkdir()
    for name, text in {'memory.max': '4000000\n', 'memory.current': '3000000\n', 'cpu.max': '50000 100000\n'}.items():
        (cgroup / name).write_text(text)
    (cgroup / 'memory.stat').write_text('anon 1\ninactive_file 500000\n')
    assert machine.free_bytes(str(tmp_path), str(cgroup)) == 1_500_000
    assert machine.whole_cores(str(cgroup)) == 1
    (cgroup / 'memory.max').write_text('max\n')
    assert machine.free_bytes(str(tmp_path), str(cgroup)) == 8000 * 1024
    assert machine.free_bytes(str(tmp_path / 'none'), str(tmp_path / 'none')) is None


def test_a_machine_that_tells_less(tmp_path):
    assert 'memory_gb' not in machine.facts(proc=str(tmp_path))
