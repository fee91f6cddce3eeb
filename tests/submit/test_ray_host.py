"""submit.ray_host: a task in a process of an actor."""

import pathlib
import signal
import subprocess
import sys
import threading

from estimator_trainer.run_dir import protocol
from estimator_trainer.secure import run_key
from estimator_trainer.submit import ray_host
from estimator_trainer.this_process import hung_files
from tests.processes import gone, pid_in, until

ROOT = pathlib.Path(__file__).parents[2]


class TestHost:
    def test_environment_leaves_out_what_is_the_actors(self):
        environ = {
            'PYTHONPATH': 'x',
            'PYTHONHOME': 'x',
            'RAY_JOB_ID': 'x',
            'VIRTUAL_ENV': 'x',
            'TF_CONFIG': 'x',
            protocol.GENERATION: 'x',
            'PATH': 'p',
            'CUDA_VISIBLE_DEVICES': '1',
        }
        assert ray_host.environment(environ, {'PYTHONPATH': 'mine'}) == {
            'PATH': 'p',
            'CUDA_VISIBLE_DEVICES': '1',
            'PYTHONPATH': 'mine',
        }

    def test_two_tasks_of_one_node_have_two_ports(self):
        first, second = ray_host.TaskActor('worker:0'), ray_host.TaskActor('worker:1')
        assert first.port() == first.port() != second.port()

    def test_a_task_finds_the_key_in_a_file_of_its_own(self, tmp_path):
        host = ray_host.TaskActor('worker:0')
        key = host.new_key(sys.executable, {}, str(ROOT))
        assert run_key.RunKey.from_pem(key).pem() == key != host.new_key(sys.executable, {}, str(ROOT))
        script = f'cp -p "${protocol.RUN_KEY_FILE}" {tmp_path}/key; echo "${protocol.RUN_KEY_FILE}" > {tmp_path}/path'
        host.start(['sh', '-c', script], {}, None, key)
        assert until(host.poll)[0] == 0
        assert (tmp_path / 'key').read_bytes() == key and (tmp_path / 'key').stat().st_mode & 0o777 == 0o600
        assert not pathlib.Path((tmp_path / 'path').read_text().strip()).exists()  # the task has ended

    def test_it_answers_while_the_file_system_of_the_model_dir_hangs(self, tmp_path, monkeypatch):
        host, file_system = ray_host.TaskActor('worker:0'), threading.Event()
        monkeypatch.setattr(ray_host, 'RunFolder', lambda model_dir: file_system.wait(60))
        host.files = hung_files.BoundedFiles(lambda text: None, 'the model_dir', 0.01)
        assert host.training(str(tmp_path)) == {}
        file_system.set()

    def test_no_process_lives_on_beside_its_successor(self):
        host = ray_host.TaskActor('evaluator:0')
        first = host.start(['sleep', '600'], {}, None)
        second = host.start(['sh', '-c', 'exit 7'], {}, None)
        assert gone(first) and first != second and until(host.poll)[0] == 7

    def test_an_environment_without_the_trainer_makes_no_key(self):
        host = ray_host.TaskActor('worker:0')
        assert host.new_key('/no/such/python', {}, None) == host.new_key('false', {}, None) == b''
        host.start(['sh', '-c', f'test -z "${protocol.RUN_KEY_FILE}"'], {}, None)
        assert until(host.poll)[0] == 0

    def test_sigterm_goes_to_the_task_alone_which_needs_its_helpers_to_save(self, tmp_path):
        host = ray_host.TaskActor('worker:0')
        at_sigterm = f'kill -0 $child && echo alive > {tmp_path}/helper.new; mv {tmp_path}/helper.new {tmp_path}/helper'
        script = (
            f'sleep 600 & child=$!; trap "{at_sigterm}; exit 143" TERM; echo $child > {tmp_path}/child.new; '
            f'mv {tmp_path}/child.new {tmp_path}/child; wait'
        )
        host.start(['sh', '-c', script], {}, None)
        child = pid_in(tmp_path / 'child')
        host.send(signal.SIGTERM)
        assert until(host.poll)[0] == 143
        assert (tmp_path / 'helper').read_text() == 'alive\n'
        until(lambda: gone(child))  # what is left is killed when the task has ended

    def test_a_task_does_not_outlive_its_actor(self, tmp_path):
        program = (
            'import sys\n'
            'from estimator_trainer.submit.ray_host import TaskActor\n'
            'host = TaskActor("worker:0")\n'
            'print(host.start(["sleep", "600"], {}, None), flush=True)\n'
            'sys.stdin.read()\n'
        )
        with subprocess.Popen(
            [sys.executable, '-c', program],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as actor:
            task = int(actor.stdout.readline())
            until(lambda: pathlib.Path(f'/proc/{task}/comm').read_text() == 'sleep\n')
            actor.kill()
            until(lambda: gone(task))
