"""allocator: what a process and its children take, without TensorFlow."""

import os
import subprocess
import sys

import pytest

from estimator_trainer.this_process import allocator


@pytest.fixture
def installed(monkeypatch, tmp_path):
    library = tmp_path / 'libjemalloc.so.2'
    library.touch()
    monkeypatch.setattr(allocator, 'FOLDERS', (str(tmp_path / 'none'), str(tmp_path)))
    return str(library)


def test_children_take_jemalloc_where_it_is_installed(installed):
    assert allocator.environment({'A': 'b'}) == {'A': 'b', 'LD_PRELOAD': installed}
    assert allocator.environment({'LD_PRELOAD': 'x.so'})['LD_PRELOAD'] == f'x.so:{installed}'
    assert allocator.environment_of_program({}) == {'LD_PRELOAD': installed}


@pytest.mark.parametrize('loaded', ['libtcmalloc.so.4', '/usr/lib/libjemalloc.so.2'])
def test_a_choice_of_the_user_stays(installed, loaded):
    assert allocator.environment({'LD_PRELOAD': loaded}) == {'LD_PRELOAD': loaded}


def test_without_jemalloc_a_program_gets_thresholds_and_a_task_sets_its_own(monkeypatch):
    monkeypatch.setattr(allocator, 'FOLDERS', ())
    assert allocator.environment({'A': 'b'}) == {'A': 'b'}
    given = allocator.environment_of_program({'A': 'b', 'MALLOC_TOP_PAD_': '1'})
    assert given['MALLOC_TOP_PAD_'] == '1' and int(given['MALLOC_TRIM_THRESHOLD_']) > 2**20


_GIVES_BACK = """
import sys
from estimator_trainer.this_process import allocator
if sys.argv[1] == 'tune':
    print(allocator.tune())
buffer = bytearray(b'x') * 2**26
def resident():
    return int(open('/proc/self/statm').read().split()[1]) * 4096
full = resident()
del buffer
print('kept' if resident() > full - 2**25 else 'given back')
"""


@pytest.mark.skipif(not os.path.exists('/proc/self/statm'), reason='asks /proc')
def test_glibc_keeps_what_was_freed():
    def said(how):
        done = subprocess.run(
            [sys.executable, '-c', _GIVES_BACK, how], capture_output=True, text=True, timeout=300, check=True
        )
        return done.stdout.splitlines()

    assert said('not') == ['given back']
    name, what = said('tune')
    if 'keeps' in name:
        assert what == 'kept'
