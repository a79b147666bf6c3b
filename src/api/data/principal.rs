//! The principal of a client. A broker forwards the principal to the controller in an Envelope (KIP-590). An int16
//! version precedes the principal.

message! {
    struct Principal {
        r#type: String,
        name: String,
        /// Whether the client authenticated with a delegation token.
        token_authenticated: bool,
    }
}
structure! { data DefaultPrincipalData: Principal, 0..=0, flexible 0 }
