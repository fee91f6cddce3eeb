"""absl's errors, said in one line: flag, value, cure."""

from absl import flags

from estimator_trainer.errors import UsageError


def value_error(error: flags.IllegalFlagValueError, values: flags.FlagValues) -> UsageError:
    given = str(error).removeprefix('flag ').partition(': ')[0]  # '--workers=two'
    name = given.removeprefix('--').partition('=')[0]
    if name not in values:
        return UsageError(f'{error} (see --help)')
    choices = getattr(values[name].parser, 'enum_values', None)
    wanted = ' or '.join(choices) if choices else values[name].parser.syntactic_help
    return UsageError(f'{given}: give {wanted or "true or false"}')


def flagfile_error(error: flags.CantOpenFlagFileError) -> UsageError:
    cause = error.__context__  # absl puts the name of the file nowhere else
    assert isinstance(cause, OSError)
    return UsageError(f'--flagfile={cause.filename}: {cause.strerror}; give the path of a file that can be read')
