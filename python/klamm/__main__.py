"""`python -m klamm` runs the command `klamm`, even if the `PATH` does not have its script."""

import sys

from klamm.cli import main

if __name__ == "__main__":
    sys.exit(main())
