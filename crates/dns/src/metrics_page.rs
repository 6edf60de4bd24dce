//! The counters in the Prometheus text format.

use std::fmt::Write;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::metrics::{Counts, Histogram, KINDS, Metrics, RCODES, SIZES, ZoneKind};
use crate::resolve::{Autopath, Resolver};
use crate::wire::kind;

impl Resolver {
    /// The page `/metrics`, in the order of CoreDNS's documentation.
    pub fn metrics_page(&self, server: &str) -> String {
        let mut page = Page { text: String::new(), zones: zone_names(self), server: server.to_owned() };
        let version = env!("CARGO_PKG_VERSION");
        page.family("coredns_build_info", "gauge", "The version of the program.");
        page.line(format_args!("coredns_build_info{{goversion=\"\",revision=\"portolan\",version=\"{version}\"}} 1"));
        page.plugins(self);
        page.traffic(&self.metrics);
        page.counters(self);
        page.upstreams(self);
        page.text
    }
}

fn zone_names(resolver: &Resolver) -> [String; 3] {
    let own = resolver.config().zone.zones.first().map_or(".".to_owned(), ToString::to_string);
    [own, "arpa.".to_owned(), ".".to_owned()]
}

struct Page {
    text: String,
    zones: [String; 3],
    server: String,
}

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.text, "{line}").expect("writing to a string cannot fail");
    }

    /// The enabled features, under the names of CoreDNS's plugins.
    fn plugins(&mut self, resolver: &Resolver) {
        let config = resolver.config();
        self.family("coredns_plugin_enabled", "gauge", "Enabled features, under the names of CoreDNS's plugins.");
        for (name, is_on) in [
            ("autopath", config.autopath != Autopath::Off),
            ("cache", config.cache.capacity > 0 && resolver.forwarder.is_some()),
            ("forward", resolver.forwarder.is_some()),
            ("hosts", !config.hosts.is_empty()),
            ("kubernetes", true),
            ("log", config.log_queries),
        ] {
            let server = self.server.clone();
            let labels = format!("name=\"{name}\",server=\"{server}\",view=\"\",zone=\".\"");
            self.line(format_args!("coredns_plugin_enabled{{{labels}}} {}", u8::from(is_on)));
        }
    }

    fn traffic(&mut self, metrics: &Metrics) {
        self.requests(metrics);
        self.responses(metrics);
        let durations = |zone: usize| sum(metrics, |counts| &counts.durations[zone]);
        self.family("coredns_dns_request_duration_seconds", "histogram", "Time to answer a query.");
        for (index, _) in ZoneKind::ALL.iter().enumerate() {
            let labels = format!("server=\"{}\",view=\"\",zone=\"{}\"", self.server, self.zones[index]);
            self.times("coredns_dns_request_duration_seconds", &labels, &durations(index));
        }
        for (name, help, is_request) in [
            ("coredns_dns_request_size_bytes", "Size of queries.", true),
            ("coredns_dns_response_size_bytes", "Size of responses.", false),
        ] {
            self.family(name, "histogram", help);
            for (index, protocol) in ["udp", "tcp"].iter().enumerate() {
                let labels = format!("proto=\"{protocol}\",server=\"{}\",view=\"\",zone=\".\"", self.server);
                let histogram =
                    sum(
                        metrics,
                        |counts| {
                            if is_request { &counts.request_sizes[index] } else { &counts.response_sizes[index] }
                        },
                    );
                self.sizes(name, &labels, &histogram);
            }
        }
    }

    fn requests(&mut self, metrics: &Metrics) {
        self.family("coredns_dns_requests_total", "counter", "Queries, by zone, protocol, family and type.");
        let server = self.server.clone();
        for (zone, name) in self.zones.clone().iter().enumerate() {
            for (is_tcp, protocol) in ["udp", "tcp"].iter().enumerate() {
                for (is_ipv6, family) in ["1", "2"].iter().enumerate() {
                    for index in 0..=KINDS.len() {
                        let requests = total(metrics, |counts| &counts.requests[zone][is_tcp][is_ipv6][index]);
                        let kind = KINDS.get(index).map_or("other", |kind| kind::name(*kind));
                        if requests > 0 {
                            self.line(format_args!(
                                "coredns_dns_requests_total{{family=\"{family}\",proto=\"{protocol}\",server=\"{server}\",type=\"{kind}\",view=\"\",zone=\"{name}\"}} {requests}"
                            ));
                        }
                    }
                }
            }
        }
        self.by_zone("coredns_dns_do_requests_total", "Queries with the DNSSEC OK bit.", |zone| {
            total(metrics, |counts| &counts.dnssec[zone])
        });
    }

    fn by_zone(&mut self, name: &str, help: &str, value: impl Fn(usize) -> u64) {
        self.family(name, "counter", help);
        let server = self.server.clone();
        for (index, zone) in self.zones.clone().iter().enumerate() {
            let value = value(index);
            self.line(format_args!("{name}{{server=\"{server}\",view=\"\",zone=\"{zone}\"}} {value}"));
        }
    }

    fn responses(&mut self, metrics: &Metrics) {
        self.family("coredns_dns_responses_total", "counter", "Responses, by zone and rcode.");
        let server = self.server.clone();
        for (zone, name) in self.zones.clone().iter().enumerate() {
            let plugin = if zone == 2 { "forward" } else { "kubernetes" };
            for index in 0..=RCODES.len() {
                let rcode = RCODES.get(index).map_or("other", |rcode| rcode.name());
                let answered = total(metrics, |counts| &counts.responses[zone][index]);
                if answered > 0 {
                    self.line(format_args!(
                        "coredns_dns_responses_total{{plugin=\"{plugin}\",rcode=\"{rcode}\",server=\"{server}\",view=\"\",zone=\"{name}\"}} {answered}"
                    ));
                }
            }
        }
    }

    fn counters(&mut self, resolver: &Resolver) {
        let metrics = &resolver.metrics;
        let sizes = resolver.cache.sizes();
        let labels = format!("server=\"{}\",view=\"\",zones=\".\"", self.server);
        for (name, kind, help, values) in [
            ("coredns_cache_entries", "gauge", "Entries of the cache.", sizes.entries.map(|size| size as u64)),
            ("portolan_dns_cache_bytes", "gauge", "Memory of the cache.", sizes.octets.map(|size| size as u64)),
            ("coredns_cache_evictions_total", "counter", "Entries that made room for others.", sizes.evicted),
        ] {
            self.family(name, kind, help);
            for (kind, value) in ["success", "denial"].iter().zip(values) {
                self.line(format_args!("{name}{{{labels},type=\"{kind}\"}} {value}"));
            }
        }
        let (hits, misses) = (read(&metrics.cache_hits), read(&metrics.cache_misses));
        for (name, help, value) in [
            ("coredns_cache_requests_total", "Cache lookups.", hits + misses),
            ("coredns_cache_hits_total", "Cache hits.", hits),
            ("coredns_cache_misses_total", "Cache misses.", misses),
            (
                "coredns_cache_served_stale_total",
                "Expired answers served because no upstream answered.",
                read(&metrics.served_stale),
            ),
            (
                "coredns_autopath_success_total",
                "Queries answered by following the search path on the server.",
                read(&metrics.autopath),
            ),
            (
                "coredns_reload_failed_total",
                "Changed settings that were not used because of an error.",
                read(&metrics.failed_reloads),
            ),
            ("coredns_panics_total", "Queries that ended in a panic.", read(&metrics.panics)),
            ("portolan_dns_rate_limited_total", "Queries over the rate limit of their client.", read(&metrics.limited)),
            (
                "portolan_dns_evicted_connections_total",
                "TCP connections that were closed to make room for others.",
                read(&metrics.evicted_connections),
            ),
            (
                "portolan_dns_shed_total",
                "Queries of busy clients, dropped while the server was behind.",
                read(&metrics.shed),
            ),
        ] {
            self.family(name, "counter", help);
            match name {
                "coredns_panics_total" | "coredns_reload_failed_total" => self.line(format_args!("{name} {value}")),
                _ if name.starts_with("portolan_dns_") => self.line(format_args!("{name} {value}")),
                "coredns_autopath_success_total" => {
                    let server = self.server.clone();
                    self.line(format_args!("{name}{{server=\"{server}\"}} {value}"));
                }
                _ => self.line(format_args!("{name}{{{labels}}} {value}")),
            }
        }
    }

    fn upstreams(&mut self, resolver: &Resolver) {
        let Some(forwarder) = &resolver.forwarder else { return };
        self.family(
            "coredns_forward_max_concurrent_rejects_total",
            "counter",
            "Queries refused because of max_concurrent.",
        );
        let rejected = read(&resolver.metrics.rejected);
        self.line(format_args!("coredns_forward_max_concurrent_rejects_total {rejected}"));
        let name = "portolan_dns_client_share_rejects_total";
        self.family(name, "counter", "Queries refused because their client holds its share of max_concurrent.");
        self.line(format_args!("{name} {}", read(&resolver.metrics.over_share)));
        self.family("portolan_dns_waiting_queries", "gauge", "Queries that wait for an upstream.");
        self.line(format_args!("portolan_dns_waiting_queries {}", resolver.waiting.count()));
        self.family(
            "coredns_proxy_healthcheck_failures_total",
            "counter",
            "Health probes that an upstream did not answer.",
        );
        for upstream in forwarder.upstreams() {
            let (address, failed) = (upstream.address, read(&upstream.failed_probes));
            self.line(format_args!(
                "coredns_proxy_healthcheck_failures_total{{proxy_name=\"forward\",to=\"{address}\"}} {failed}"
            ));
        }
        self.family("coredns_proxy_request_duration_seconds", "histogram", "Time for an upstream to answer.");
        let durations = forwarder.counts.durations.lock().unwrap_or_else(PoisonError::into_inner);
        for ((to, rcode), histogram) in durations.iter() {
            let labels = format!("proxy_name=\"forward\",rcode=\"{rcode}\",to=\"{to}\"");
            self.times("coredns_proxy_request_duration_seconds", &labels, histogram);
        }
    }

    fn times(&mut self, name: &str, labels: &str, histogram: &Histogram) {
        let sum = read(&histogram.sum) as f64 / 1e9;
        self.histogram(name, labels, histogram, Histogram::time_bounds().map(|it| it.to_string()), sum);
    }

    fn sizes(&mut self, name: &str, labels: &str, histogram: &Histogram) {
        let sum = read(&histogram.sum) as f64;
        self.histogram(name, labels, histogram, SIZES.iter().map(ToString::to_string), sum);
    }

    /// Buckets are cumulative, and the last one contains everything.
    fn histogram(
        &mut self,
        name: &str,
        labels: &str,
        histogram: &Histogram,
        bounds: impl Iterator<Item = String>,
        sum: f64,
    ) {
        let mut seen = 0;
        for (bound, bucket) in bounds.zip(&histogram.buckets) {
            seen += read(bucket);
            self.line(format_args!("{name}_bucket{{{labels},le=\"{bound}\"}} {seen}"));
        }
        let all: u64 = histogram.buckets.iter().map(read).sum();
        self.line(format_args!("{name}_bucket{{{labels},le=\"+Inf\"}} {all}"));
        self.line(format_args!("{name}_sum{{{labels}}} {sum}"));
        self.line(format_args!("{name}_count{{{labels}}} {all}"));
    }
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn total(metrics: &Metrics, counter: impl Fn(&Counts) -> &AtomicU64) -> u64 {
    metrics.threads().iter().map(|counts| read(counter(counts))).sum()
}

fn sum(metrics: &Metrics, histogram: impl Fn(&Counts) -> &Histogram) -> Histogram {
    let total = Histogram::default();
    metrics.threads().iter().for_each(|counts| total.add(histogram(counts)));
    total
}
