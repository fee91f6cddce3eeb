"""A command beside moto's S3, which the environment of the command names: `python with_moto.py FOLDER COMMAND …`.

Exit code: the command's.
"""

import os
import pathlib
import subprocess
import sys

from tests.storage import servers

if __name__ == '__main__':
    folder, *command = sys.argv[1:]
    with servers.moto(pathlib.Path(folder)) as (_, environ):
        sys.exit(subprocess.run(command, env={**os.environ, **environ}).returncode)
