"""Scrapes a run that serves metrics, once a second, as Prometheus would at its most eager."""

import contextlib
import pathlib
import re
import time
import urllib.request

_EVERY_SECS = 1.0
_TIMEOUT_SECS = 5
_URL = re.compile(r'metrics: (http://\S+/metrics)')
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def watch(pid, folder, found) -> None:
    """Scrapes, if it is time to. `found['scrapes']` counts those that were answered."""
    now = time.monotonic()
    if now < found.get('next_scrape', 0):
        return
    url = _URL.search(pathlib.Path(folder, '.out').read_text(encoding='utf-8', errors='replace'))
    found['next_scrape'] = now + _EVERY_SECS
    if url:
        with contextlib.suppress(OSError), _direct.open(url[1], timeout=_TIMEOUT_SECS) as answer:
            answer.read()
            found['scrapes'] = found.get('scrapes', 0) + 1
