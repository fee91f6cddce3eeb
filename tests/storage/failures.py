"""What a user sees when a store fails: the lines, the exit code, and that nothing is lost.

    python -m tests.storage.failures                      # all, about ten minutes
    python -m tests.storage.failures --only=away,full

The fault comes when the run has sent its first checkpoint. After it, the same command ends the run where the first one
did not. The weights must then be those of a run that nobody disturbed, and every state of the store that was visible
must be whole.
"""

import argparse
import pathlib
import re
import signal
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / 'end_to_end'))

import launch  # noqa: E402

from tests.storage import kill_test, s3_server, servers  # noqa: E402

FLAGS = (
    *('--job=mnist', '--deterministic', '--max_steps=12000', '--save_checkpoints_steps=500', '--keep_checkpoints=3'),
    *('--lost_peer_secs=8', '--export=none', '--report=off'),
)
RUN_SECS = 600

SCENARIOS = {  # name -> (the fault, the seconds that it lasts; None: until the run has ended)
    'away': ({'silent': True}, 60),
    'frozen': ({'frozen': True}, 60),
    'every third 503': ({'status': 503, 'every': 3}, None),
    'slow': ({'bytes_per_sec': 1_000_000}, None),
    'slow and SIGTERM': ({'bytes_per_sec': 1_000_000, 'sigterm': True}, None),
    'full': ({'status': 507, 'code': 'QuotaExceeded'}, None),
    'forbidden': ({'status': 403, 'code': 'AccessDenied'}, None),
    'clock off by an hour': ({'status': 403, 'code': 'RequestTimeTooSkewed'}, None),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--only', default=','.join(SCENARIOS))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        command = [sys.executable, '-m', 'estimator_trainer', *FLAGS]
        launch.checked(launch.run([*command, f'--model_dir={folder}/undisturbed'], timeout=RUN_SECS))
        expected = launch.weights(folder / 'undisturbed', timeout=300)
        for scenario in args.only.split(','):
            place = folder / scenario.replace(' ', '-')
            place.mkdir()
            print(f'== {scenario}', flush=True)
            with servers.moto(place) as (url, environment):
                environment['XDG_CACHE_HOME'] = str(place / 'cache')
                play([*command, f'--model_dir={url}'], environment, place, *SCENARIOS[scenario])
            assert launch.weights(next(place.glob('cache/estimator_trainer/*/run')), timeout=300) == expected, (
                'the weights differ'
            )
            print(f'the weights are those of an undisturbed run; {kill_test.replay(place)}', flush=True)


def play(command, environment, place, fault, secs):
    """The run with the fault, a start while it is there, and the same command after it."""
    fault = dict(fault)
    frozen, sigterm = fault.pop('frozen', False), fault.pop('sigterm', False)
    with launch.start(command, **environment) as process:
        kill_test.pointer_of_life(place, process)
        began = time.monotonic()
        s3_server.set_fault(place, **fault)
        if frozen:
            s3_server.send_signal(place, signal.SIGSTOP)
        if secs:
            time.sleep(secs)
            s3_server.set_fault(place)
            if frozen:
                s3_server.send_signal(place, signal.SIGCONT)
        if sigterm:
            process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=RUN_SECS)
    say(output, process.returncode, time.monotonic() - began)
    if fault.get('status') and 'every' not in fault:
        finished = launch.run(command, **environment)
        say(finished.output, finished.code, None)
    s3_server.set_fault(place)
    if process.returncode:
        finished = launch.checked(launch.run(command, timeout=RUN_SECS, **environment))
        say(finished.output, finished.code, None)


def say(output, code, secs):
    """The lines of the process that sends, and warnings."""
    for line in output.splitlines():
        if re.search(r'WARNING|error:|s3://|SIGTERM|the store', line) and 'FutureWarning' not in line:
            print(f'    {line}')
    print(f'  exit code {code}' + (f', {secs:.0f} s after the fault began' if secs else ''), flush=True)


if __name__ == '__main__':
    main()
