//! ShareGroupDescribe v0 and v1: describes share groups and their members.

use crate::api::ErrorCode;
use crate::api::share_group_describe::{Group, Member, Request, Response};
use crate::broker::authorizer::{Operation, Resource};
use crate::broker::group;
use crate::broker::request::{ApiError, Context, HandlerResult};
use crate::broker::state::State;

describe_groups!("share", Share, |_| "simple");
