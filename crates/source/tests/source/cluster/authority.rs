//! Certificates and kubeconfig files, made for one test.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use serde_json::{Value, json};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// Signs certificates for one test.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for this machine, good until the end of a year.
    pub(crate) fn issue(&self, until: i32) -> (rcgen::Certificate, KeyPair) {
        self.issue_for("127.0.0.1", until)
    }

    fn issue_for(&self, name: &str, until: i32) -> (rcgen::Certificate, KeyPair) {
        let mut parameters = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (parameters.not_before, parameters.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(until, 12, 31));
        let key = KeyPair::generate().unwrap();
        (parameters.signed_by(&key, &self.0).unwrap(), key)
    }

    /// A server that presents such a certificate, and requires one of clients if there is an authority for those.
    pub(crate) fn server(&self, until: i32, clients: Option<&Self>) -> TlsAcceptor {
        acceptor(self.issue(until), clients)
    }

    pub(crate) fn server_named(&self, name: &str) -> TlsAcceptor {
        acceptor(self.issue_for(name, 2100), None)
    }
}

fn acceptor((certificate, key): (rcgen::Certificate, KeyPair), clients: Option<&Authority>) -> TlsAcceptor {
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let builder = match clients {
        None => ServerConfig::builder().with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from(authority.0.der().to_vec())).unwrap();
            let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build().unwrap();
            ServerConfig::builder().with_client_cert_verifier(verifier)
        }
    };
    let config = builder.with_single_cert(vec![certificate.der().clone()], key).unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// A kubeconfig in a folder, as JSON, which is YAML.
pub(crate) fn kubeconfig(folder: &Path, cluster: Value, user: Value) -> PathBuf {
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}], "users": [{"name": "u", "user": user}],
    });
    let path = folder.join("kubeconfig");
    fs::write(&path, config.to_string()).unwrap();
    path
}
