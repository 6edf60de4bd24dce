#!/usr/bin/env python3
"""Records what the real kube-proxy programs for the objects of scenarios, into recorded/SCENARIO.MODE.txt.

  record.py [SCENARIO...]     needs root, PyYAML, iptables, nft, and BIN with kube-apiserver, etcd and kube-proxy

The node is a network namespace with the addresses of the lab's node-a. The last step of each scenario is sent to the API
server; a marker Service tells when kube-proxy has seen everything. Scenarios with Pods or Endpoints are left out: they
need controllers.
"""
import glob, http.client, ipaddress, json, os, shutil, ssl, subprocess, sys, tempfile, time
import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
BIN = os.environ.get("BIN", "/root/.cache/portolan/cluster")
NODE = f"rec{os.getpid()}"
STATE = tempfile.mkdtemp(prefix="record-")
PROGRAMS = []
ADDRESSES = {"eth0": ["192.168.50.1/24", "fd00:50::1/64"], "eth1": ["192.168.51.1/24", "fd00:51::1/64"],
             "eth2": ["203.0.113.1/24", "2001:db8:113::1/64"], "veth-a1": ["10.244.1.1/32", "fd00:10:244:1::1/128"]}
MARKERS = ("10.96.254.254", "fd00:10:96::fefe")

def run(*words, check=True):
    done = subprocess.run(words, capture_output=True, text=True)
    if check and done.returncode:
        raise SystemExit(f"{words}: {done.stderr}")
    return done.stdout

def inside(*words, **rest):
    return run("ip", "netns", "exec", NODE, *words, **rest)

def start(name, *words):
    log = open(f"{STATE}/{name}.log", "a")
    program = subprocess.Popen(["ip", "netns", "exec", NODE, *words], stdout=log, stderr=log)
    PROGRAMS.append(program)
    return program

def network():
    run("ip", "netns", "add", NODE)
    inside("ip", "link", "set", "lo", "up")
    for link, addresses in ADDRESSES.items():
        inside("ip", "link", "add", link, "type", "veth", "peer", "name", f"{link}-p")
        for end in (link, f"{link}-p"): inside("ip", "link", "set", end, "up")
        for address in addresses: inside("ip", "addr", "add", address, "dev", link, *(["nodad"] if ":" in address else []))

def enter():
    import ctypes
    with open(f"/var/run/netns/{NODE}") as file:
        assert ctypes.CDLL(None).setns(file.fileno(), 0x40000000) == 0

def control_plane():
    start("etcd", f"{BIN}/etcd", "--data-dir", f"{STATE}/etcd", "--unsafe-no-fsync")
    run("openssl", "genrsa", "-out", f"{STATE}/sa.key", "2048")
    open(f"{STATE}/tokens.csv", "w").write('token,admin,admin,"system:masters"\n')
    start("apiserver", f"{BIN}/kube-apiserver", "--etcd-servers=http://127.0.0.1:2379",
        "--service-cluster-ip-range=10.96.0.0/16,fd00:10:96::/112", f"--cert-dir={STATE}", f"--token-auth-file={STATE}/tokens.csv",
        "--authorization-mode=AlwaysAllow", "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={STATE}/sa.key", f"--service-account-signing-key-file={STATE}/sa.key",
        "--disable-admission-plugins=ServiceAccount", "--bind-address=127.0.0.1", "--advertise-address=192.168.50.1",
        "--endpoint-reconciler-type=none", "--enable-priority-and-fairness=false")
    json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443", "insecure-skip-tls-verify": True}}],
        "users": [{"name": "u", "user": {"token": "token"}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]},
        open(f"{STATE}/kubeconfig", "w"))
    for _ in range(600):
        try:
            if call("GET", "/readyz")[0] == 200: return
        except OSError: pass
        time.sleep(0.2)
    raise SystemExit(f"the API server does not get ready; see {STATE}")

TLS = ssl._create_unverified_context()
def call(method, path, body=None):
    connection = http.client.HTTPSConnection("127.0.0.1", 6443, context=TLS, timeout=30)
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    connection.request(method, path, json.dumps(body) if body else None, {"Authorization": "Bearer token", "Content-Type": kind})
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read() or b"null") if "readyz" not in path else None

def folder(item):
    namespace = item["metadata"].get("namespace", "default")
    return {"Service": f"/api/v1/namespaces/{namespace}/services", "Node": "/api/v1/nodes",
            "EndpointSlice": f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"}[item["kind"]]

def create(item):
    if item["kind"] != "Node":
        call("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": item["metadata"].get("namespace", "default")}})
    if item["kind"] == "Node": call("DELETE", f"/api/v1/nodes/{item['metadata']['name']}")
    code, answer = call("POST", folder(item), item)
    if code != 201: raise ValueError(answer.get("message", answer))
    if item.get("status"):
        code, answer = call("PATCH", f"{folder(item)}/{item['metadata']['name']}/status", {"status": item["status"]})
        if code != 200: raise ValueError(answer.get("message", answer))

def clear():
    for kind, every in (("Service", "/api/v1/services"), ("EndpointSlice", "/apis/discovery.k8s.io/v1/endpointslices")):
        for item in call("GET", every)[1]["items"]:
            if item["metadata"]["name"] == "kubernetes": continue
            call("DELETE", f"{folder({'kind': kind, **item})}/{item['metadata']['name']}")

def node(**more):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"}, "spec": {},
            "status": {"addresses": [{"type": "InternalIP", "address": "192.168.50.1"}, {"type": "InternalIP", "address": "fd00:50::1"}]}}

def marker():
    """A Service with endpoints in both families, as each family is programmed at its own time."""
    pods = {"IPv4": "10.244.9.9", "IPv6": "fd00:10:244:9::9"}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "marker"}, "spec": {"clusterIPs": list(MARKERS), "ports": [{"port": 9}]}}
    return [service] + [{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": family, "ports": [{"name": "", "port": 9, "protocol": "TCP"}],
             "metadata": {"name": f"marker-{family.lower()}", "labels": {"kubernetes.io/service-name": "marker"}}, "endpoints": [{"addresses": [pod]}]}
            for family, pod in pods.items()]

def programmed(mode):
    if mode == "nftables":
        return "".join(inside("nft", "-s", "list", "table", family, "kube-proxy", check=False) for family in ("ip", "ip6"))
    return "".join(f"# {words}\n{inside(words)}" for words in ("iptables-save", "ip6tables-save"))

def wait(mode, wanted):
    for _ in range(200):
        text = programmed(mode)
        if wanted(text): return text
        time.sleep(0.1)
    raise ValueError("kube-proxy did not get there")

class Scenario:
    def __init__(self, path):
        self.name = os.path.basename(path)[:-4]
        parts = open(path).read().split("\n-- ")[1:]
        section = lambda name: [part.split("\n", 1)[1] for part in parts if part.startswith(name + " --")]
        self.flags = " ".join(section("flags")).split()
        self.objects = [item for item in yaml.safe_load_all(section("objects.yaml")[-1]) if item]

    def proxy_flags(self, mode):
        renamed = {"--masquerade-bit": "--iptables-masquerade-bit"}
        skip = [i for i, word in enumerate(self.flags) if word == "--service-cluster-ip-range"]
        words = [word for i, word in enumerate(self.flags) if i not in skip and i - 1 not in skip]
        return [renamed.get(word, word) for word in words]

    def needs_controllers(self):
        """Pods need controllers, and addresses that the API server would choose are not those of the plan."""
        def chosen(item):
            spec = item.get("spec", {})
            is_served = item["kind"] == "Service" and spec.get("type") != "ExternalName"
            ports = spec.get("type") in ("NodePort", "LoadBalancer") and spec.get("allocateLoadBalancerNodePorts", True)
            return is_served and (not (spec.get("clusterIP") or spec.get("clusterIPs"))
                or ports and any("nodePort" not in port for port in spec.get("ports", [])))
        return any(item["kind"] not in ("Service", "EndpointSlice", "Node") or chosen(item) for item in self.objects)

def canonical(item):
    """Defaults that the API server asks for, and that manifests may leave out."""
    item.setdefault("metadata", {}).setdefault("namespace", "default")
    if item["kind"] == "Node": item["metadata"].pop("namespace")
    if item["kind"] == "Service" and item["spec"].get("clusterIPs"):
        item["spec"].setdefault("clusterIP", item["spec"]["clusterIPs"][0])
        if len(item["spec"]["clusterIPs"]) > 1: item["spec"].setdefault("ipFamilyPolicy", "RequireDualStack")
    if item["kind"] == "EndpointSlice":
        for port in item.get("ports") or []: port.setdefault("protocol", "TCP"); port.setdefault("name", "")
    return item

def record(scenario, mode, proxy):
    clear()
    own = [item for item in scenario.objects if item["kind"] == "Node"]
    for item in [node()] + [canonical(item) for item in scenario.objects] if proxy is None else [canonical(i) for i in scenario.objects]:
        create(item)
    if proxy is None:
        for tool in ("iptables", "ip6tables"):
            for table in ("nat", "filter", "mangle"):
                inside(tool, "-t", table, "-F"); inside(tool, "-t", table, "-X", check=False)
        inside("nft", "flush", "ruleset")
        proxy = start("kube-proxy", f"{BIN}/kube-proxy", f"--kubeconfig={STATE}/kubeconfig", f"--proxy-mode={mode}", "--hostname-override=node-a",
            "--iptables-min-sync-period=0s", "--iptables-sync-period=2s", "--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0", "--oom-score-adj=0", *scenario.proxy_flags(mode))
    for item in marker(): create(canonical(item))
    pods = ("10.244.9.9", "fd00:10:244:9::9")
    wait(mode, lambda text: all(pod in text for pod in pods))
    for item in marker(): call("DELETE", f"{folder(canonical(item))}/{item['metadata']['name']}")
    text = wait(mode, lambda text: not any(address in text for address in pods + MARKERS))
    lines = [line for line in text.splitlines() if not line.startswith(("# Generated", "# Completed", "# Warning"))]
    with open(f"{HERE}/recorded/{scenario.name}.{mode}.txt", "w") as file: file.write("\n".join(lines) + "\n")
    return proxy

def stop(program):
    if program:
        program.terminate(); program.wait()

def main():
    names = sys.argv[1:]
    paths = sorted(glob.glob(f"{HERE}/../../../scenarios/*.txt"))
    scenarios = [Scenario(path) for path in paths if not names or os.path.basename(path)[:-4] in names]
    scenarios = [scenario for scenario in scenarios if not scenario.needs_controllers()]
    os.makedirs(f"{HERE}/recorded", exist_ok=True)
    network(); enter(); control_plane()
    for mode in ("iptables", "nftables"):
        proxy, running = None, None
        for scenario in scenarios:
            try:
                special = any(item["kind"] == "Node" for item in scenario.objects)
                if running != scenario.flags or special:
                    stop(proxy); proxy = None
                proxy = record(scenario, mode, proxy)
                running = None if special else scenario.flags
                print(mode, scenario.name, flush=True)
            except ValueError as error:
                stop(proxy); proxy, running = None, None
                print(f"{mode} {scenario.name}: left out: {error}", flush=True)
        stop(proxy)

import signal
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
try:
    main()
finally:
    for program in reversed(PROGRAMS):
        if program.poll() is None: program.kill(); program.wait()
    run("ip", "netns", "del", NODE, check=False)
    if not os.environ.get("KEEP"): shutil.rmtree(STATE, ignore_errors=True)
