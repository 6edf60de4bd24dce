//! The pod that answers for every endpoint: with the address that was reached, then with an echo.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;

use crate::cluster::udp_services;
use crate::endpoints::POSSIBLE;
use crate::stage::endpoint_address;

/// Runs in the pod's namespace, in the background.
pub(crate) fn serve(port: u16) {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).expect("the port is free");
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            thread::spawn(|| answer(connection));
        }
    });
    for address in udp_services().flat_map(|number| (0..POSSIBLE).map(move |index| endpoint_address(number, index))) {
        let socket = UdpSocket::bind((address, port)).expect("the pod owns the address");
        thread::spawn(move || echo_datagrams(&socket, address));
    }
}

fn answer(mut connection: TcpStream) -> Option<()> {
    let SocketAddr::V4(address) = connection.local_addr().ok()? else { return None };
    connection.write_all(&address.ip().octets()).ok()?;
    let mut byte = [0];
    while connection.read_exact(&mut byte).is_ok() {
        connection.write_all(&byte).ok()?;
    }
    Some(())
}

fn echo_datagrams(socket: &UdpSocket, address: Ipv4Addr) {
    let mut buffer = [0; 64];
    while let Ok((_, client)) = socket.recv_from(&mut buffer) {
        _ = socket.send_to(&address.octets(), client);
    }
}
