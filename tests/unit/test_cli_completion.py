"""Completion of command lines, in the shells themselves where they are installed."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from cli_process import klamm


def script(shell):
    result = klamm("completion", shell)
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout.decode()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_accepts_its_script(shell, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    path = tmp_path / "klamm"
    path.write_text(script(shell))
    done = subprocess.run([shell, "-n", str(path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (["klamm", "top"], "topics"),
        (["klamm", "topics", "des"], "describe"),
        (["klamm", "consume", "--grou"], "--group"),
    ],
)
def test_bash_completes_commands_actions_and_options(line, expected, tmp_path):
    path = tmp_path / "klamm.bash"
    path.write_text(script("bash"))
    words = " ".join(line)
    program = (
        f'source {path}; COMP_WORDS=({words}); COMP_CWORD={len(line) - 1}; COMP_LINE="{words}"; COMP_POINT=${{#COMP_LINE}}; '
        "$(complete -p klamm | sed 's/.*-F \\([^ ]*\\).*/\\1/') klamm; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    assert expected in [word.strip() for word in done.stdout.split("\n")]


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes_commands(tmp_path):
    path = tmp_path / "klamm.fish"
    path.write_text(script("fish"))
    program = f"source {path}; complete -C 'klamm gro'"
    done = subprocess.run(
        ["fish", "-c", program], capture_output=True, text=True, check=True, env={**os.environ, "HOME": str(tmp_path)}
    )
    assert "groups" in done.stdout


def test_without_its_package_the_command_says_how_to_get_it(monkeypatch, capsys):
    import sys

    from klamm.cli import main

    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 1
    assert "pip install 'klamm[cli]'" in capsys.readouterr().err
