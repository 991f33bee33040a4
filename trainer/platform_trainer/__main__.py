"""`python -m platform_trainer --spec FILE`: run one training job."""
from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from .job import StopSignal, run_job


def main() -> int:
    """Read the arguments and run the job."""
    parser = argparse.ArgumentParser(prog="platform_trainer", description="Run one training job of the platform.")
    parser.add_argument("--spec", type=Path, required=True, help="the job as JSON (PROTOCOL.md)")
    arguments = parser.parse_args()
    # Threads that spin for ever while they wait take the processors from the server beside them; ones that sleep at
    # once cost a fifth of the speed. A short spin costs neither. Read when torch is imported.
    os.environ.setdefault("GOMP_SPINCOUNT", "100000")
    return run_job(arguments.spec, StopSignal())


if __name__ == "__main__":
    sys.exit(main())
