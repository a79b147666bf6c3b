//! ConsumerGroupDescribe v0 and v1: describes KIP-848 groups and their members.

use crate::api::ErrorCode;
use crate::api::consumer_group_describe::{Group, Member, Request, Response};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::group;
use crate::broker::request::{ApiError, Context, HandlerResult};
use crate::broker::state::State;

describe_groups!("consumer", Consumer, |group: &group::consumer::Group| group.assignor().name());
