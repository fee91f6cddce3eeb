"""Runs the trainer with a model_dir in a store: an emulator of Google's on this machine, with TLS.

    python -m benchmarks.in_store [--stop] FLAGS_OF_THE_TRAINER

The scratch folder is `scratch`. With --stop the run gets SIGTERM when its first checkpoint was sent and it goes on
training. It prints {"secs_to_sent": …}, from SIGTERM to the end of the process, after its last checkpoint was sent.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

from benchmarks.peers import common
from estimator_trainer import exit_codes

_LOOK_SECS = 0.2


def main(flags):
    try:
        from tests.storage import servers

        with servers.google(_folder('server')) as (url, environment):
            _run([*flags, f'--model_dir={url}', '--scratch_dir=scratch'], {**os.environ, **environment})
    except ModuleNotFoundError as error:  # of the emulator's certificate, or of the store's client
        common.tell(skipped=f'it needs the packages of the extra test: {error}')


def _folder(name) -> pathlib.Path:
    folder = pathlib.Path(name).resolve()
    folder.mkdir()
    return folder


def _run(flags, environment):
    stop = flags[0] == '--stop'
    command = [sys.executable, '-m', 'estimator_trainer', *flags[stop:]]
    with subprocess.Popen(command, env=environment) as process:
        while stop and process.poll() is None and not _has_sent():
            time.sleep(_LOOK_SECS)
        told = time.monotonic()
        if stop:
            process.send_signal(signal.SIGTERM)
        code = process.wait()
    if code != (exit_codes.TERMINATED if stop else exit_codes.OK):
        sys.exit(f'the trainer has ended with code {code}')
    common.tell(secs_to_sent=time.monotonic() - told)


def _has_sent() -> bool:
    """Whether a checkpoint was sent, and a later step was made."""
    try:
        sent = json.loads(pathlib.Path('scratch/sent.json').read_text(encoding='utf-8'))['sent']
        return 'checkpoint' in sent and pathlib.Path('scratch/run/metrics.jsonl').stat().st_size > 0
    except (OSError, ValueError):
        return False


if __name__ == '__main__':
    main(sys.argv[1:])
