import importlib
import sys

from estimator_trainer.lifecycle import ending
from estimator_trainer.main import main
from tf_config import streams

COMMANDS = ('migrate', 'parity')  # beside training, each in a room of its own

if __name__ == '__main__':
    streams.outlive_readers()
    if sys.argv[1:] and sys.argv[1] in COMMANDS:
        command = importlib.import_module(f'estimator_trainer.tools.{sys.argv[1]}.command')
        sys.exit(command.main(sys.argv[2:]))
    ending.leave(main(sys.argv))
