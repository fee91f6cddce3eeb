import sys

from estimator_trainer.main import main
from estimator_trainer.watch import ending

if __name__ == '__main__':
    code = main(sys.argv)
    if 'tensorflow' in sys.modules:
        ending.leave(code)
    sys.exit(code)
