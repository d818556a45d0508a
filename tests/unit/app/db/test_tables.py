from __future__ import annotations

import subprocess
import sys

LOADED = "import sys, app.api.server; print('sqlalchemy.dialects.postgresql' in sys.modules)"


def test_the_front_door_loads_no_driver_that_it_does_not_use():
    ran = subprocess.run([sys.executable, "-c", LOADED], check=True, capture_output=True, text=True)
    assert ran.stdout == "False\n"
