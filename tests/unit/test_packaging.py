"""What surrounds the package: licences of crates, the README of an index page, workflows, image and recipe."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
import tomllib

from klamm.cli import build_parser

ROOT = Path(__file__).parents[2]
TARGETS = ("x86_64-unknown-linux-gnu", "x86_64-pc-windows-msvc", "aarch64-apple-darwin")


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def toml(name):
    return tomllib.loads((ROOT / name).read_text(encoding="utf-8"))


def test_both_tools_accept_the_same_licences():
    assert toml("about.toml")["accepted"] == toml("deny.toml")["licenses"]["allow"]


@pytest.mark.skipif(not shutil.which("cargo"), reason="needs cargo")
@pytest.mark.parametrize("target", TARGETS)
def test_the_licence_of_every_crate_in_the_extension_is_there(target):
    options = ("--locked", "--edges", "normal", "--features", "python", "--target", target, "--prefix", "none")
    tree = subprocess.run(
        ["cargo", "tree", *options, "--format", "{p}"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    # Macros run in the compiler, and are no part of the extension.
    lines = [line for line in tree.splitlines() if line and "(proc-macro)" not in line]
    crates = {tuple(line.split()[:2]) for line in lines} - {("klamm", "v0.1.0")}
    texts = (ROOT / "THIRD-PARTY-LICENSES.txt").read_text(encoding="utf-8")
    missing = [crate for crate in sorted(crates) if f"    {crate[0]} {crate[1].removeprefix('v')}" not in texts]
    assert len(crates) > 40
    assert not missing, "run make licences"


def test_the_links_of_the_readme_lead_somewhere_and_follow_the_setting():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    own = [link for link in re.findall(r"\]\(([^)]+)\)", text) if link != "https://rustup.rs"]
    source = toml("pyproject.toml")["project"].get("urls", {}).get("Source")
    if source:  # run scripts/write_links.py
        base = f"{source}/blob/main/"
        assert not [link for link in own if not link.startswith(base)]
        own = [link.removeprefix(base) for link in own]
    assert own
    assert not [link for link in own if not (ROOT / link.partition("#")[0]).is_file()]
    assert not re.findall(r"`(?:docs|examples|benches)/|`[A-Z]+\.md`", text)
    assert text.count("\n") <= 150


def test_the_setting_turns_relative_links_into_links_of_the_repository():
    links = script("write_links")
    text = "[a](docs/a.md#b), [c](https://c.example/), [d](https://old.example/k/blob/main/LICENSE)"
    done = "[a](https://x.example/k/blob/main/docs/a.md#b), [c](https://c.example/), [d](https://x.example/k/blob/main/LICENSE)"
    assert links.absolute(text, "https://x.example/k") == done
    assert links.absolute(done, "https://x.example/k") == done


def test_licence_files_of_the_wheel_exist():
    for name in toml("pyproject.toml")["project"]["license-files"]:
        assert (ROOT / name).stat().st_size > 50


def test_the_package_names_its_licence_and_the_pythons_that_it_supports():
    project = toml("pyproject.toml")["project"]
    oldest = re.fullmatch(r">=3\.(\d+)", project["requires-python"])[1]
    named = re.findall(r"Python :: 3\.(\d+)", "\n".join(project["classifiers"]))
    assert min(map(int, named)) == int(oldest)
    assert {project["license"], toml("Cargo.toml")["package"]["license"]} == {"Apache-2.0"}


def test_the_image_starts_the_dev_broker_with_options_that_exist():
    text = (ROOT / "packaging" / "docker" / "Dockerfile").read_text(encoding="utf-8")
    (entry,) = re.findall(r"^ENTRYPOINT (.*)$", text, re.MULTILINE)
    (command,) = re.findall(r"^CMD (.*)$", text, re.MULTILINE)
    name, *words = json.loads(entry) + json.loads(command)
    assert name == "klamm"
    assert build_parser().parse_args(words).port == 9092


def test_the_image_and_the_recipe_agree_with_the_manifest():
    image = (ROOT / "packaging" / "docker" / "Dockerfile").read_text(encoding="utf-8")
    manifest = toml("Cargo.toml")["package"]
    assert f"FROM rust:{manifest['rust-version']}-" in image
    recipe = (ROOT / "packaging" / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    assert f'version: "{manifest["version"]}"' in recipe


def test_every_make_target_of_a_workflow_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    files = list((ROOT / ".github" / "workflows").glob("*.yml"))
    named = {name for file in files for name in re.findall(r"run: make ([a-z-]+)", file.read_text(encoding="utf-8"))}
    assert named
    assert named <= targets


@pytest.mark.parametrize(
    ("path", "names_the_machine"),
    [
        (b"cargo/registry/src/index-1949cf8c/itoa-1.0.18/src/lib.rs", False),
        (b"./src/lib.rs", False),
        (b"/root/.cargo/registry/src/index-1949cf8c/itoa-1.0.18/src/lib.rs", True),
        (b"/opt/cargo-home/registry/src/index-1949cf8c/itoa-1.0.18/src/lib.rs", True),
        (b"C:\\Users\\someone\\.cargo", True),
    ],
)
def test_a_wheel_must_not_name_paths_of_the_build_machine(path, names_the_machine):
    assert bool(script("check_wheels").BUILD_PATHS.search(path)) == names_the_machine


def wheel(path, crate):
    """Write a wheel as maturin does: the bill of materials has cargo's ID of the crate."""
    sbom = json.dumps({"bom-ref": crate, "components": [{"bom-ref": f"{crate} bin-target-0"}]}).encode()
    files = {"klamm/__init__.py": b"", "klamm-0.1.0.dist-info/sboms/klamm.cyclonedx.json": sbom}
    rows = [",".join(script("remap_wheels").row(*item)) for item in files.items()]
    files["klamm-0.1.0.dist-info/RECORD"] = "\n".join([*rows, "klamm-0.1.0.dist-info/RECORD,,", ""]).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data)


@pytest.mark.parametrize("directory", ["/srv/klamm#0.1.0", "/home/a%20b/other#klamm@0.1.0", "/C:/k#klamm@0.1.0"])
def test_a_wheel_is_the_same_wherever_its_source_was(tmp_path, directory):
    one, two = tmp_path / "one.whl", tmp_path / "two.whl"
    wheel(one, "path+file:///klamm#0.1.0")
    wheel(two, f"path+file://{directory}")
    assert not script("remap_wheels").remap(one)
    assert script("remap_wheels").remap(two)
    with zipfile.ZipFile(one) as expected, zipfile.ZipFile(two) as remapped:
        assert remapped.namelist() == expected.namelist()
        assert [remapped.read(name) for name in remapped.namelist()] == [expected.read(n) for n in expected.namelist()]
