"""Where a cluster comes from."""

from tf_config.lint import parse


def from_environment(environ, strategy='auto'):
    """Parsed from TF_CONFIG in `environ`, a mapping. Raises TfConfigError, as `lint.parse`."""
    return parse(environ.get('TF_CONFIG', ''), strategy)
