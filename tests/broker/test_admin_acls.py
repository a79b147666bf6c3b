"""Access rules through `klamm.Admin`, on dev brokers with an authorizer."""

from __future__ import annotations

import pytest

import klamm
from klamm.admin import AclBinding, AclFilter, AclOperation, AclPatternType, AclPermission, AclResource
from klamm.errors import (
    ArgumentError,
    CombinedError,
    InvalidRequestError,
    SecurityDisabledError,
    UnsupportedVersionError,
)
from klamm.testing import DevBroker

READ = AclBinding(AclResource.TOPIC, "orders", "User:alice", AclOperation.READ)
PREFIX = AclBinding(
    AclResource.GROUP,
    "g",
    "User:bob",
    AclOperation.READ,
    AclPermission.DENY,
    pattern=AclPatternType.PREFIXED,
)


@pytest.fixture(scope="module")
def guarded():
    with DevBroker(super_users=["ANONYMOUS"]) as broker, klamm.Admin(broker.bootstrap_servers) as admin:
        yield admin


def test_rules_are_created_found_and_deleted(guarded):
    guarded.create_acls([READ, PREFIX])
    assert guarded.describe_acls() == [READ, PREFIX]
    assert guarded.describe_acls(AclFilter(AclResource.GROUP)) == [PREFIX]
    assert guarded.describe_acls(AclFilter(AclResource.GROUP, "g1", pattern=AclPatternType.MATCH)) == [PREFIX]
    everyone = AclFilter(principal="User:nobody")
    assert guarded.delete_acls([READ, everyone]) == {READ: [READ], everyone: []}
    assert guarded.delete_acls([AclFilter()]) == {AclFilter(): [PREFIX]}


def test_one_bad_rule_does_not_stop_the_others(guarded):
    bad = AclBinding(AclResource.TOPIC, "", "User:alice", AclOperation.READ)
    with pytest.raises(InvalidRequestError, match="TOPIC ''") as caught:
        guarded.create_acls([bad, READ])
    assert list(caught.value.results) == [READ]
    assert guarded.delete_acls([READ]) == {READ: [READ]}


def test_without_an_authorizer_each_rule_says_so():
    with DevBroker() as broker, klamm.Admin(broker.bootstrap_servers) as admin:
        with pytest.raises(SecurityDisabledError):
            admin.describe_acls()
        with pytest.raises(CombinedError) as caught:
            admin.create_acls([READ, PREFIX])
        assert list(caught.value.errors) == [READ, PREFIX]


def test_brokers_before_2_0_have_only_literal_names():
    with (
        DevBroker(as_version="1.1", super_users=["ANONYMOUS"]) as broker,
        klamm.Admin(broker.bootstrap_servers) as admin,
    ):
        admin.create_acls([READ])
        assert admin.describe_acls() == [READ]
        with pytest.raises(UnsupportedVersionError, match=r"Kafka 2\.0"):
            admin.create_acls([PREFIX])
        assert admin.delete_acls([AclFilter()]) == {AclFilter(): [READ]}


def test_something_else_is_no_rule(guarded):
    with pytest.raises(ArgumentError, match="AclBinding"):
        guarded.create_acls(["orders"])
