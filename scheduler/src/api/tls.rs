//! TLS of the API: reads certificate and key, and reads them again when the files change.

use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use goalmill_common::clock::Clock;
use goalmill_common::config::TlsSettings;
use ring::digest::{SHA256, digest};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use super::certificate::CertificateValidity;

/// Bytes of each file at most.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Protocols, the preferred one first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];
/// How often the end of a certificate is warned of.
const WARNED_MS: u64 = 86_400_000;
/// Bytes of a request in plain HTTP that are read before the connection is closed.
const PLAIN_BYTES_MAX: u64 = 64 << 10;
const PLAIN_ANSWER: &str = "this address serves HTTPS: write `https://` in front of it\n";

/// Accepts TLS connections with the certificate of the settings.
pub(crate) struct ApiTls {
    settings: TlsSettings,
    current: Arc<CurrentCertificate>,
    acceptor: TlsAcceptor,
    /// The digest of the files as they were read last.
    seen: Mutex<Option<FilesDigest>>,
    /// Asks for a look at the files.
    asked: Arc<Notify>,
    clock: Clock,
    /// Until when the certificate is not warned of again, in Unix milliseconds.
    silent_until_ms: AtomicU64,
}

/// Both files, digested; an error is what reading them said.
type FilesDigest = Result<Vec<u8>, String>;

/// The certificate that new connections get.
#[derive(Debug)]
struct CurrentCertificate(RwLock<Arc<CertifiedKey>>);

impl CurrentCertificate {
    fn get(&self) -> Arc<CertifiedKey> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.get())
    }
}

impl ApiTls {
    /// Reads certificate and key. An error names the file and how to correct it.
    pub(crate) fn load(settings: &TlsSettings, clock: Clock) -> Result<Self, String> {
        let provider = Arc::new(default_provider());
        let files = CertificateFiles::load_files(settings)?;
        let certified = files.certified_key(settings, &provider)?;
        let current = Arc::new(CurrentCertificate(RwLock::new(Arc::new(certified))));
        let versions = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = versions.map_err(|error| format!("TLS cannot be set up: {error}"))?;
        let mut config = builder.with_no_client_auth().with_cert_resolver(current.clone());
        config.alpn_protocols = PROTOCOLS.iter().map(|name| name.to_vec()).collect();
        Ok(Self {
            settings: settings.clone(),
            current,
            acceptor: TlsAcceptor::from(Arc::new(config)),
            seen: Mutex::new(Some(Ok(files.digest()))),
            asked: Arc::default(),
            clock,
            silent_until_ms: AtomicU64::new(0),
        })
    }

    /// Has the files read immediately, whenever it is notified.
    pub(crate) fn reload_requests(&self) -> Arc<Notify> {
        self.asked.clone()
    }

    /// Does the handshake. A client that sends plain HTTP gets that answer, and is refused.
    pub(super) async fn accept(&self, mut stream: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
        let mut first = [0];
        // Every request in plain HTTP begins with a method, every handshake with the byte 22.
        if stream.peek(&mut first).await? == 1 && first[0].is_ascii_uppercase() {
            let head = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: ";
            let answer = format!("{head}{}\r\n\r\n{PLAIN_ANSWER}", PLAIN_ANSWER.len());
            stream.write_all(answer.as_bytes()).await?;
            stream.shutdown().await?;
            // What is not read makes the system discard the answer.
            tokio::io::copy(&mut stream.take(PLAIN_BYTES_MAX), &mut tokio::io::sink()).await?;
            return Err(std::io::Error::other("a client sent plain HTTP"));
        }
        self.acceptor.accept(stream).await
    }

    /// Looks at the files until stopped.
    pub(crate) async fn keep_fresh(self: Arc<Self>, stop: CancellationToken) {
        let interval = Duration::from_millis(self.settings.reload_ms);
        loop {
            self.watch_end();
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.asked.notified() => {}
                () = tokio::time::sleep(interval) => {}
            }
            let reader = self.clone();
            if tokio::task::spawn_blocking(move || reader.reload()).await.is_err() {
                tracing::error!("the files of the certificate could not be read; the certificate in use is kept");
            }
        }
    }

    /// The warning about the end of the certificate in use, if it is near or past.
    pub(super) fn warning(&self) -> Option<String> {
        self.validity()?.warning(self.clock.now_ms())
    }

    fn validity(&self) -> Option<CertificateValidity> {
        CertificateValidity::of_chain(self.current.get().cert.iter().map(AsRef::as_ref))
    }

    /// Publishes when the certificate ends, and warns of it once a day.
    fn watch_end(&self) {
        let Some(validity) = self.validity() else { return };
        let end = Duration::from_millis(validity.end_ms).as_secs_f64();
        metrics::gauge!("goalmill_tls_certificate_expiration_timestamp_seconds").set(end);
        let now_ms = self.clock.now_ms();
        let Some(warning) = validity.warning(now_ms) else {
            self.silent_until_ms.store(0, Ordering::Relaxed);
            return;
        };
        if now_ms >= self.silent_until_ms.load(Ordering::Relaxed) {
            self.silent_until_ms.store(now_ms + WARNED_MS, Ordering::Relaxed);
            tracing::warn!("{warning}");
        }
    }

    /// Takes changed files; wrong ones are reported once, and the certificate in use is kept.
    fn reload(&self) {
        let files = CertificateFiles::load_files(&self.settings);
        let digest = files.as_ref().map(CertificateFiles::digest).map_err(Clone::clone);
        {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            if seen.as_ref() == Some(&digest) {
                return;
            }
            *seen = Some(digest);
        }
        let outcome = match files.and_then(|files| files.certified_key(&self.settings, &Arc::new(default_provider()))) {
            Ok(certified) => {
                *self.current.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(certified);
                self.silent_until_ms.store(0, Ordering::Relaxed);
                tracing::info!("new connections to the API get the changed certificate");
                "ok"
            }
            Err(why) => {
                tracing::error!("the certificate in use is kept: {why}");
                "failed"
            }
        };
        metrics::counter!("goalmill_tls_reloads_total", "outcome" => outcome).increment(1);
    }
}

/// The text of both files.
struct CertificateFiles {
    cert: Vec<u8>,
    key: Vec<u8>,
}

impl CertificateFiles {
    fn load_files(settings: &TlsSettings) -> Result<Self, String> {
        let cert = read_file("api.tls.cert_file", &settings.cert_file)?;
        Ok(Self { cert, key: read_file("api.tls.key_file", &settings.key_file)? })
    }

    fn digest(&self) -> Vec<u8> {
        [&self.cert, &self.key].into_iter().flat_map(|text| digest(&SHA256, text).as_ref().to_vec()).collect()
    }

    fn certified_key(&self, settings: &TlsSettings, provider: &Arc<CryptoProvider>) -> Result<CertifiedKey, String> {
        let TlsSettings { cert_file, key_file, .. } = settings;
        let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.cert).collect();
        let chain = parsed.ok().filter(|chain| !chain.is_empty()).ok_or_else(|| {
            format!(
                "`{cert_file}` (`api.tls.cert_file`) has no certificate in PEM form: put the certificate of the API \
                 there, then those of intermediate authorities"
            )
        })?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|_| {
            format!(
                "`{key_file}` (`api.tls.key_file`) has no private key in PEM form: put a key without a password there"
            )
        })?;
        CertifiedKey::from_der(chain, key, provider).map_err(|error| {
            if let rustls::Error::InconsistentKeys(_) = error {
                format!(
                    "the key in `{key_file}` (`api.tls.key_file`) is not that of the first certificate in `{cert_file}` \
                     (`api.tls.cert_file`): put the certificate of the API first, and its key into the other file"
                )
            } else if let rustls::Error::InvalidCertificate(_) = error {
                format!(
                    "the first certificate in `{cert_file}` (`api.tls.cert_file`) cannot be read: {error}; issue it \
                     again, as X.509 version 3"
                )
            } else {
                format!(
                    "the key in `{key_file}` (`api.tls.key_file`) cannot be used: {error}; RSA from 2048 bits, ECDSA on \
                     P-256 or P-384, and Ed25519 can"
                )
            }
        })
    }
}

fn read_file(setting: &str, path: &str) -> Result<Vec<u8>, String> {
    let cannot = |reason: String| {
        format!("`{path}` (`{setting}`) cannot be read: {reason}; name a file that the scheduler may read")
    };
    let mut text = Vec::new();
    let file = File::open(path).map_err(|error| cannot(error.to_string()))?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text).map_err(|error| cannot(error.to_string()))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(cannot(format!("it has more than {FILE_BYTES_MAX} bytes")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rcgen::{CertifiedKey as Generated, generate_simple_self_signed};

    use super::*;

    fn generated() -> (String, String) {
        let Generated { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate can be made");
        (cert.pem(), signing_key.serialize_pem())
    }

    /// Writes both files and names them.
    fn settings(dir: &Path, cert: &str, key: &str) -> TlsSettings {
        let file = |name: &str, text: &str| {
            let path = dir.join(name);
            std::fs::write(&path, text).expect("a file can be written");
            path.display().to_string()
        };
        TlsSettings { cert_file: file("tls.crt", cert), key_file: file("tls.key", key), reload_ms: 1 }
    }

    fn served(tls: &ApiTls) -> Vec<u8> {
        tls.current.get().cert[0].to_vec()
    }

    #[test]
    fn wrong_files_are_refused_by_name_with_a_correction() {
        let dir = tempfile::tempdir().expect("a directory can be made");
        let ((cert, key), (_, other)) = (generated(), generated());
        let unreadable = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
        let garbled = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        let large = "x".repeat(1 << 21);
        for (cert, key, file, said) in [
            ("", key.as_str(), "tls.crt", "no certificate in PEM form"),
            (&key, &key, "tls.crt", "no certificate in PEM form"),
            (unreadable, &key, "tls.crt", "cannot be read"),
            (&large, &key, "tls.crt", "more than 1048576 bytes"),
            (&cert, "", "tls.key", "no private key in PEM form"),
            (&cert, &cert, "tls.key", "no private key in PEM form"),
            (&cert, encrypted, "tls.key", "without a password"),
            (&cert, garbled, "tls.key", "cannot be used"),
            (&cert, &other, "tls.key", "is not that of the first certificate"),
        ] {
            let why = ApiTls::load(&settings(dir.path(), cert, key), Clock::system()).err().expect(said);
            assert!(why.contains(file) && why.contains(said) && why.contains("api.tls."), "{why}");
            assert!(!why.contains("AAAA"), "{why}");
        }
        let missing = TlsSettings { key_file: "/nowhere/tls.key".into(), ..settings(dir.path(), &cert, &key) };
        let why = ApiTls::load(&missing, Clock::system()).err().expect("the file is not there");
        assert!(why.contains("`/nowhere/tls.key` (`api.tls.key_file`) cannot be read"), "{why}");
    }

    #[test]
    fn a_changed_certificate_is_taken_and_a_wrong_one_is_not() {
        let dir = tempfile::tempdir().expect("a directory can be made");
        let ((cert, key), (next_cert, next_key)) = (generated(), generated());
        let tls = ApiTls::load(&settings(dir.path(), &cert, &key), Clock::system()).expect("the files are right");
        let first = served(&tls);
        tls.reload();
        assert_eq!(served(&tls), first);
        settings(dir.path(), &next_cert, &key);
        tls.reload();
        assert_eq!(served(&tls), first, "the key is not yet there");
        settings(dir.path(), &next_cert, &next_key);
        tls.reload();
        assert_ne!(served(&tls), first);
        settings(dir.path(), &cert, &key);
        tls.reload();
        assert_eq!(served(&tls), first, "it may change back");
    }
}
