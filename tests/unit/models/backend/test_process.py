from __future__ import annotations

import sys

import numpy as np
import psutil
import pytest

from models.backend import give_back, process


@pytest.mark.skipif(sys.platform != "linux", reason="malloc_trim is glibc's")
def test_freed_memory_stays_until_it_is_given_back():
    process.keep_pages()
    resident = psutil.Process().memory_info
    arrays = [np.ones(1 << 17) for _ in range(128)]  # 128 MiB
    del arrays
    kept = resident().rss
    give_back()
    assert kept - resident().rss > 100 << 20
