import sys

from estimator_trainer.tools.migrate.command import main
from tf_config import streams

if __name__ == '__main__':
    streams.outlive_readers()
    sys.exit(main(sys.argv[1:]))
