"""A line of `tf.logging` is printed once."""

import logging
import sys

import pytest

from estimator_trainer.compat.patches import log_lines


class TensorFlow:
    """A logger as TensorFlow makes it, under another name."""

    def __init__(self):
        self._logger = logging.Logger('tensorflow')
        self._logger.parent = logging.getLogger()
        self._logger.addHandler(logging.StreamHandler(sys.stderr))

    def get_logger(self):
        return self._logger


@pytest.mark.parametrize(
    'configured, often', [({}, 1), ({'level': 'INFO'}, 1), ({'stream': sys.__stdout__}, 1), ({'filename': '…'}, 2)]
)
def test_once_on_the_terminal(configured, often, capsys, monkeypatch, tmp_path):
    root = logging.getLogger()
    monkeypatch.setattr(root, 'handlers', [])
    monkeypatch.setattr(root, 'level', logging.WARNING)
    file = tmp_path / 'log'
    if configured:
        logging.basicConfig(**{**configured, **({'filename': file} if 'filename' in configured else {})})
    tensorflow = TensorFlow()
    log_lines.print_once(tensorflow)
    kept = [each for each in root.handlers if getattr(each, 'stream', None) is sys.__stdout__]
    for each in kept:
        monkeypatch.setattr(each, 'stream', sys.stdout)
    tensorflow.get_logger().warning('a line')
    found = capsys.readouterr()
    said = found.out + found.err + (file.read_text() if file.exists() else '')
    assert said.count('a line') == often
