//! Who sent a request, in the form in which a broker forwards it to the controller inside an Envelope (KIP-590). An
//! int16 version comes before it.

message! {
    struct Principal {
        r#type: String,
        name: String,
        /// Whether a delegation token was what proved it.
        token_authenticated: bool,
    }
}
structure! { data DefaultPrincipalData: Principal, 0..=0, flexible 0 }
