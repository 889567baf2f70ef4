//! Certificates for servers that speak TLS, made anew for each one in its own folder. They name nobody outside.

use std::{
    path::Path,
    process::{Command, Stdio},
};

/// In the folder `$1`: an issuer `ca`, an issuer of nothing `stranger`, and signed by the first `good`, `expired`,
/// `elsewhere` (for another host) and `client`; a certificate ends in `.pem`, its key in `.key`. All by `openssl ca`,
/// which alone dates a certificate into the past.
const SCRIPT: &str = r#"
set -e
cd "$1"
cat >tls.conf <<END
[req]
distinguished_name = name
x509_extensions = issuer
[name]
[issuer]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign
[ca]
default_ca = here
[here]
database = tls.index
serial = tls.serial
new_certs_dir = .
default_md = sha256
default_days = 2
policy = any
unique_subject = no
[any]
commonName = supplied
END
: >tls.index
echo 01 >tls.serial
key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1.key"; }
for issuer in ca stranger; do
    key $issuer
    openssl req -x509 -new -config tls.conf -key $issuer.key -days 2 -subj "/CN=$issuer" -out $issuer.pem
done
signed() {
    name=$1 host=$2
    shift 2
    key "$name"
    openssl req -new -config tls.conf -key "$name.key" -subj "/CN=$name" -out "$name.request"
    echo "subjectAltName = $host" >tls.extensions
    openssl ca -batch -config tls.conf -cert ca.pem -keyfile ca.key -in "$name.request" -out "$name.pem" -notext \
        -extfile tls.extensions "$@"
}
signed good IP:127.0.0.1
signed elsewhere DNS:elsewhere.invalid
signed client DNS:client
signed expired IP:127.0.0.1 -startdate 20200101000000Z -enddate 20200102000000Z
"#;

/// Makes them all.
pub(super) fn make(folder: &Path) {
    let script = Command::new("sh").args(["-c", SCRIPT, "certificates"]).arg(folder).stdin(Stdio::null()).output();
    let output = script.expect("a shell starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "openssl is installed (tests/run.sh does it), and makes certificates: {said}");
}

/// A server's configuration with one of them, listening for TLS alone.
pub(super) fn configuration(folder: &Path, name: &str, port: u16) -> Vec<String> {
    let path = |file: String| folder.join(file).display().to_string();
    vec![
        format!("tls-port {port}"),
        format!("tls-cert-file {}", path(format!("{name}.pem"))),
        format!("tls-key-file {}", path(format!("{name}.key"))),
        format!("tls-ca-cert-file {}", path("ca.pem".to_owned())),
    ]
}
