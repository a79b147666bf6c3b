//! Delegation tokens: decides which connections may use the token APIs, and records changes of tokens in the journal.

use super::State;
use crate::api::ErrorCode;
use crate::broker::clock::Clock;
use crate::broker::ids::Connection;
use crate::broker::journal::Entry;
use crate::broker::request::Context;
use crate::broker::tokens::{Principal, Token, USER};

impl State {
    /// Returns the user of a connection that may use the token APIs. As in Kafka, the client must have authenticated,
    /// but not with a token.
    pub fn token_user(&self, connection: Connection) -> Option<Principal> {
        let has_token = self.authenticator.as_ref().is_some_and(|login| login.has_token(connection));
        self.user(connection).filter(|_| !has_token).map(|name| Principal::new(USER, name))
    }

    /// Returns the user of a request, and a copy of the token with this HMAC.
    pub fn find_token(&mut self, context: &Context, hmac: &[u8]) -> Result<(Principal, Token), ErrorCode> {
        let user = self.token_user(context.connection).ok_or(ErrorCode::DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)?;
        if !self.tokens.are_enabled() {
            return Err(ErrorCode::DELEGATION_TOKEN_AUTH_DISABLED);
        }
        self.expire_tokens(context.clock);
        let token = self.tokens.with_hmac(hmac).ok_or(ErrorCode::DELEGATION_TOKEN_NOT_FOUND)?;
        Ok((user, token.clone()))
    }

    /// Returns the time in milliseconds after which a token expires if no client renews it.
    pub fn token_expiry_ms(&self) -> i64 {
        self.node_configs.number("delegation.token.expiry.time.ms").unwrap_or(0)
    }

    /// Adds or replaces a token. Returns false if the memory limit is reached.
    pub fn set_token(&mut self, token: Token) -> bool {
        let is_known = self.tokens.get(&token.id).is_some();
        if !is_known && !self.memory.try_reserve(token.memory_size()) {
            return false;
        }
        self.journal.append(|| Entry::Token(token.clone()));
        self.tokens.set(token);
        true
    }

    pub fn remove_token(&mut self, id: &str) {
        if let Some(token) = self.tokens.remove(id) {
            self.memory.release(token.memory_size());
            self.journal.append(|| Entry::token_gone(id));
        }
    }

    /// Replays a token from a journal.
    pub fn replay_token(&mut self, token: Token) {
        let memory_size = token.memory_size();
        if self.tokens.set(token).is_none() {
            self.memory.reserve(memory_size);
        }
    }

    /// Removes the tokens that had expired at the time of the last periodic check.
    pub fn expire_tokens(&mut self, clock: Clock) {
        for id in self.tokens.expired(clock) {
            self.remove_token(&id);
        }
    }
}
