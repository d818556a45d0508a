"""The line protocol of a runner: a request a line on stdin, an answer a line on stdout."""

import json
import sys
import time


def serve(work):
    """Answer {"file": …} or {"text": …} with what work returns and the seconds it took."""
    out = sys.stdout
    sys.stdout = sys.stderr  # libraries print as they like
    print(json.dumps({"ready": True}), file=out, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        started = time.perf_counter()
        answer = work(request)
        answer["seconds"] = time.perf_counter() - started
        print(json.dumps(answer), file=out, flush=True)
