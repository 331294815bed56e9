//! `health`, and machines without certificates.

use super::{Dev, code, err, goalmill, out, run};

/// The program on a machine that has no certificates.
fn without_certificates(args: &[&str]) -> std::process::Output {
    let mut command = goalmill();
    command.env("SSL_CERT_FILE", "/nowhere/none.pem").env("SSL_CERT_DIR", "/nowhere/none");
    command.args(args).stdin(std::process::Stdio::null()).output().expect("the program runs")
}

#[test]
fn a_process_is_asked_whether_it_is_ready() {
    let dev = Dev::start();
    let ready = dev.run(&["health"]);
    assert_eq!(code(&ready), 0, "{}", err(&ready));
    assert!(out(&ready).contains("is ready"), "{}", out(&ready));
    assert_eq!(code(&run(&["health", "--server", "http://127.0.0.1:1"])), 69);
}

#[test]
fn commands_work_on_a_machine_without_certificates() {
    let version = without_certificates(&["version"]);
    assert_eq!(code(&version), 0, "{}", err(&version));
    let dev = Dev::start();
    let listed = without_certificates(&["plan", "list", "--server", &dev.server]);
    assert_eq!(code(&listed), 0, "{}", err(&listed));
}

#[test]
fn https_without_certificates_names_what_is_missing() {
    let refused = without_certificates(&["plan", "list", "--server", "https://127.0.0.1:1"]);
    assert_eq!(code(&refused), 1, "{}", err(&refused));
    assert!(err(&refused).contains("ca-certificates") && err(&refused).contains("SSL_CERT_FILE"), "{}", err(&refused));
}

#[test]
fn roles_start_without_certificates_when_they_speak_plain_http() {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let start = |scheme: &str| {
        let file = dir.path().join(format!("{scheme}.yaml"));
        let text = format!(
            "router: {{embed_url: \"{scheme}://127.0.0.1:1/v1\"}}\nmodels: [{{name: m, base_url: \"{scheme}://127.0.0.1:1/v1\"}}]\n\
             hooks: [{{name: h, url: \"{scheme}://127.0.0.1:1\"}}]\n\
             worker: {{agents: {{a: {{kind: http, url: \"{scheme}://127.0.0.1:1\"}}}}}}\n"
        );
        std::fs::write(&file, text).expect("a temporary file can be written");
        let file = file.to_str().expect("the path is text").to_owned();
        let demo = ["dev", "--demo", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--config", &file];
        without_certificates(&demo)
    };
    let plain = start("http");
    assert_eq!(code(&plain), 0, "{}", err(&plain));
    let encrypted = start("https");
    assert_ne!(code(&encrypted), 0, "{}", out(&encrypted));
    assert!(err(&encrypted).contains("ca-certificates"), "{}", err(&encrypted));
}
