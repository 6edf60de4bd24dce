//! What the hooks pass on.

use super::entries::{APART, TCP};
use super::lab::{Lab, ask_tcp, serve_tcp};

const FRONTEND: &str = "10.96.0.1:80";
const ENDPOINT: &str = "127.0.1.1:8080";

/// The namespace has no route, so that what is passed on ends here.
fn is_passed_on() -> bool {
    ask_tcp(FRONTEND).is_err_and(|it| it.raw_os_error() == Some(libc::ENETUNREACH))
}

fn with_service(constants: &[(&str, u64)]) -> Lab {
    let lab = Lab::in_pod_with(constants);
    lab.serve(FRONTEND, TCP, 1, &[ENDPOINT]);
    serve_tcp(ENDPOINT);
    lab.cgroup.enter();
    lab
}

#[test]
fn a_namespace_apart_is_passed_on() {
    let lab = with_service(&[]);
    assert!(!is_passed_on());
    lab.know(APART);
    assert!(is_passed_on());
    assert!(lab.map("namespaces").delete(&lab.cookie.to_le_bytes()).unwrap());
    assert!(!is_passed_on());
}

#[test]
fn a_slot_that_does_not_exist_is_passed_on() {
    let lab = with_service(&[]);
    lab.map("endpoints").delete(&super::entries::endpoint_key(1, 0)).unwrap();
    assert!(is_passed_on());
}

#[test]
fn tasks_outside_the_root_cgroup_are_translated_where_it_is_passed_on() {
    let _lab = with_service(&[("pass_root", 1)]);
    assert!(!is_passed_on());
}

#[test]
fn without_a_return_value_a_refusal_is_passed_on() {
    let lab = with_service(&[]);
    let refused = super::entries::Frontend::routed(super::entries::REJECT).bytes();
    lab.map("frontends").update(&super::entries::frontend_key(FRONTEND, TCP), &refused).unwrap();
    assert!(is_passed_on());
}
