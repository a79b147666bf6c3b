//! Who may do what (KIP-11): the rules that CreateAcls made, judged as by Kafka's StandardAuthorizer.
//!
//! ```text
//! super user            allowed, whatever the rules say
//! a rule denies         denied
//! a rule allows         allowed; whoever may read, write, delete or alter may describe, too
//! rules, for others     denied
//! no rule at all        denied, unless `allow.everyone.if.no.acl.found`
//! ```
//!
//! A principal is `User:` and the name of a login, that of a client's certificate, or ANONYMOUS. Everybody comes from
//! 127.0.0.1. Without an authorizer everything is allowed.

use super::Connection;
use super::handlers::Context;
use super::journal::Entry;
use super::state::State;
use crate::api::ErrorCode;
use crate::api::describe_configs::{GROUP, TOPIC};
use crate::wire::Uuid;
use std::collections::BTreeSet;

/// Applies to any name, principal or host.
const WILDCARD: &str = "*";
const EVERYBODY: &str = "User:*";
/// Where clients are: nodes listen on no other address.
const HOST: &str = "127.0.0.1";
/// The one name that a cluster has as a resource.
pub(super) const CLUSTER: &str = "kafka-cluster";

/// What keeping a rule takes besides its texts.
const RULE: usize = 128;

/// Who is asked before anything is done, and what was said of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acls {
    /// Principals that may do everything, as `User:admin`.
    pub super_users: BTreeSet<String>,
    /// Whether what no rule speaks of is allowed to all: Kafka's `allow.everyone.if.no.acl.found`.
    pub allow_everyone_if_no_acl_found: bool,
}

/// Declares an enum by the numbers that Kafka gives its values.
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

            /// Kafka's name for a number, for errors.
            pub fn text(number: i8) -> &'static str {
                match number { 1 => "ANY", $($number => $text,)* _ => "UNKNOWN" }
            }
        }
    };
}

numbered! {
    /// What kind of thing a rule is about.
    Kind {
        Topic = 2 "TOPIC",
        Group = 3 "GROUP",
        Cluster = 4 "CLUSTER",
        TransactionalId = 5 "TRANSACTIONAL_ID",
        DelegationToken = 6 "DELEGATION_TOKEN",
        User = 7 "USER",
    }
}

numbered! {
    /// Which names of a kind a rule is about.
    Pattern {
        Literal = 3 "LITERAL",
        Prefixed = 4 "PREFIXED",
    }
}

numbered! {
    /// What somebody wants to do.
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
    /// What a rule says.
    Permission {
        Deny = 2 "DENY",
        Allow = 3 "ALLOW",
    }
}

impl Operation {
    /// Whether who is allowed this may do that.
    fn implies(self, other: Self) -> bool {
        match other {
            _ if self == Self::All || self == other => true,
            Self::Describe => matches!(self, Self::Read | Self::Write | Self::Delete | Self::Alter),
            Self::DescribeConfigs => self == Self::AlterConfigs,
            _ => false,
        }
    }

    fn bit(self) -> i32 {
        1 << self.number()
    }
}

/// Something that somebody wants to do something with.
#[derive(Clone, Copy, Debug)]
pub(super) enum Resource<'a> {
    Topic(&'a str),
    Group(&'a str),
    TransactionalId(&'a str),
    Cluster,
}

impl<'a> Resource<'a> {
    /// What the APIs of configurations mean by a number and a name.
    pub fn of_configs(resource_type: i8, name: &'a str) -> Self {
        match resource_type {
            TOPIC => Self::Topic(name),
            GROUP => Self::Group(name),
            _ => Self::Cluster,
        }
    }

    fn kind(self) -> Kind {
        match self {
            Self::Topic(_) => Kind::Topic,
            Self::Group(_) => Kind::Group,
            Self::TransactionalId(_) => Kind::TransactionalId,
            Self::Cluster => Kind::Cluster,
        }
    }

    fn name(self) -> &'a str {
        match self {
            Self::Topic(name) | Self::Group(name) | Self::TransactionalId(name) => name,
            Self::Cluster => CLUSTER,
        }
    }

    /// What who may not is told.
    fn refusal(self) -> ErrorCode {
        match self {
            Self::Topic(_) => ErrorCode::TOPIC_AUTHORIZATION_FAILED,
            Self::Group(_) => ErrorCode::GROUP_AUTHORIZATION_FAILED,
            Self::TransactionalId(_) => ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            Self::Cluster => ErrorCode::CLUSTER_AUTHORIZATION_FAILED,
        }
    }

    /// What can be done with it at all.
    fn operations(self) -> &'static [Operation] {
        use Operation::{Alter, AlterConfigs, ClusterAction, Create, Delete, Describe, DescribeConfigs};
        use Operation::{IdempotentWrite, Read, TwoPhaseCommit, Write};
        match self {
            Self::Topic(_) => &[Read, Write, Create, Describe, Delete, Alter, DescribeConfigs, AlterConfigs],
            Self::Group(_) => &[Read, Describe, Delete, DescribeConfigs, AlterConfigs],
            Self::TransactionalId(_) => &[Describe, Write, TwoPhaseCommit],
            Self::Cluster => &[Create, ClusterAction, DescribeConfigs, AlterConfigs, IdempotentWrite, Alter, Describe],
        }
    }
}

/// That somebody may, or may not, do something with some resources.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rule {
    pub kind: Kind,
    pub pattern: Pattern,
    pub name: String,
    pub principal: String,
    pub host: String,
    pub operation: Operation,
    pub permission: Permission,
}

impl Rule {
    pub fn cost(&self) -> usize {
        RULE + self.name.len() + self.principal.len() + self.host.len()
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

/// Which rules somebody asks for; what is left out fits all.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    pub kind: Option<Kind>,
    pub name: Option<String>,
    pub names: Names,
    pub principal: Option<String>,
    pub host: Option<String>,
    pub operation: Option<Operation>,
    pub permission: Option<Permission>,
}

/// How the name of a filter is meant.
#[derive(Clone, Copy, Debug)]
pub(super) enum Names {
    /// As that of a rule, of whatever pattern.
    Any,
    /// As that of something that rules apply to.
    Match,
    /// As that of a rule of this pattern.
    Of(Pattern),
}

impl Names {
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
            Names::Match => covers(rule.pattern, &rule.name, name),
            Names::Any | Names::Of(_) => rule.name == *name,
        };
        let has_pattern = !matches!(self.names, Names::Of(pattern) if pattern != rule.pattern);
        has_pattern
            && self.kind.is_none_or(|kind| kind == rule.kind)
            && self.name.as_ref().is_none_or(is_named)
            && self.principal.as_ref().is_none_or(|principal| *principal == rule.principal)
            && self.host.as_ref().is_none_or(|host| *host == rule.host)
            && self.operation.is_none_or(|operation| operation == rule.operation)
            && self.permission.is_none_or(|permission| permission == rule.permission)
    }
}

/// See the top of this file.
#[derive(Debug)]
pub(super) struct Authorizer {
    acls: Acls,
    pub rules: BTreeSet<Rule>,
}

impl Authorizer {
    pub fn new(acls: Acls) -> Self {
        Self { acls, rules: BTreeSet::new() }
    }

    fn allows(&self, principal: &str, operation: Operation, resource: Resource<'_>) -> bool {
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

    /// Whether there may be a topic that a principal may write to: a rule allows it, and none that denies it is as wide.
    fn may_write_somewhere(&self, principal: &str) -> bool {
        // Kafka looks at a name that nobody has, so that super users pass.
        if self.allows(principal, Operation::Write, Resource::Topic("hardcode")) {
            return true;
        }
        let rules = || {
            let judges = |rule: &&Rule| [Operation::All, Operation::Write].contains(&rule.operation);
            self.rules.iter().filter(|rule| rule.kind == Kind::Topic && rule.is_for(principal)).filter(judges)
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

impl State {
    /// Adds a rule, unless it is there; false if there is no memory.
    pub fn add_rule(&mut self, rule: Rule) -> bool {
        let Self { authorizer: Some(authorizer), memory, journal, .. } = self else { return false };
        if authorizer.rules.contains(&rule) {
            return true;
        }
        let has_room = memory.take(rule.cost());
        if has_room {
            journal.note(|| Entry::rule(&rule, true));
            authorizer.rules.insert(rule);
        }
        has_room
    }

    /// Takes away the rules that a filter lets through.
    pub fn take_rules(&mut self, filter: &Filter) -> Vec<Rule> {
        let Self { authorizer: Some(authorizer), memory, journal, .. } = self else { return Vec::new() };
        let taken: Vec<_> = authorizer.rules.extract_if(.., |rule| filter.fits(rule)).collect();
        for rule in &taken {
            memory.give(rule.cost());
            journal.note(|| Entry::rule(rule, false));
        }
        taken
    }

    /// Does again what a journal says of a rule.
    pub fn redo_rule(&mut self, rule: Rule, is_there: bool) {
        let Self { authorizer: Some(authorizer), memory, .. } = self else { return };
        let cost = rule.cost();
        if is_there && authorizer.rules.insert(rule.clone()) {
            memory.charge(cost);
        }
        if !is_there && authorizer.rules.remove(&rule) {
            memory.give(cost);
        }
    }

    /// Who is at the other end of a connection.
    pub fn principal(&self, connection: Connection) -> String {
        let login = self.door.as_ref().and_then(|door| door.user(connection));
        let name = login.or_else(|| self.certified.get(&connection).map(String::as_str));
        format!("User:{}", name.unwrap_or("ANONYMOUS"))
    }

    /// Whether a client may do something.
    pub fn allows(&self, context: &Context, operation: Operation, resource: Resource<'_>) -> bool {
        let Some(authorizer) = &self.authorizer else { return true };
        authorizer.allows(&self.principal(context.connection), operation, resource)
    }

    /// The same, with what is answered if it may not.
    pub fn check(&self, context: &Context, operation: Operation, resource: Resource<'_>) -> Result<(), ErrorCode> {
        if self.allows(context, operation, resource) { Ok(()) } else { Err(resource.refusal()) }
    }

    /// The same of a topic that a request names, or gives the id of; there may be none of it.
    pub fn check_topic(&self, context: &Context, operation: Operation, name: &str, id: Uuid) -> Result<(), ErrorCode> {
        let name = if id.is_zero() { Some(name) } else { self.topics.name_of(id) };
        name.map_or(Ok(()), |name| self.check(context, operation, Resource::Topic(name)))
    }

    /// Whether a client may write to any topic.
    pub fn may_write_somewhere(&self, context: &Context) -> bool {
        let Some(authorizer) = &self.authorizer else { return true };
        authorizer.may_write_somewhere(&self.principal(context.connection))
    }

    /// All that a client may do, a bit for each operation by its number.
    pub fn operations(&self, context: &Context, resource: Resource<'_>) -> i32 {
        let allowed = resource.operations().iter().filter(|operation| self.allows(context, **operation, resource));
        allowed.fold(0, |bits, operation| bits | operation.bit())
    }

    /// The same if it was asked for, and Kafka's word for nothing otherwise.
    pub fn operations_if(&self, wanted: bool, context: &Context, resource: Resource<'_>) -> i32 {
        if wanted { self.operations(context, resource) } else { i32::MIN }
    }

    /// That of the cluster: who may not describe it may do nothing with it.
    pub fn cluster_operations_if(&self, wanted: bool, context: &Context) -> i32 {
        match wanted && !self.allows(context, Operation::Describe, Resource::Cluster) {
            true => 0,
            false => self.operations_if(wanted, context, Resource::Cluster),
        }
    }
}
