"""Programs that show klamm at work, in the package so that `klamm demo` runs what a user copies."""
