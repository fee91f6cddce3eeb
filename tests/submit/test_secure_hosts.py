"""Two hosts and a stranger: what the stranger can do without --secure, and what with it."""

import json
import os
import pathlib
import stat
import subprocess
import sys

import pytest

from estimator_trainer.run_dir import file_names
from tests.chaos import faults, files
from tests.chaos.stage import Stage
from tests.submit.hosts import FOR_STRANGERS, STRANGER, Hosts
from tests.submit.test_two_hosts import FLAGS, ends, output, wait_for_step

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('can_have_hosts')]
PROGRAM = pathlib.Path(__file__).with_name('programs') / 'stranger.py'
ROOT = pathlib.Path(__file__).parents[2]
PORT, SECS = '2222', 400


def stranger(there: Hosts, *arguments) -> dict:
    done = subprocess.run(
        [*there.on(STRANGER), sys.executable, str(PROGRAM), *map(str, arguments)],
        env={**os.environ, 'PYTHONPATH': str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECS,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def probed(there: Hosts) -> str:
    command = [*there.on(STRANGER), sys.executable, '-m', 'tf_config', 'probe', f'{FOR_STRANGERS}:{PORT}']
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECS).stdout


def test_without_it_a_strangers_graph_runs(tmp_path):
    held = faults.Fault(at='', moment='', by_step=35)
    with Stage(tmp_path / 'case', held) as stage, Hosts() as there:
        for rank in (0, 1):
            stage.trainer(*FLAGS, f'--rank={rank}', '--secure=off', before=there.on(rank))
        wait_for_step(20, stage)
        assert 'can run any graph' in probed(there)
        assert stranger(there, 'graph', FOR_STRANGERS, PORT) == {'result': 42}
        assert 'not secured (--secure=off)' in output(stage)


def test_with_it_nothing_of_a_stranger_gets_through_and_the_weights_are_the_same(tmp_path, undisturbed):
    held = faults.Fault(at='', moment='', by_step=35)
    with Stage(tmp_path / 'case', held) as stage, Hosts() as there:
        programs = [
            stage.trainer(*FLAGS, f'--rank={rank}', '--secure=required', '--param=slow_ms=50', before=there.on(rank))
            for rank in (0, 1)
        ]
        wait_for_step(20, stage)
        key_file = stage.model_dir / file_names.RUN_KEY
        assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
        assert 'a TLS server that wants a certificate' in probed(there)
        attacked = stranger(there, 'attack', FOR_STRANGERS, PORT, key_file)
        assert attacked['through'] == []
        assert attacked['held'] > 9000
        shown = secrets_shown(stage, key_file)
        stage.scene.release()
        assert ends(programs) == [0, 0], output(stage)
        assert files.differences(stage.model_dir, undisturbed.two_workers()) == []
        assert "secured: only tasks of this run reach TensorFlow's port" in output(stage)
        assert 'refused 10.203.9.2: ' in output(stage)  # a line a minute: the first reason only
        assert [*shown, *in_files(stage, key_file)] == []


def secret_lines(key_file) -> list:
    return [line for line in key_file.read_text().splitlines() if line and '-----' not in line]


def secrets_shown(stage, key_file) -> list:
    """The files of /proc of the job's processes that hold something of the key."""
    found = []
    for pid in stage.running():
        for name in ('cmdline', 'environ'):
            text = pathlib.Path(f'/proc/{pid}/{name}').read_text(errors='replace')
            found += [f'{pid}/{name}' for line in secret_lines(key_file) if line in text]
    return found


def in_files(stage, key_file) -> list:
    """The files of the run, its output included, that hold something of the key."""
    lines = [line.encode() for line in secret_lines(key_file)]
    paths = [path for path in stage.folder.rglob('*') if path.is_file() and path != key_file]
    return [path for path in paths if any(line in path.read_bytes() for line in lines)]
