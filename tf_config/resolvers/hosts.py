"""A cluster that the user describes by hand, with `--hosts` and the `--rank` of this process."""

from tf_config.resolvers.layout import BASE_PORT, Layout, Ranks, numbered, refusal

NAME = '--hosts'


def resolve(layout: Layout) -> Ranks:
    """The ranks that --hosts lists.

    Raises:
        ResolverError: --hosts or --rank is missing, or two ranks have one address.
    """
    if not layout.hosts:
        raise refusal(NAME, '--hosts', None, 'give the host of every rank, such as --hosts=a,b:2300,[::1]')
    if layout.rank is None:
        raise refusal(NAME, '--rank', None, 'which entry of --hosts is this process? They count from 0')
    where = f'{len(layout.hosts)} host{"s" if len(layout.hosts) != 1 else ""}'
    addresses = numbered(NAME, layout.hosts, layout.base_port or BASE_PORT)
    return Ranks(NAME, where, layout.rank, '--rank', addresses)
