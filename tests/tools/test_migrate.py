from estimator_trainer.tools.migrate import variable_names

PAIRS = [
    variable_names.Pair('dense/kernel', 'dense/kernel', (2, 3), variable_names.WEIGHT),
    variable_names.Pair('dense/kernel/Adam', 'Adam/m/dense/kernel', (2, 3), variable_names.SLOT),
    variable_names.Pair('global_step', 'iteration', (), variable_names.STEP),
]


def test_all_match():
    source = {'dense/kernel': (2, 3), 'dense/kernel/Adam': (2, 3), 'global_step': ()}
    lines = variable_names.match(PAIRS, source, 'estimator')
    assert all(line.matched for line in lines) and len(lines) == 3
    assert variable_names.refused(lines, []) == []


def test_what_is_on_one_side_only_or_has_another_shape():
    lines = variable_names.match(PAIRS, {'dense/kernel': (2, 4), 'global_step': (), 'ema': (1,)}, 'estimator')
    status = {line.name: line.status for line in lines}
    assert status == {
        'dense/kernel': 'shape [2, 4] in estimator, [2, 3] in keras',
        'dense/kernel/Adam': 'only in keras',
        'global_step': variable_names.MATCHED,
        'ema': 'only in estimator',
    }
    assert [line.name for line in variable_names.refused(lines, ['ema', 'dense/kernel'])] == ['dense/kernel/Adam']


def test_the_way_back():
    lines = variable_names.match(PAIRS, {'dense/kernel': (2, 3), 'iteration': (), 'other': ()}, 'keras')
    assert [(line.name, line.status) for line in lines if not line.matched] == [
        ('dense/kernel/Adam', 'only in estimator'),
        ('other', 'only in keras'),
    ]


def test_table_has_a_line_for_each():
    text = variable_names.table(variable_names.match(PAIRS, {'dense/kernel': (2, 3)}, 'estimator'))
    assert len(text.splitlines()) == 4 and 'scalar' in text and '2x3' in text
