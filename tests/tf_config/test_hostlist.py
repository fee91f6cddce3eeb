import pytest

from tf_config.hostlist import MOST, expand


@pytest.mark.parametrize(
    'text, names',
    [
        ('n1', 'n1'),
        ('n[1-3]', 'n1 n2 n3'),
        ('n[1-3,7]', 'n1 n2 n3 n7'),
        ('n[2,10]', 'n2 n10'),
        ('n[10,2]', 'n10 n2'),
        ('n[08-11]', 'n08 n09 n10 n11'),
        ('n[8-011]', 'n8 n9 n10 n11'),
        ('n[098-101]', 'n098 n099 n100 n101'),
        ('a,b', 'a b'),
        ('b,a,b', 'b a b'),
        ('gpu-[1-2],login,x.y_z[3]', 'gpu-1 gpu-2 login x.y_z3'),
        ('r[1-2]n[1-2]', 'r1n1 r1n2 r2n1 r2n2'),
        ('n[1-2]-ib', 'n1-ib n2-ib'),
        ('[1-2]', '1 2'),
    ],
)
def test_lists(text, names):
    assert expand(text) == tuple(names.split())


@pytest.mark.parametrize(
    'text',
    [
        '',
        ',',
        'a,',
        ',a',
        'a,,b',
        'a b',
        'n[1-2',
        'n1-2]',
        'n[[1-2]]',
        'n[1-2]]',
        'n{1-2}',
        'fd00::1',
        'n;reboot',
        60 * 'n' + '[1-',
    ],
)
def test_what_is_no_list(text):
    with pytest.raises(ValueError, match='is not a list of nodes'):
        expand(text)


@pytest.mark.parametrize('text', ['n[]', 'n[a-b]', 'n[2-1]', 'n[1-]', 'n[-1]', 'n[1,]', 'n[000x333]', 'n[1-2-3]'])
def test_what_is_no_range(text):
    with pytest.raises(ValueError, match='has a bad range'):
        expand(text)


@pytest.mark.parametrize('text', [f'n[0-{MOST}]', 'n[1-999999999]', 'a[1-300]b[1-300]', 'n[1-40000],m[1-40000]'])
def test_slips_end_at_once(text):
    with pytest.raises(ValueError, match=f'more than {MOST}'):
        expand(text)
    assert len(expand(f'n[1-{MOST}]')) == MOST
