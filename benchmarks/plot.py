"""The ratios of all tables as bars, with their spread."""

import matplotlib

matplotlib.use('svg')

from matplotlib import pyplot  # noqa: E402

_INCHES_OF_BAR, _INCHES_OF_TITLE = 0.28, 0.75


def write(tables, path) -> None:
    """Writes an SVG file.

    Args:
        tables: [(title, rows of measure.rows)].
        path: of the file.
    """
    tables = [(title, [row for row in rows if row.lowest is not None]) for title, rows in tables]
    tables = [(title, rows) for title, rows in tables if rows]
    if not tables:
        return
    heights = [_INCHES_OF_TITLE + _INCHES_OF_BAR * len(rows) for _, rows in tables]
    figure, axes = pyplot.subplots(
        len(tables), figsize=(9, sum(heights)), height_ratios=heights, squeeze=False, layout='constrained'
    )
    for axis, (title, rows) in zip(axes[:, 0], tables):
        ratios = [row.ratio for row in rows]
        spread = [[max(0, row.ratio - row.lowest) for row in rows], [max(0, row.highest - row.ratio) for row in rows]]
        colours = ['tab:blue' if row.name.startswith('ours') else 'lightgrey' for row in rows]
        axis.barh(range(len(rows)), ratios, xerr=spread, color=colours, ecolor='dimgrey')
        axis.set_yticks(range(len(rows)), [row.name for row in rows])
        axis.invert_yaxis()
        axis.axvline(1, color='black', linewidth=0.8)
        axis.set_title(f'{title}: ratio to the first one', loc='left', fontsize=10)
    figure.savefig(path, metadata={'Date': None})
    pyplot.close(figure)
