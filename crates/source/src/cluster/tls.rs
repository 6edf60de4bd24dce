//! TLS to the API server: which authorities are trusted, and which certificate is presented.

use std::sync::Arc;

use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    ClientConfig, DigitallySignedStruct, Error as TlsError, RootCertStore, SignatureScheme, WantsVerifier,
};

use super::base64;
use super::error::AccessError;
use super::exec::Issued;
use super::selected::Selected;

type Builder = tokio_rustls::rustls::ConfigBuilder<ClientConfig, WantsVerifier>;
type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// The content of `certificate-authority-data` or, without it, of `certificate-authority`.
pub(super) fn authority(selected: &Selected) -> Result<Option<Vec<u8>>, AccessError> {
    let cluster = &selected.cluster;
    let failed = |field: &str, reason| selected.cluster_field(field, reason);
    content("certificate-authority", &cluster.certificate_authority_data, &cluster.certificate_authority, failed)
}

pub(super) fn client_config(
    selected: &Selected,
    authority: Option<&[u8]>,
    issued: &Issued,
) -> Result<ClientConfig, AccessError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
    let builder: Builder = builder.expect("ring supports TLS 1.2 and 1.3");
    let builder = if selected.cluster.insecure_skip_tls_verify == Some(true) {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(Unverified(provider)))
    } else {
        builder.with_root_certificates(roots(selected, authority)?)
    };
    match identity(selected, issued)? {
        None => Ok(builder.with_no_client_auth()),
        Some((certificates, key)) => builder
            .with_client_auth_cert(certificates, key)
            .map_err(|error| selected.user_field("client-certificate", error.to_string())),
    }
}

/// The name that the certificate of the server must hold.
pub(super) fn server_name(selected: &Selected, host: &str) -> Result<ServerName<'static>, AccessError> {
    let (field, name) = match &selected.cluster.tls_server_name {
        Some(name) => ("tls-server-name", name.as_str()),
        None => ("server", host),
    };
    let refused = |_| selected.cluster_field(field, format!("{name:?} is neither a DNS name nor an IP address"));
    ServerName::try_from(name.to_owned()).map_err(refused)
}

fn roots(selected: &Selected, authority: Option<&[u8]>) -> Result<RootCertStore, AccessError> {
    let Some(authority) = authority else { return system_roots(selected) };
    let failed = |reason: String| selected.cluster_field("certificate-authority", reason);
    let mut roots = RootCertStore::empty();
    for certificate in certificates(authority).map_err(failed)? {
        roots.add(certificate).map_err(|error| failed(error.to_string()))?;
    }
    Ok(roots)
}

/// Without an authority of its own, a cluster is trusted by the authorities of the machine: those that SSL_CERT_FILE
/// and SSL_CERT_DIR name, or those of the distribution.
fn system_roots(selected: &Selected) -> Result<RootCertStore, AccessError> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!("cannot load an authority of this machine: {error}");
    }
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let reason = "is not set, and this machine has no authorities of its own; set it, or install ca-certificates";
        return Err(selected.cluster_field("certificate-authority", reason));
    }
    Ok(roots)
}

/// What a plugin has issued goes before what the kubeconfig holds.
fn identity(selected: &Selected, issued: &Issued) -> Result<Option<Identity>, AccessError> {
    if let Some((certificate, key)) = &issued.certificate {
        let failed = |reason| selected.user_field("exec", reason);
        return pair(certificate.as_bytes(), key.as_bytes()).map(Some).map_err(failed);
    }
    let user = &selected.user;
    let failed = |field: &str, reason: String| selected.user_field(field, reason);
    let certificate = content("client-certificate", &user.client_certificate_data, &user.client_certificate, failed)?;
    let key = content("client-key", &user.client_key_data, &user.client_key, failed)?;
    match (certificate, key) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => {
            pair(&certificate, &key).map(Some).map_err(|reason| failed("client-certificate", reason))
        }
        (Some(_), None) => Err(failed("client-key", "is not set, but client-certificate is".to_owned())),
        (None, Some(_)) => Err(failed("client-certificate", "is not set, but client-key is".to_owned())),
    }
}

fn pair(certificate: &[u8], key: &[u8]) -> Result<Identity, String> {
    let key = PrivateKeyDer::from_pem_slice(key);
    Ok((certificates(certificate)?, key.map_err(|error| format!("the key is not a private key in PEM: {error}"))?))
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match certificates {
        Ok(certificates) if certificates.is_empty() => Err("holds no certificate in PEM".to_owned()),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(format!("is not PEM: {error}")),
    }
}

/// A field that is either in the kubeconfig, as base64, or in a file of its own.
fn content(
    field: &str,
    data: &Option<String>,
    file: &Option<String>,
    failed: impl Fn(&str, String) -> AccessError,
) -> Result<Option<Vec<u8>>, AccessError> {
    match (data, file) {
        (Some(data), _) => {
            let refused = || failed(&format!("{field}-data"), "is not base64".to_owned());
            base64::decode(data).map(Some).ok_or_else(refused)
        }
        (None, Some(file)) => {
            std::fs::read(file).map(Some).map_err(|error| failed(field, format!("cannot read {file}: {error}")))
        }
        (None, None) => Ok(None),
    }
}

/// For `insecure-skip-tls-verify`: any certificate will do.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
