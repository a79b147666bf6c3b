//! Tests the server over real sockets.

use super::{batch, fetch_request, frame, produce_request, record, response, values};
use bytes::Bytes;
use klamm::api::*;
use klamm::broker::{Action, Broker, Fault, Options};
use klamm::record::Producer;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

fn read_frame(stream: &mut TcpStream) -> std::io::Result<Bytes> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame)?;
    Ok([length.to_vec(), frame].concat().into())
}

fn ask<R: Request>(stream: &mut TcpStream, version: i16, request: &R) -> R::Response {
    let frame = frame(R::API, version, 1, &encode(version, request).unwrap());
    stream.write_all(&[&(frame.len() as u32).to_be_bytes(), &frame[..]].concat()).unwrap();
    response::<R>(version, read_frame(stream).unwrap()).1
}

fn connect(broker: &Broker, node: usize) -> TcpStream {
    let stream = TcpStream::connect(broker.addresses()[node]).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

#[test]
fn a_cluster_starts_answers_and_stops() {
    let mut broker = Broker::start(Options { nodes: 3, ..Options::default() }).unwrap();
    let mut clients: Vec<_> = (0..3).map(|node| connect(&broker, node)).collect();
    let ports: Vec<_> = broker.addresses().iter().map(|a| i32::from(a.port())).collect();
    for client in &mut clients {
        let answer = ask(client, 12, &metadata::Request::default());
        assert_eq!(answer.brokers.iter().map(|b| b.port).collect::<Vec<_>>(), ports);
    }
    broker.stop();
    assert_eq!(clients[0].read(&mut [0]).unwrap(), 0);
    let refused = TcpStream::connect(broker.addresses()[0]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    broker.stop();
}

#[test]
fn requests_before_the_end_of_a_connection_are_handled() {
    let broker = Broker::start(Options::default()).unwrap();
    for _ in 0..50 {
        let mut client = connect(&broker, 0);
        let frame = frame(&metadata::API, 12, 1, &encode(12, &metadata::Request::default()).unwrap());
        client.write_all(&[&(frame.len() as u32).to_be_bytes(), &frame[..]].concat()).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let answer = response::<metadata::Request>(12, read_frame(&mut client).unwrap()).1;
        assert_eq!(answer.brokers.len(), 1);
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
    }
}

#[test]
fn large_replies_arrive_whole_through_a_small_window() {
    let broker = Broker::start(Options::default()).unwrap();
    let mut client = connect(&broker, 0);
    let named = metadata::TopicRequest { name: Some("t".to_owned()), ..Default::default() };
    ask(&mut client, 12, &metadata::Request { topics: Some(vec![named]), ..Default::default() });
    let value = "x".repeat(900_000);
    for offset in 0..20 {
        let answer = ask(&mut client, 12, &produce_request("t", batch(&[&value], Producer::NONE)));
        assert_eq!(answer.responses[0].partition_responses[0].base_offset, offset);
    }
    // Twenty fetches at once. The client reads after it has sent all of them.
    let mut request = fetch_request(0);
    request.topics[0].partitions[0].partition_max_bytes = i32::MAX;
    let frame = frame(&fetch::API, 12, 1, &encode(12, &request).unwrap());
    let frame = [&(frame.len() as u32).to_be_bytes(), &frame[..]].concat();
    client.write_all(&frame.repeat(20)).unwrap();
    for _ in 0..20 {
        let answer = response::<fetch::Request>(12, read_frame(&mut client).unwrap()).1;
        let offsets: Vec<_> = values(&answer.responses[0].partitions[0].records).iter().map(|r| r.0).collect();
        assert!(!offsets.is_empty() && offsets.iter().zip(0..).all(|(a, b)| *a == b));
    }
}

#[test]
fn a_long_poll_is_answered_over_a_socket_by_another_connection_and_by_time() {
    let broker = Broker::start(Options::default()).unwrap();
    let (mut reader, mut writer) = (connect(&broker, 0), connect(&broker, 0));
    let named = metadata::TopicRequest { name: Some("t".to_owned()), ..Default::default() };
    ask(&mut writer, 12, &metadata::Request { topics: Some(vec![named]), ..Default::default() });
    let wait = fetch::Request { max_wait_ms: 60_000, ..fetch_request(0) };
    let frame = frame(&fetch::API, 12, 1, &encode(12, &wait).unwrap());
    reader.write_all(&[&(frame.len() as u32).to_be_bytes(), &frame[..]].concat()).unwrap();
    ask(&mut writer, 12, &produce_request("t", batch(&["a"], Producer::NONE)));
    let answer = response::<fetch::Request>(12, read_frame(&mut reader).unwrap()).1;
    assert_eq!(values(&answer.responses[0].partitions[0].records), [record(0, "a")]);
    let answer = ask(&mut reader, 12, &fetch::Request { max_wait_ms: 20, ..fetch_request(1) });
    assert_eq!(values(&answer.responses[0].partitions[0].records), []);
}

#[test]
fn a_frame_too_long_or_malformed_closes_the_socket() {
    let broker = Broker::start(Options::default()).unwrap();
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &(101u32 << 20).to_be_bytes(), &[0, 0, 0, 1, 9]] {
        let mut client = connect(&broker, 0);
        client.write_all(bytes).unwrap();
        // The kernel resets the connection if it still holds unread bytes.
        assert!(matches!(client.read(&mut [0]), Ok(0) | Err(_)));
    }
    ask(&mut connect(&broker, 0), 12, &metadata::Request::default());
}

#[test]
fn a_port_in_use_is_an_error_that_names_it() {
    let broker = Broker::start(Options::default()).unwrap();
    let port = broker.addresses()[0].port();
    let error = Broker::start(Options { port, ..Options::default() }).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    assert!(error.to_string().contains(&port.to_string()));
}

#[test]
fn a_killed_node_refuses_connections_and_returns_on_its_port() {
    let broker = Broker::start(Options { nodes: 2, ..Options::default() }).unwrap();
    let control = broker.control();
    let (mut first, mut second) = (connect(&broker, 0), connect(&broker, 1));
    ask(&mut second, 12, &metadata::Request::default());
    control.kill(2).unwrap();
    assert!(second.read(&mut [0]).is_ok_and(|n| n == 0) || second.read(&mut [0]).is_err());
    let refused = TcpStream::connect(broker.addresses()[1]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    assert_eq!(ask(&mut first, 12, &metadata::Request::default()).brokers.len(), 1);
    for refused in [control.kill(2), control.kill(7), control.start_node(7)] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    control.start_node(2).unwrap();
    control.start_node(2).unwrap();
    assert_eq!(ask(&mut connect(&broker, 1), 12, &metadata::Request::default()).brokers.len(), 2);
    assert_eq!(control.add_node().unwrap(), 3);
    assert_eq!(ask(&mut connect(&broker, 2), 12, &metadata::Request::default()).brokers.len(), 3);
}

#[test]
fn the_clock_advances_and_the_handle_outlives_the_cluster() {
    let mut broker = Broker::start(Options::default()).unwrap();
    let control = broker.control().clone();
    let mut client = connect(&broker, 0);
    let action = Action::Delay(Duration::from_secs(3600));
    control.fault(Fault { times: Some(1), ..Fault::always(action) }).unwrap();
    let request = frame(&metadata::API, 12, 1, &encode(12, &metadata::Request::default()).unwrap());
    client.write_all(&[&(request.len() as u32).to_be_bytes(), &request[..]].concat()).unwrap();
    while control.requests().unwrap().is_empty() {}
    control.advance(Duration::from_secs(3600)).unwrap();
    assert_eq!(response::<metadata::Request>(12, read_frame(&mut client).unwrap()).0, 1);
    // The thread sees a command even if it arrives at the very end of a turn.
    (0..10_000).for_each(|_| control.clear_faults().unwrap());
    broker.stop();
    assert_eq!(control.clear_faults().unwrap_err().kind(), ErrorKind::NotConnected);
}
