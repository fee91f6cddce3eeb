import sys

from estimator_trainer.migrate.command import main

if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
