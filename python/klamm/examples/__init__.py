"""Example programs. klamm includes these programs so that `klamm demo` runs the same code that users copy."""
