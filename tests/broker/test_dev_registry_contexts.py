"""What the registry of the dev broker does with contexts, settings, metadata, rules, deletions and imports.

The expected results are those of Confluent's registry.
"""

from __future__ import annotations

import http.client
import json
from urllib.parse import quote

import pytest

from klamm.registry.dev import DevRegistry


@pytest.fixture
def ask(tmp_path):
    """Send a request. Return the JSON of the response, or the error code."""
    with DevRegistry(path=tmp_path / "registry.json") as dev:

        def call(method, path, body=None):
            connection = http.client.HTTPConnection(dev.url.removeprefix("http://"), timeout=10)
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, "/" + quote(path, safe="/?=&%"), data)
            response = connection.getresponse()
            found = json.load(response)
            connection.close()
            return found if response.status == 200 else found["error_code"]

        call.dev = dev
        yield call


def add(ask, subject, schema='"string"', **fields):
    return ask("POST", f"subjects/{subject}/versions", {"schema": schema, **fields})


def test_each_context_has_its_own_ids(ask):
    assert add(ask, "a")["id"] == add(ask, ":.x:a", '"long"')["id"] == add(ask, ":.y:b", '"int"')["id"] == 1
    assert add(ask, ":.:a")["version"] == 1  # the default context
    assert ask("GET", "contexts") == [".", ".x", ".y"]
    schema = {
        subject: ask("GET", f"schemas/ids/1{subject}")
        for subject in (
            "",
            "?subject=a",
            "?subject=:.x:",
            "?subject=:.x:a",
            "?subject=b",
            "?subject=:.x:b",
            "?subject=other",
        )
    }
    found = {subject: each["schema"] if isinstance(each, dict) else each for subject, each in schema.items()}
    assert found == {
        "": '"string"', "?subject=a": '"string"', "?subject=:.x:": '"long"', "?subject=:.x:a": '"long"',
        "?subject=b": '"int"', "?subject=:.x:b": 40403, "?subject=other": '"string"',
    }  # fmt: skip
    assert ask("GET", "schemas/ids/2") == 40403
    assert ask("GET", "subjects") == [":.x:a", ":.y:b", "a"]
    assert ask("GET", "subjects?subjectPrefix=") == ["a"]
    assert ask("GET", "subjects?subjectPrefix=:.x:") == [":.x:a"]
    assert ask("GET", "subjects?subjectPrefix=:*:a") == [":.x:a", "a"]
    assert ask("GET", "schemas/ids/1/versions?subject=:.y:") == [{"subject": ":.y:b", "version": 1}]
    assert [each["subject"] for each in ask("GET", "schemas?latestOnly=true")] == [":.x:a", ":.y:b", "a"]
    # A subject without a context is searched in the other contexts.
    assert ask("GET", "subjects/b/versions/1")["subject"] == ":.y:b"
    assert ask("POST", "subjects/b", {"schema": '"int"'})["subject"] == ":.y:b"
    guid = ask("GET", "schemas/ids/1?subject=:.y:")["guid"]
    assert ask("GET", f"schemas/guids/{guid}/ids") == [{"context": ".y", "id": 1}]


def test_the_path_can_name_the_context(ask):
    assert ask("POST", "contexts/.x/subjects/a/versions", {"schema": '"long"'})["id"] == 1
    assert ask("GET", "contexts/:.x:/subjects") == [":.x:a"]
    assert ask("GET", "contexts/.x/schemas/ids/1")["schema"] == '"long"'
    assert ask("PUT", "contexts/.x/config", {"compatibility": "FULL"}) == {"compatibility": "FULL"}
    assert ask("GET", "config/:.x:")["compatibilityLevel"] == "FULL"
    assert ask("GET", "config")["compatibilityLevel"] == "BACKWARD"


def test_references_belong_to_the_context_of_the_schema(ask):
    address = {"type": "record", "name": "Address", "fields": [{"name": "street", "type": "string"}]}
    add(ask, ":.x:address", json.dumps(address))
    order = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "to", "type": "Address"}]})
    references = [{"name": "Address", "subject": "address", "version": 1}]
    assert add(ask, ":.x:order", order, references=references)["id"] == 2
    assert add(ask, "order", order, references=references) == 42201
    assert ask("GET", "subjects/:.x:address/versions/1/referencedby") == [2]
    assert ask("DELETE", "subjects/:.x:address") == 42206


def test_settings_of_a_context_apply_to_its_subjects(ask):
    add(ask, ":.x:a")
    ask("PUT", "config/:.x:", {"compatibility": "NONE"})
    assert ask("GET", "config/:.x:a") == 40408
    assert ask("GET", "config/:.x:a?defaultToGlobal=true")["compatibilityLevel"] == "NONE"
    assert add(ask, ":.x:a", '"long"')["version"] == 2
    ask("PUT", "mode/:.x:", {"mode": "READONLY"})
    assert add(ask, ":.x:a", '"int"') == 42205
    assert add(ask, "a", '"int"')["id"] == 1
    assert (ask("DELETE", "config/:.x:a"), ask("DELETE", "mode/a")) == (40401, 40401)
    assert ask("DELETE", "config/:.x:")["compatibilityLevel"] == "NONE"


def test_contexts_survive_a_restart(ask):
    add(ask, ":.x:a")
    add(ask, "b", '"long"')
    ask.dev.stop()
    ask.dev.start()
    assert ask("GET", "schemas/ids/1?subject=:.x:")["schema"] == '"string"'
    assert ask("GET", "schemas/ids/1")["schema"] == '"long"'


def test_only_schemas_of_the_same_compatibility_group_are_compared(ask):
    ask("PUT", "config/a", {"compatibilityGroup": "major"})
    assert add(ask, "a", '"long"', metadata={"properties": {"major": "1"}})["version"] == 1
    assert add(ask, "a", '"string"', metadata={"properties": {"major": "2"}})["version"] == 2
    assert add(ask, "a", '"double"', metadata={"properties": {"major": "2"}}) == 409
    assert add(ask, "a", '"double"', metadata={"properties": {"major": "1"}})["version"] == 3
    assert ask("GET", "subjects/a/metadata?key=major&value=2")["version"] == 2
    assert ask("GET", "subjects/a/metadata?key=major&value=3") == 40403


def test_the_configuration_adds_metadata_and_rules(ask):
    rule = {"name": "r", "kind": "CONDITION", "type": "CEL", "mode": "WRITE", "expr": "true"}
    ask("PUT", "config", {
        "defaultMetadata": {"properties": {"owner": "shop", "team": "a"}},
        "overrideMetadata": {"properties": {"team": "b"}},
        "defaultRuleSet": {"domainRules": [rule, {**rule, "name": "s"}]},
    })  # fmt: skip
    own = {"domainRules": [{**rule, "expr": "false"}]}
    found = add(ask, "a", metadata={"properties": {"owner": "me", "x": "1"}}, ruleSet=own)
    assert found["metadata"] == {"properties": {"owner": "me", "x": "1", "team": "b"}}
    assert [(each["name"], each["expr"]) for each in found["ruleSet"]["domainRules"]] == [("s", "true"), ("r", "false")]
    # Without a schema, the request changes the rules and metadata of the latest version.
    assert ask("POST", "subjects/a/versions", {"metadata": {"properties": {"x": "2"}}})["version"] == 2
    assert ask("GET", "subjects/a/versions/2")["metadata"]["properties"] == {"owner": "shop", "team": "b", "x": "2"}
    assert ask("POST", "subjects/new/versions", {"metadata": {}}) == 42201


def test_numbers_of_versions_after_deletions(ask):
    ask("PUT", "config", {"compatibility": "NONE"})
    for kind in ("string", "long", "int"):
        add(ask, "a", f'"{kind}"')
    assert add(ask, "a", '"bytes"', version=7) == 42201
    ask("DELETE", "subjects/a/versions/3")
    assert ask("GET", "subjects/a/versions?deletedOnly=true") == [3]
    assert ask("DELETE", "subjects/a/versions/3") == 40406
    assert ask("DELETE", "subjects/a/versions/2?permanent=true") == 40407
    # The schema of a deleted version gets a new number, and the deleted version is gone.
    assert add(ask, "a", '"int"')["version"] == 4
    assert ask("GET", "subjects/a/versions?deleted=true") == [1, 2, 4]
    ask("DELETE", "subjects/a/versions/4")
    ask("DELETE", "subjects/a/versions/4?permanent=true")
    assert add(ask, "a", '"bytes"')["version"] == 3
    assert ask("DELETE", "subjects/a") == [1, 2, 3]
    assert ask("DELETE", "subjects/a") == 40404
    assert ask("POST", "compatibility/subjects/a/versions/latest", {"schema": '"int"'}) == {"is_compatible": True}
    assert ask("POST", "compatibility/subjects/a/versions/9", {"schema": '"int"'}) == 40401


def test_import_mode_keeps_ids_and_versions(ask):
    assert add(ask, "a", id=10, version=5) == 42205
    add(ask, "b")
    assert ask("PUT", "mode", {"mode": "IMPORT"}) == 42205
    assert ask("PUT", "mode/:.x:", {"mode": "IMPORT"}) == {"mode": "IMPORT"}
    found = add(ask, ":.x:a", id=10, version=5)
    assert (found["id"], found["version"]) == (10, 5)
    assert add(ask, ":.x:a", '"long"', id=10, version=6) == 42205
    assert add(ask, ":.x:a", '"long"') == 42205
    assert add(ask, ":.x:a", '"long"', id=3, version=2)["version"] == 2
    assert ask("GET", "subjects/:.x:a/versions") == [2, 5]


@pytest.mark.parametrize("subject", ["__GLOBAL", "__EMPTY", "%20", "a%0Ab", ":.x:"])
def test_names_that_no_subject_can_have(ask, subject):
    assert add(ask, subject) == 42208
