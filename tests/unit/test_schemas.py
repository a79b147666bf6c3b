"""Compares klamm's declaration of each message with the schemas in Kafka's own client library, which Maven fetches.

Each version is compared: its fields in wire order, with name, type, tag, default, nullability and nested fields. Two
releases are needed, because neither has all versions. Names of structs are not part of the protocol, so klamm has its
own.
"""

from __future__ import annotations

import json
import re
import zipfile

import pytest

from kafka_broker import KafkaUnavailable, clients_jar
from klamm import protocol

NEWEST, OLDEST = "4.4.0", "3.9.2"

# What 3.9.2 calls otherwise than 4.4.0, whose names are klamm's; the bytes are the same.
RENAMED = {
    # A group of KIP-848 has member epochs in place of generations (KIP-1071).
    "TxnOffsetCommitRequest": {"generationId": "generationIdOrMemberEpoch"},
    # Before a vote there may be a pre-vote, in which no replica is a candidate yet (KIP-996).
    "VoteRequest": {
        "candidateEpoch": "replicaEpoch",
        "candidateId": "replicaId",
        "candidateDirectoryId": "replicaDirectoryId",
    },
    # ListClientMetricsResources has become ListConfigResources (KIP-1142).
    "ListConfigResourcesResponse": {"clientMetricsResources": "configResources", "name": "resourceName"},
}
RENAMED_APIS = {"ListClientMetricsResources": "ListConfigResources"}

# What 3.9.2 has as an unstable version and 4.4.0 has in another form under the same number: klamm's is that of 4.4.0.
REPLACED = {("ReadShareGroupStateSummaryResponse", 0)}


def schemas(version):
    """Return the schemas of a Kafka release by file name, or skip if the library is not available."""
    try:
        jar = clients_jar(version)
    except KafkaUnavailable as reason:
        pytest.skip(f"Kafka's schemas: {reason}")
    with zipfile.ZipFile(jar) as files:
        names = [name for name in files.namelist() if re.fullmatch(r"common/message/\w+\.json", name)]
        found = [without_comments(files.read(name).decode()) for name in names]
    parsed = [json.loads(text) for text in found]
    return {renamed(schema): schema for schema in parsed if schema["validVersions"] != "none"}


def without_comments(text):
    return re.sub(r'("(?:\\.|[^"\\])*")|//[^\n]*', lambda found: found[1] or "", text)


def renamed(schema):
    api, kind = re.fullmatch(r"(\w+?)(Request|Response|)", schema["name"]).groups()
    return RENAMED_APIS.get(api, api) + kind


def declared():
    """Return klamm's schemas under Kafka's file names."""
    found = {}
    for api in protocol.apis():
        for kind in ("request", "response"):
            found[api.name + kind.capitalize()] = protocol.schema(api.name, kind)
    for structure in protocol.structures():
        found[structure.name] = protocol.schema(structure.name, structure.kind)
    return found


def versions(text):
    """Return `3`, `3-5`, `3+` or `none` as a range."""
    if text in (None, "none"):
        return range(0)
    first, _, last = text.partition("-")
    return range(int(first.rstrip("+")), 1 << 15 if text.endswith("+") else int(last or first) + 1)


def fields_at(version, fields, structs, names):
    """Return the fields of a version in klamm's form: untagged ones in order, then tagged ones by tag."""
    found = []
    for field in fields:
        if version not in versions(field["versions"]):
            continue
        array, kind = re.fullmatch(r"(\[\])?(\w+)", field["type"]).groups()
        within = field.get("fields") or structs.get(kind)
        name = field["name"][0].lower() + field["name"][1:]
        nullable = version in versions(field.get("nullableVersions"))
        found.append(
            {
                "name": names.get(name, name),
                # To the codec records are bytes.
                "type": (array or "") + ("struct" if within else "bytes" if kind == "records" else kind),
                "nullable": nullable,
                "tag": int(field["tag"]) if version in versions(field.get("taggedVersions")) else None,
                "default": default(field, array, kind, within),
                "fields": fields_at(version, within, structs, names) if within else None,
            }
        )
    return sorted(found, key=lambda field: -1 if field["tag"] is None else field["tag"])


def default(field, array, kind, within):
    """Return a field's default as a value. For a struct it is `...`, the defaults of its fields."""
    given = field.get("default")
    if given == "null" or (kind == "records" and "nullableVersions" in field):
        return None
    if array:
        return []
    if within:
        return ...
    if kind == "bool":
        return str(given).lower() == "true"
    if "int" in kind:
        return int(str(given or 0), 0)
    return {"float64": 0.0, "bytes": b"", "records": b"", "uuid": "A" * 22, "string": given or ""}[kind]


def declared_at(version, fields):
    """Return the fields of klamm's description in the same form."""
    found = [
        {
            "name": field["name"],
            "type": re.sub(r"\b[A-Z]\w*", "struct", field["type"]),
            "nullable": version in versions(field.get("nullableVersions")),
            "tag": field.get("tag"),
            "default": field.get("default", ...),
            "fields": declared_at(version, field["fields"]) if "fields" in field else None,
        }
        for field in fields
        if version in versions(field["versions"])
    ]
    untagged = [field for field in found if field["tag"] is None]
    return untagged + [field for field in found if field["tag"] is not None]


@pytest.mark.parametrize("release", [NEWEST, OLDEST])
def test_every_field_of_every_version_is_as_kafka_has_it(release):
    klamm = declared()
    compared = 0
    for name, schema in schemas(release).items():
        structs = {struct["name"]: struct["fields"] for struct in schema.get("commonStructs", [])}
        names = RENAMED.get(name, {}) if release == OLDEST else {}
        for version in versions(schema["validVersions"]):
            if release == OLDEST and (name, version) in REPLACED:
                continue
            expected = fields_at(version, schema["fields"], structs, names)
            assert declared_at(version, klamm[name]["fields"]) == expected, f"{name} v{version}"
            compared += 1
    assert compared > 500


def test_every_message_has_the_versions_that_kafka_gives_it():
    klamm, newest, oldest = declared(), schemas(NEWEST), schemas(OLDEST)
    assert klamm.keys() == newest.keys() | oldest.keys()
    for name, schema in klamm.items():
        known = [schemas[name] for schemas in (newest, oldest) if name in schemas]
        valid = [versions(schema["validVersions"]) for schema in known]
        first, last = min(v.start for v in valid), max(v.stop for v in valid) - 1
        assert versions(schema["validVersions"]) == range(first, last + 1), name
        assert schema["type"] == known[0]["type"], name
        assert schema.get("apiKey") == known[0].get("apiKey"), name
        for theirs in known:
            assert schema["flexibleVersions"] == theirs["flexibleVersions"], name
        # Only the newest release says what is unstable; what it removed was never more than that.
        if schema["type"] == "request":
            assert schema["latestVersionUnstable"] == known[0].get("latestVersionUnstable", False), name
