//! What tests give a client's network, unless they are about one of these.

use klamm::engine::NetworkConfig;
use klamm::engine::sasl::Nonces;
use std::time::Duration;

/// A network that begins at an address.
pub fn network_config(host: &str, port: u16) -> NetworkConfig {
    NetworkConfig {
        bootstrap: vec![(host.to_owned(), port)],
        client_id: "test".to_owned(),
        request_timeout: Duration::from_secs(30),
        setup_timeout: Duration::from_secs(10),
        reconnect_backoff: (Duration::from_millis(50), Duration::from_secs(1)),
        retry_backoff: (Duration::from_millis(100), Duration::from_secs(1)),
        metadata_max_age: Duration::from_secs(300),
        allow_auto_topic_creation: true,
        max_frame: 1 << 20,
        seed: 1,
        versions_timeout: Duration::from_secs(1),
        version_fallback: None,
        credentials: None,
        nonces: Nonces::new([0; 32]),
    }
}
