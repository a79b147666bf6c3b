//! Access control lists (KIP-11). Like Kafka's StandardAuthorizer, the authorizer evaluates the rules that CreateAcls
//! adds.
//!
//! ```text
//! super user            allowed, without regard to the rules
//! a rule denies         denied
//! a rule allows         allowed; read, write, delete and alter each include describe
//! other rules only      denied
//! no rule at all        denied, unless `allow.everyone.if.no.acl.found`
//! ```
//!
//! A principal is `User:` followed by the SASL user, the subject of the client's certificate, or ANONYMOUS. The host of
//! a client is always 127.0.0.1. Without an authorizer, the broker allows every operation.

use crate::api::ErrorCode;
use crate::api::describe_configs::{GROUP, TOPIC};
use std::collections::BTreeSet;

/// Matches any name, principal or host.
const WILDCARD: &str = "*";
const EVERYBODY: &str = "User:*";
/// The host of all clients. Nodes listen only on this address.
const HOST: &str = "127.0.0.1";
/// The only name of a cluster resource.
pub(super) const CLUSTER: &str = "kafka-cluster";

/// Kafka's error message if no authorizer is configured.
pub(super) const NO_AUTHORIZER: &str = "No Authorizer is configured.";

/// Memory for a rule, without its strings.
const RULE_MEMORY: usize = 128;

/// Settings of the authorizer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acls {
    /// Principals that may do everything, such as `User:admin`.
    pub super_users: BTreeSet<String>,
    /// Whether every principal may access a resource without rules: Kafka's `allow.everyone.if.no.acl.found`.
    pub allow_everyone_if_no_acl_found: bool,
}

/// Declares an enum with Kafka's numbers for its values.
macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident { $($value:ident = $number:literal $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(i8)]
        pub(super) enum $name { $($value = $number,)* }

        impl $name {
            pub fn from_number(number: i8) -> Option<Self> {
                match number { $($number => Some(Self::$value),)* _ => None }
            }

            pub fn number(self) -> i8 {
                self as i8
            }

            /// Returns Kafka's name for a number, for error messages.
            pub fn text(number: i8) -> &'static str {
                match number { 1 => "ANY", $($number => $text,)* _ => "UNKNOWN" }
            }
        }
    };
}

numbered! {
    /// Type of the resource of a rule.
    ResourceType {
        Topic = 2 "TOPIC",
        Group = 3 "GROUP",
        Cluster = 4 "CLUSTER",
        TransactionalId = 5 "TRANSACTIONAL_ID",
        DelegationToken = 6 "DELEGATION_TOKEN",
        User = 7 "USER",
    }
}

numbered! {
    /// How a rule's name matches resource names.
    Pattern {
        Literal = 3 "LITERAL",
        Prefixed = 4 "PREFIXED",
    }
}

numbered! {
    Operation {
        All = 2 "ALL",
        Read = 3 "READ",
        Write = 4 "WRITE",
        Create = 5 "CREATE",
        Delete = 6 "DELETE",
        Alter = 7 "ALTER",
        Describe = 8 "DESCRIBE",
        ClusterAction = 9 "CLUSTER_ACTION",
        DescribeConfigs = 10 "DESCRIBE_CONFIGS",
        AlterConfigs = 11 "ALTER_CONFIGS",
        IdempotentWrite = 12 "IDEMPOTENT_WRITE",
        CreateTokens = 13 "CREATE_TOKENS",
        DescribeTokens = 14 "DESCRIBE_TOKENS",
        TwoPhaseCommit = 15 "TWO_PHASE_COMMIT",
    }
}

numbered! {
    /// Whether a rule allows or denies the operation.
    Permission {
        Deny = 2 "DENY",
        Allow = 3 "ALLOW",
    }
}

impl Operation {
    /// Returns whether a rule that allows this operation also allows the operation `other`.
    fn implies(self, other: Self) -> bool {
        match other {
            _ if self == Self::All || self == other => true,
            Self::Describe => matches!(self, Self::Read | Self::Write | Self::Delete | Self::Alter),
            Self::DescribeConfigs => self == Self::AlterConfigs,
            _ => false,
        }
    }

    pub fn bit(self) -> i32 {
        1 << self.number()
    }
}

/// A resource that an operation applies to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Resource<'a> {
    Topic(&'a str),
    Group(&'a str),
    TransactionalId(&'a str),
    Cluster,
    DelegationToken(&'a str),
    /// A principal, with its type.
    User(&'a str),
}

impl<'a> Resource<'a> {
    /// Returns the resource to which a type and a name in the configuration APIs refer.
    pub fn of_configs(resource_type: i8, name: &'a str) -> Self {
        match resource_type {
            TOPIC => Self::Topic(name),
            GROUP => Self::Group(name),
            _ => Self::Cluster,
        }
    }

    fn kind(self) -> ResourceType {
        match self {
            Self::Topic(_) => ResourceType::Topic,
            Self::Group(_) => ResourceType::Group,
            Self::TransactionalId(_) => ResourceType::TransactionalId,
            Self::Cluster => ResourceType::Cluster,
            Self::DelegationToken(_) => ResourceType::DelegationToken,
            Self::User(_) => ResourceType::User,
        }
    }

    fn name(self) -> &'a str {
        match self {
            Self::Topic(name)
            | Self::Group(name)
            | Self::TransactionalId(name)
            | Self::DelegationToken(name)
            | Self::User(name) => name,
            Self::Cluster => CLUSTER,
        }
    }

    /// Returns the error code for an operation that is not allowed.
    pub fn authorization_error(self) -> ErrorCode {
        match self {
            Self::Topic(_) => ErrorCode::TOPIC_AUTHORIZATION_FAILED,
            Self::Group(_) => ErrorCode::GROUP_AUTHORIZATION_FAILED,
            Self::TransactionalId(_) => ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            Self::Cluster => ErrorCode::CLUSTER_AUTHORIZATION_FAILED,
            Self::DelegationToken(_) | Self::User(_) => ErrorCode::DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        }
    }

    /// Returns the operations that the resource has.
    pub fn operations(self) -> &'static [Operation] {
        use Operation::{Alter, AlterConfigs, ClusterAction, Create, CreateTokens, Delete, Describe, DescribeConfigs};
        use Operation::{DescribeTokens, IdempotentWrite, Read, TwoPhaseCommit, Write};
        match self {
            Self::Topic(_) => &[Read, Write, Create, Describe, Delete, Alter, DescribeConfigs, AlterConfigs],
            Self::Group(_) => &[Read, Describe, Delete, DescribeConfigs, AlterConfigs],
            Self::TransactionalId(_) => &[Describe, Write, TwoPhaseCommit],
            Self::Cluster => &[Create, ClusterAction, DescribeConfigs, AlterConfigs, IdempotentWrite, Alter, Describe],
            Self::DelegationToken(_) => &[Describe],
            Self::User(_) => &[CreateTokens, DescribeTokens],
        }
    }
}

/// An access rule, which allows or denies a principal an operation on resources.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rule {
    pub kind: ResourceType,
    pub pattern: Pattern,
    pub name: String,
    pub principal: String,
    pub host: String,
    pub operation: Operation,
    pub permission: Permission,
}

impl Rule {
    pub fn memory_size(&self) -> usize {
        RULE_MEMORY + self.name.len() + self.principal.len() + self.host.len()
    }

    fn is_about(&self, resource: Resource<'_>) -> bool {
        self.kind == resource.kind() && covers(self.pattern, &self.name, resource.name())
    }

    fn is_for(&self, principal: &str) -> bool {
        [EVERYBODY, principal].contains(&self.principal.as_str()) && [WILDCARD, HOST].contains(&self.host.as_str())
    }

    fn judges(&self, operation: Operation) -> bool {
        match self.permission {
            Permission::Allow => self.operation.implies(operation),
            Permission::Deny => [Operation::All, operation].contains(&self.operation),
        }
    }
}

fn covers(pattern: Pattern, name: &str, other: &str) -> bool {
    match pattern {
        Pattern::Literal => name == WILDCARD || name == other,
        Pattern::Prefixed => other.starts_with(name),
    }
}

/// Selects rules. A field that is `None` matches any rule.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    pub kind: Option<ResourceType>,
    pub name: Option<String>,
    pub names: NameMatch,
    pub principal: Option<String>,
    pub host: Option<String>,
    pub operation: Option<Operation>,
    pub permission: Option<Permission>,
}

/// How the name of a filter matches rules.
#[derive(Clone, Copy, Debug)]
pub(super) enum NameMatch {
    /// The rule has this name, with any pattern type.
    Any,
    /// The rule applies to a resource of this name.
    Match,
    /// The rule has this name and this pattern type.
    Of(Pattern),
}

impl NameMatch {
    pub fn from_number(number: i8) -> Option<Self> {
        match number {
            1 => Some(Self::Any),
            2 => Some(Self::Match),
            number => Pattern::from_number(number).map(Self::Of),
        }
    }
}

impl Filter {
    pub fn fits(&self, rule: &Rule) -> bool {
        let is_named = |name: &String| match self.names {
            NameMatch::Match => covers(rule.pattern, &rule.name, name),
            NameMatch::Any | NameMatch::Of(_) => rule.name == *name,
        };
        let has_pattern = !matches!(self.names, NameMatch::Of(pattern) if pattern != rule.pattern);
        has_pattern
            && self.kind.is_none_or(|kind| kind == rule.kind)
            && self.name.as_ref().is_none_or(is_named)
            && self.principal.as_ref().is_none_or(|principal| *principal == rule.principal)
            && self.host.as_ref().is_none_or(|host| *host == rule.host)
            && self.operation.is_none_or(|operation| operation == rule.operation)
            && self.permission.is_none_or(|permission| permission == rule.permission)
    }
}

#[derive(Debug)]
pub(super) struct Authorizer {
    acls: Acls,
    pub rules: BTreeSet<Rule>,
}

impl Authorizer {
    pub fn new(acls: Acls) -> Self {
        Self { acls, rules: BTreeSet::new() }
    }

    pub fn allows(&self, principal: &str, operation: Operation, resource: Resource<'_>) -> bool {
        if self.acls.super_users.contains(principal) {
            return true;
        }
        let (mut is_known, mut is_allowed) = (false, false);
        for rule in self.rules.iter().filter(|rule| rule.is_about(resource)) {
            is_known = true;
            if rule.is_for(principal) && rule.judges(operation) {
                match rule.permission {
                    Permission::Deny => return false,
                    Permission::Allow => is_allowed = true,
                }
            }
        }
        is_allowed || !is_known && self.acls.allow_everyone_if_no_acl_found
    }

    /// Returns whether the principal may be able to write to at least one topic: a rule allows writing, and no rule
    /// that is at least as wide denies it.
    pub fn may_write_somewhere(&self, principal: &str) -> bool {
        // Kafka tests a name that no topic has, so that super users pass.
        if self.allows(principal, Operation::Write, Resource::Topic("hardcode")) {
            return true;
        }
        let rules = || {
            let judges = |rule: &&Rule| [Operation::All, Operation::Write].contains(&rule.operation);
            self.rules.iter().filter(|rule| rule.kind == ResourceType::Topic && rule.is_for(principal)).filter(judges)
        };
        let denied = |name: &str, pattern: Pattern| {
            rules().filter(|rule| rule.permission == Permission::Deny).any(|rule| match (rule.pattern, pattern) {
                (Pattern::Literal, Pattern::Prefixed) => rule.name == WILDCARD,
                (rules, _) => covers(rules, &rule.name, name),
            })
        };
        rules().any(|rule| rule.permission == Permission::Allow && !denied(&rule.name, rule.pattern))
    }
}
