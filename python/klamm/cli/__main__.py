"""`python -m klamm.cli`: the command `klamm` without its script."""

import sys

from klamm.cli import main

if __name__ == "__main__":
    sys.exit(main())
