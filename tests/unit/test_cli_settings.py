"""Client options of the command line from profiles, environment variables and files."""

from __future__ import annotations

import json

import pytest

from klamm.cli import main
from klamm.cli.clients import client_config
from klamm.cli.command_line import parse
from klamm.cli.output import UsageError
from klamm.cli.settings import java_properties

PROFILES = """
default = "local"

[profiles.local]
bootstrap.servers = "local:1"

[profiles.prod]
"bootstrap.servers" = "prod:1,prod:2"
security.protocol = "SASL_SSL"
sasl.mechanism = "PLAIN"
sasl.username = "me"
sasl.password = "hunter2"
linger.ms = 20
enable.idempotence = true
"""


@pytest.fixture(autouse=True)
def profiles(tmp_path, monkeypatch):
    """A file with profiles, and no environment variables of klamm."""
    path = tmp_path / "klamm" / "config.toml"
    path.parent.mkdir()
    path.write_text(PROFILES)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("CONFIG_FILE", "PROFILE", "BOOTSTRAP_SERVERS"):
        monkeypatch.delenv(f"KLAMM_{name}", raising=False)
    return path


def config(*words, client="producer"):
    return client_config(parse(["produce", "t", *words]), client)


def test_the_default_profile_is_used():
    assert config() == {"bootstrap.servers": "local:1"}


def test_a_client_takes_the_options_of_a_profile_that_it_has():
    login = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "me",
        "sasl.password": "hunter2",
    }
    common = {"bootstrap.servers": "prod:1,prod:2", **login}
    assert config("--profile", "prod") == {**common, "linger.ms": "20", "enable.idempotence": "true"}
    assert config("--profile", "prod", client="consumer") == common
    assert config("--profile", "prod", client="") == common


def test_each_layer_overrides_the_layers_before_it(tmp_path, monkeypatch):
    def bootstrap(*words):
        return config(*words)["bootstrap.servers"]

    file = tmp_path / "client.conf"
    file.write_text("metadata.broker.list=file:1\n")
    monkeypatch.setenv("KLAMM_BOOTSTRAP_SERVERS", "env:1")
    assert bootstrap() == "env:1"
    assert bootstrap("--profile", "prod") == "prod:1,prod:2"
    assert bootstrap("--profile", "prod", "-F", str(file)) == "file:1"
    assert bootstrap("--profile", "prod", "-F", str(file), "-b", "option:1") == "option:1"
    assert bootstrap("-b", "option:1", "-X", "bootstrap.servers=x:1") == "x:1"


def test_the_profile_and_its_file_can_be_named_in_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("KLAMM_PROFILE", "prod")
    assert config()["sasl.username"] == "me"
    other = tmp_path / "other.toml"
    other.write_text('[profiles.prod]\nclient.id = "x"\n')
    monkeypatch.setenv("KLAMM_CONFIG_FILE", str(other))
    assert config() == {"bootstrap.servers": "localhost:9092", "client.id": "x"}


def test_each_option_has_an_environment_variable(monkeypatch):
    monkeypatch.setenv("KLAMM_SECURITY_PROTOCOL", "SSL")
    monkeypatch.setenv("KLAMM_LINGER_MS", "7")
    assert config() == {"bootstrap.servers": "local:1", "security.protocol": "SSL", "linger.ms": "7"}


def test_a_group_of_a_file_does_not_make_commands_members(tmp_path):
    file = tmp_path / "consumer.properties"
    file.write_text("group.id=prod\n")
    assert config("-F", str(file), client="consumer") == {"bootstrap.servers": "local:1"}


PROPERTIES = r"""
# a comment
  ! another
a=1
b : 2
c 3
d
e\=\:f = x\ty
g = one\
    two
h = \u00e9\\n
i = a = b # no comment
"""


def test_a_properties_file_is_read_as_java_reads_it():
    text = PROPERTIES
    assert dict(java_properties(text)) == {
        "a": "1",
        "b": "2",
        "c": "3",
        "d": "",
        "e=:f": "x\ty",
        "g": "onetwo",
        "h": "é\\n",
        "i": "a = b # no comment",
    }


def test_other_files_are_read_as_librdkafkas_tools_read_them(tmp_path):
    file = tmp_path / "kcat.conf"
    file.write_text("# comment\n\nsasl.password=back\\slash=1\n topic.acks = 1 \n")
    assert config("-F", str(file)) == {"bootstrap.servers": "local:1", "sasl.password": "back\\slash=1", "acks": "1"}


def test_unknown_options_of_files_are_named_and_ignored(tmp_path, capsys):
    file = tmp_path / "a.properties"
    file.write_text("linger.msx=1\nkey.serializer=org.example.S\nclient.id=c\n")
    assert config("-F", str(file)) == {"bootstrap.servers": "local:1", "client.id": "c"}
    first, second = capsys.readouterr().err.splitlines()
    assert first == f"klamm: {file}: unknown option linger.msx is ignored; did you mean linger.ms?"
    assert "key.serializer is ignored; klamm runs no Java classes" in second


def test_unknown_options_about_security_are_errors(tmp_path):
    file = tmp_path / "a.properties"
    file.write_text("ssl.context=1\n")
    with pytest.raises(UsageError, match=r"unknown option ssl\.context"):
        config("-F", str(file))


@pytest.mark.parametrize(
    ("text", "words", "says"),
    [
        ("x = ", (), "is not valid TOML"),
        ("other = 1", (), "unknown key other"),
        ("profiles = 1", (), "profiles is not a table of tables"),
        ("", ("--profile", "prod"), "has no profile 'prod'"),
        ("[profiles.prodd]", ("--profile", "prod"), "did you mean prodd?"),
        ("[profiles.p]\na = 2026-01-01", (), "a cannot be 2026-01-01"),
        ('default = "gone"', (), "has no profile 'gone'"),
    ],
)
def test_a_wrong_file_of_profiles_is_one_line(profiles, capsys, text, words, says):
    profiles.write_text(text)
    assert main(["config", "show", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line


def test_a_wrong_file_of_options_is_one_line(tmp_path, capsys):
    bad = tmp_path / "bad.conf"
    bad.write_text("a=1\nno sign\n")
    for path, says in ((bad, f"{bad}:2: 'no sign' must have the form"), (tmp_path / "none", "No such file")):
        assert main(["config", "show", "-F", str(path)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert says in line


def test_show_names_sources_and_hides_secrets(capsys):
    assert main(["config", "show", "--profile", "prod", "-X", "ssl.key.password=geheim", "--json"]) == 0
    printed = capsys.readouterr().out
    shown = {each["name"]: (each["value"], each["source"]) for each in json.loads(printed)["options"]}
    assert shown["sasl.username"] == ("me", "profile prod")
    assert shown["ssl.key.password"] == ("[hidden]", "-X")
    assert "hunter2" not in printed
    assert "geheim" not in printed


def test_controllers_replace_the_brokers_of_earlier_layers(monkeypatch):
    def nodes(line, client=""):
        config = client_config(parse(line.split()), client)
        return {name: value for name, value in config.items() if name.startswith("bootstrap")}

    assert nodes("quorum describe") == {"bootstrap.servers": "local:1"}
    controllers = {"bootstrap.controllers": "c:1"}
    assert nodes("quorum describe --bootstrap-controllers c:1") == controllers
    assert nodes("quorum describe --profile prod -X bootstrap.controllers=c:1") == controllers
    monkeypatch.setenv("KLAMM_BOOTSTRAP_CONTROLLERS", "c:1")
    assert nodes("quorum describe") == controllers
    assert nodes("quorum describe -b b:1") == {"bootstrap.servers": "b:1"}
    assert nodes("quorum describe -X bootstrap.servers=b:1") == {"bootstrap.servers": "b:1"}
    assert nodes("consume t -b b:1", "consumer") == {"bootstrap.servers": "b:1"}
    with pytest.raises(UsageError, match=r"KLAMM_BOOTSTRAP_CONTROLLERS has bootstrap\.controllers.*needs brokers"):
        nodes("consume t", "consumer")
    monkeypatch.setenv("KLAMM_BOOTSTRAP_SERVERS", "b:1")
    assert nodes("quorum describe") == {"bootstrap.servers": "b:1", **controllers}


def test_brokers_and_controllers_on_one_command_line(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["quorum", "describe", "-b", "b:1", "--bootstrap-controllers", "c:1"])
    assert ended.value.code == 2
    assert "not allowed with" in capsys.readouterr().err
