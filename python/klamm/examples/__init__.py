"""Example programs. They are in the package so that `klamm demo` runs the same code that users copy."""
