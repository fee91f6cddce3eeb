"""What a process of `python -m tests.differential.generated` does with a program."""

import os

DIFFERS = 'DIFFERS'


def start() -> None:
    """Begins a process."""
    os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
    import tests.bring_up_tensorflow  # noqa: F401


def outcome(seed_and_number) -> tuple:
    """-> (the number, what it counts as, in detail)"""
    from tests.differential.generated import compared, grammar

    number = seed_and_number[1]
    try:
        what = compared.outcome(grammar.drawn(*seed_and_number))
        return number, what, ''
    except compared.Invalid as error:
        return number, 'invalid: ' + compared.without_names(str(error))[:120], str(error)
    except compared.Differs as error:
        kind, _, detail = str(error).partition(': ')
        shown = '' if 'other numbers' in kind else compared.without_names(': ' + detail)[:120]
        return number, f'{DIFFERS}: {kind}{shown}', str(error)


def reduced(seed_and_number) -> tuple:
    """-> (the number, the smallest program that still differs)"""
    from tests.differential.generated import compared, grammar

    def fails(program):
        try:
            compared.outcome(program)
        except compared.Differs:
            return True
        except compared.Invalid:
            pass
        return False

    return seed_and_number[1], grammar.reduced(grammar.drawn(*seed_and_number), fails)
