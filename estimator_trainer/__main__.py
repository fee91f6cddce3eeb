import sys

from estimator_trainer.main import main

if __name__ == '__main__':
    sys.exit(main(sys.argv))
