"""`klamm completion`: prints a script that completes command lines in a shell. `shtab` generates the script from the parser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.cli.output import CommandError

if TYPE_CHECKING:
    import argparse

    from klamm.cli.options import Commands
    from klamm.cli.output import Output

SHELLS = ("bash", "zsh", "fish")


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "completion",
        help="print a script that completes command lines in your shell",
        description="Print a script that completes command lines in a shell. The command needs klamm[cli].",
        epilog="bash: add `source <(klamm completion bash)` to ~/.bashrc. "
        "zsh: run `klamm completion zsh > ~/.zfunc/_klamm`, with ~/.zfunc in fpath. "
        "fish: run `klamm completion fish > ~/.config/fish/completions/klamm.fish`.",
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, output: Output) -> int:
    """Print the script."""
    try:
        import shtab
    except ModuleNotFoundError:
        raise CommandError(
            "completion needs the package shtab, which is not installed", "run: pip install 'klamm[cli]'"
        ) from None
    output.say(shtab.complete(args.build_parser(), args.shell))
    return 0
