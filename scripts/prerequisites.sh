#!/bin/sh
# Says what this machine lacks: `prerequisites.sh [tool ...]`, of python cargo cc java make (all when none is named).
# Each missing tool is one line on stderr with what to do about it, and the exit status is 1. Prints nothing else.

PYTHON=${PYTHON:-python3}
here=$(dirname "$0")
status=0

missing() {
    echo "missing: $1; $2" >&2
    status=1
}

# at_least 17.0.2 17 9: is the dotted version at least 17.9? Whatever follows the second number does not count.
at_least() {
    major=${1%%.*}
    rest=${1#*.}
    minor=${rest%%[!0-9]*}
    [ "$major" -gt "$2" ] 2>/dev/null || { [ "$major" -eq "$2" ] 2>/dev/null && [ "${minor:-0}" -ge "${3:-0}" ]; }
}

check_python() {
    get='install it (apt install python3 python3-venv, brew install python) or name one with PYTHON=/path/to/python3'
    found=$("$PYTHON" -c 'import platform; print(platform.python_version())' 2>/dev/null)
    if [ -z "$found" ]; then
        missing "Python 3.11 or newer ($PYTHON does not run)" "$get"
    elif ! at_least "$found" 3 11; then
        missing "Python 3.11 or newer ($PYTHON is $found)" "$get"
    elif ! "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null; then
        missing "the venv module of $PYTHON" "install it (apt install python3-venv)"
    fi
}

check_cargo() {
    wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$here/../Cargo.toml")
    found=$(cargo --version 2>/dev/null | cut -d ' ' -f 2)
    if [ -z "$found" ]; then
        missing "cargo (Rust $wanted or newer)" "install Rust from https://rustup.rs"
    elif ! at_least "$found" "${wanted%%.*}" "${wanted#*.}"; then
        missing "Rust $wanted or newer (cargo is $found)" "run: rustup update stable"
    fi
}

check_cc() {
    command -v cc >/dev/null || missing "a C compiler (cc), which Rust links with" "install one (apt install build-essential, xcode-select --install)"
}

check_java() {
    get='install a JDK (apt install openjdk-17-jdk-headless, brew install openjdk) or set JAVA_HOME'
    java=${JAVA_HOME:+$JAVA_HOME/bin/}java
    found=$("$java" -version 2>&1 | sed -n 's/.* version "\([^"]*\)".*/\1/p')
    if [ -z "$found" ]; then
        missing "Java 17 or newer ($java does not run)" "$get"
    elif ! at_least "$found" 17; then
        missing "Java 17 or newer ($java is $found)" "$get"
    fi
}

check_make() {
    command -v make >/dev/null || missing "make" "install it (apt install make, xcode-select --install)"
}

[ $# -gt 0 ] || set -- python cargo cc java make
for tool; do
    "check_$tool"
done
exit $status
