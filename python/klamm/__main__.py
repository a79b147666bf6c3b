"""`python -m klamm` runs the command `klamm`, even if the script `klamm` is not on the `PATH`."""

import sys

from klamm.cli import main

if __name__ == "__main__":
    sys.exit(main())
