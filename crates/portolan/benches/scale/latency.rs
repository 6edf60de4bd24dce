//! New connections through a VIP and directly to the pod, by turns, with 10,000 Services programmed.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use portolan_dataplane::nft::{Nftables, NftablesKernel};
use portolan_dataplane::{Reconciler, Trust};
use portolan_plan::{DetectLocal, Plan, PlanConfig, plan};
use portolan_testkit::{Lab, Protocol, topology};

use crate::table::{microseconds, percentile};
use crate::{cluster, table};

const SERVICES: u32 = 10_000;
const CONNECTIONS: usize = 8000;
const TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) fn run() {
    let lab = Lab::new().expect("root is needed for the lab");
    let pod: SocketAddr = "10.244.1.3:8080".parse().expect("an address");
    lab.serve(pod, Protocol::Tcp).expect("the pod serves");
    let mut snapshot = cluster::facts(SERVICES, 3);
    snapshot.slices.insert(cluster::name(0), Arc::new(cluster::slices([pod.ip()].into_iter())));
    let ranges = vec!["10.244.0.0/16".parse().expect("a range")];
    let config = PlanConfig { detect_local: DetectLocal::ClusterRange(ranges), ..PlanConfig::default() };
    let plan = plan(&snapshot, &Plan::default(), &config);
    let kernel = lab.host(topology::NODE).run(NftablesKernel::open).expect("root");
    Reconciler::new(Nftables::new(14), kernel).sync(&plan, Trust::Memory).expect("the kernel takes it");
    let vip = SocketAddr::new(cluster::cluster_ip(0), 80);
    let (direct, through) = lab.host("pod-a1").run(|| connect_by_turns(pod, vip));
    show(&direct, &through);
}

fn connect_by_turns(pod: SocketAddr, vip: SocketAddr) -> (Vec<Duration>, Vec<Duration>) {
    let (mut direct, mut through) = (Vec::new(), Vec::new());
    for _ in 0..CONNECTIONS {
        direct.push(connect(pod));
        through.push(connect(vip));
    }
    direct.sort_unstable();
    through.sort_unstable();
    (direct, through)
}

fn connect(address: SocketAddr) -> Duration {
    let start = Instant::now();
    let connection = TcpStream::connect_timeout(&address, TIMEOUT).expect("the pod answers");
    let elapsed = start.elapsed();
    drop(connection);
    elapsed
}

fn show(direct: &[Duration], through: &[Duration]) {
    let row = |name: &str, times: &[Duration]| {
        vec![name.into(), microseconds(percentile(times, 0.5)), microseconds(percentile(times, 0.99))]
    };
    table::print(
        "New TCP connections with 10,000 Services, pod to pod on one node",
        &["", "p50", "p99"],
        &[row("direct", direct), row("through the VIP", through)],
    );
    let ratio = percentile(through, 0.5).as_secs_f64() / percentile(direct, 0.5).as_secs_f64();
    println!("  ratio of p50: {ratio:.3} (target: at most 1.10)");
}
