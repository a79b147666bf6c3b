"""`python -m klamm` runs the command `klamm`, even if its script is not on the path."""

import sys

from klamm.cli import main

if __name__ == "__main__":
    sys.exit(main())
