"""Example programs. The package contains these programs so that `klamm demo` runs the same code that users copy."""
