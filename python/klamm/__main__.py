"""`python -m klamm`: the command `klamm`, where its script is not on the path."""

import sys

from klamm.cli import main

if __name__ == "__main__":
    sys.exit(main())
