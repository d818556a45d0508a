"""The line protocol of a runner: a request a line on stdin, an answer a line on stdout."""

import json
import os
import resource
import sys
import time
from importlib.metadata import version

import soundfile

THREADS = os.cpu_count()
WINDOW_SECONDS = 30
KILOBYTES = 1 if sys.platform == "linux" else 1 / 1024  # in a unit of ru_maxrss


def serve(work, *packages):
    """Answer each request with what ``work`` returns, the seconds that took and the peak memory.

    The versions of the packages go out first.
    """
    out = sys.stdout
    sys.stdout = sys.stderr  # libraries print as they like
    print(
        json.dumps({"versions": {name: version(name) for name in packages}}), file=out, flush=True
    )
    for line in sys.stdin:
        request = json.loads(line)
        started = time.perf_counter()
        answer = work(request)
        answer["seconds"] = time.perf_counter() - started
        answer["peak_megabytes"] = peak_megabytes()
        print(json.dumps(answer), file=out, flush=True)


def fits_a_window(request):
    """Else a peer that does not cut at pauses needs timestamps, or it loses half of the text."""
    return soundfile.info(request["file"]).duration <= WINDOW_SECONDS


def peak_megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KILOBYTES / 1024
