#!/usr/bin/env python3
"""Runs a command by the shell, and prints its seconds and the most memory of one of its processes.

    measured.py COMMAND       prints SECONDS MIB; what the command prints is left out
"""

import resource
import subprocess
import sys
import time

began = time.monotonic()
status = subprocess.run(["bash", "-euo", "pipefail", "-c", sys.argv[1]], stdout=subprocess.DEVNULL).returncode
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
print(time.monotonic() - began, peak)
sys.exit(status)
