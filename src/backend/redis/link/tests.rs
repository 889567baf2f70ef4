//! Links that speak past each other: one side TLS, the other not, or a certificate that nobody vouches for.

use std::{fs, path::PathBuf, process::Command, time::Duration};

use uuid::Uuid;

use crate::backend::{
    Fault, FaultKind,
    redis::{
        address::Target,
        standalone::connect,
        testing::{Server, free_port, options},
    },
};

/// Not an authority's: some clients take none of those for a server's own.
const CONFIG: &str = "\
[req]
prompt = no
distinguished_name = name
x509_extensions = about
[name]
CN = 127.0.0.1
[about]
basicConstraints = critical, CA:FALSE
subjectAltName = IP:127.0.0.1
";

/// A key and a certificate for 127.0.0.1 that vouches for itself; gone with the handle.
struct Certificate(PathBuf);

impl Certificate {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("relatch-{}", Uuid::new_v4().simple()));
        fs::create_dir(&folder).unwrap();
        let certificate = Self(folder);
        fs::write(certificate.path("config"), CONFIG).unwrap();
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
            .args(["-config", "config", "-keyout", "key", "-out", "cert", "-days", "1"])
            .current_dir(&certificate.0)
            .output()
            .expect("openssl is installed");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        certificate
    }

    fn path(&self, file: &str) -> String {
        self.0.join(file).display().to_string()
    }

    /// A server that speaks TLS on this port, and plainly on its socket.
    fn server(&self, port: u16) -> Server {
        let (port, key, cert) = (port.to_string(), self.path("key"), self.path("cert"));
        let words = ["--tls-port", &port, "--tls-key-file", &key, "--tls-cert-file", &cert];
        Server::with(&[&words[..], &["--tls-ca-cert-file", &cert, "--tls-auth-clients", "no"]].concat())
    }
}

impl Drop for Certificate {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// How connecting fails: the time that it has is far more than it may take.
async fn fault(target: &Target) -> Fault {
    let refused = tokio::time::timeout(Duration::from_secs(10), connect(target, options(30_000))).await;
    let fault = refused.expect("it hangs").map(|_| ()).unwrap_err();
    assert!(!fault.may_have_run);
    fault
}

#[tokio::test]
async fn a_plain_client_at_a_port_for_tls_is_told_promptly() {
    let (certificate, port) = (Certificate::new(), free_port());
    let _server = certificate.server(port);
    let fault = fault(&Target::parse(&format!("redis://127.0.0.1:{port}")).unwrap()).await;
    assert_eq!(fault.kind, FaultKind::Dropped, "{fault:?}");
    assert!(fault.source.to_string().contains(&port.to_string()), "{fault:?}");
}

#[cfg(any(feature = "rustls", feature = "native-tls"))]
mod with_tls {
    use std::{net::TcpListener, time::Instant};

    use super::*;

    fn target(port: u16) -> Target {
        Target::parse(&format!("rediss://:s3cret@127.0.0.1:{port}")).unwrap()
    }

    /// A plain server waits for the end of what it takes for a line.
    ///
    #[tokio::test]
    async fn a_client_that_speaks_tls_to_a_plain_port_is_told_within_the_command_timeout() {
        let port = free_port();
        let _server = Server::with(&["--port", &port.to_string()]);
        let started = Instant::now();
        let fault = connect(&target(port), options(300)).await.map(|_| ()).unwrap_err();
        assert!(started.elapsed() < Duration::from_millis(1300), "{:?}", started.elapsed());
        assert!(fault.source.to_string().contains(&port.to_string()), "{fault:?}");
        assert!(fault.kind.heals() && !format!("{fault:?}").contains("s3cret"));
    }

    #[tokio::test]
    async fn a_certificate_that_nobody_vouches_for_is_refused_promptly() {
        let (certificate, port) = (Certificate::new(), free_port());
        let _server = certificate.server(port);
        let fault = fault(&target(port)).await;
        let words = fault.source.to_string();
        assert!(words.to_lowercase().contains("certificate"), "{words}");
        assert!(!words.contains("s3cret"));
    }

    #[tokio::test]
    async fn a_port_that_says_nothing_to_a_greeting_costs_the_command_timeout() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let started = Instant::now();
        let target = target(silent.local_addr().unwrap().port());
        let fault = connect(&target, options(300)).await.map(|_| ()).unwrap_err();
        assert_eq!(fault.kind, FaultKind::Timeout);
        assert!(started.elapsed() < Duration::from_millis(1300), "{:?}", started.elapsed());
    }

    /// The reason why none of these passes by chance.
    #[cfg(feature = "rustls")]
    #[tokio::test]
    async fn a_certificate_that_is_vouched_for_lets_scripts_run() {
        use crate::backend::{Backend, Call, Polled, Value, redis::testing::COUNT};

        let (certificate, port) = (Certificate::new(), free_port());
        let _server = certificate.server(port);
        let trusted = Some(fs::read(certificate.path("cert")).unwrap());
        let certificates = redis::TlsCertificates { client_tls: None, root_cert: trusted };
        let client = redis::Client::build_with_tls(format!("rediss://127.0.0.1:{port}"), certificates).unwrap();
        let backend = connect(&Target::of_client(&client, "redis_client"), options(10_000)).await.unwrap();
        let call = Call { script: &COUNT, keys: &["n"], args: &[], dispatch: None, polled: Polled::ByCaller };
        assert_eq!(backend.run(&call).await.unwrap(), Value::Int(1));
    }
}
