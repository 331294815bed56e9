//! Tokens: the first one from the environment, and what `token` does with others.

use std::process::{Output, Stdio};

use super::{Dev, code, err, goalmill, out, run};

const ADMIN: &str = "0123456789abcdef0123456789abcdef";
const SCALING: &str = "scaling-scaling-scaling-scaling-";

const ENVIRONMENT: [(&str, &str); 6] = [
    ("GOALMILL__API__AUTHENTICATION", "required"),
    ("GOALMILL__API__ADMIN_TOKEN_ENV", "ADMIN"),
    ("GOALMILL__API__SCALING_TOKEN_ENV", "SCALING"),
    ("ADMIN", ADMIN),
    ("SCALING", SCALING),
    ("GOALMILL_TOKEN", ADMIN),
];

fn run_as(dev: &Dev, token: &str, args: &[&str]) -> Output {
    let mut command = goalmill();
    command.args(args).args(["--server", &dev.server]).env("GOALMILL_TOKEN", token);
    command.stdin(Stdio::null()).output().expect("the program runs")
}

#[test]
fn the_first_token_is_in_the_environment_and_creates_the_others() {
    let dev = Dev::start_in(&[], &ENVIRONMENT);
    let refused = dev.run(&["plan", "list"]);
    assert_eq!(code(&refused), 4, "{}", err(&refused));
    assert!(err(&refused).contains("GOALMILL_TOKEN"), "{}", err(&refused));
    assert_eq!(code(&dev.run(&["health"])), 0, "whether it is ready is no secret");

    let created = run_as(&dev, ADMIN, &["token", "create", "ann", "--role", "viewer,submitter", "--ttl", "90d"]);
    assert_eq!(code(&created), 0, "{}", err(&created));
    let token = out(&created).trim().to_owned();
    assert!(token.starts_with("gm_") && !err(&created).contains(&token), "{token}");
    let id = token.split('_').nth(1).expect("it has an id").to_owned();
    assert_eq!(code(&run_as(&dev, &token, &["plan", "list"])), 0);
    let listed = run_as(&dev, ADMIN, &["token", "list"]);
    let (text, secret) = (out(&listed), token.rsplit('_').next().expect("it has a secret"));
    assert!(text.contains(&id) && text.contains("viewer,submitter") && !text.contains(secret), "{text}");

    let denied = run_as(&dev, &token, &["queue", "pause", "echo"]);
    assert_eq!(code(&denied), 4);
    assert!(err(&denied).contains("operator") && !err(&denied).contains(secret), "{}", err(&denied));
    assert_eq!(code(&run_as(&dev, SCALING, &["plan", "list"])), 4, "it may read nothing but the scaling");
    assert_eq!(code(&run_as(&dev, ADMIN, &["token", "revoke", &id])), 0);
    assert_eq!(code(&run_as(&dev, &token, &["plan", "list"])), 4);
    assert_eq!(code(&run_as(&dev, ADMIN, &["token", "revoke", &id])), 5);
}

#[test]
fn a_token_is_in_no_help_and_no_usage_error() {
    for args in [&["--help"][..], &["plan", "list", "--token"], &["plan", "list", "--unknown"]] {
        let output = goalmill().args(args).env("GOALMILL_TOKEN", ADMIN).output().expect("the program runs");
        assert!(!out(&output).contains(ADMIN) && !err(&output).contains(ADMIN), "{args:?}");
    }
    let output = run(&["plan", "list", "--token", "not a token"]);
    assert_eq!(code(&output), 2);
    assert!(!err(&output).contains("not a token"), "{}", err(&output));
}

#[test]
fn a_token_of_the_environment_that_is_missing_or_short_is_named() {
    for (value, said) in [(None, "is not set"), (Some("hush"), "32 visible ASCII characters")] {
        let mut command = goalmill();
        command.args(["dev", "--listen", "127.0.0.1:0", "--metrics", "off"]).envs(ENVIRONMENT).env_remove("ADMIN");
        command.envs(value.map(|value| ("ADMIN", value)));
        let output = command.stdin(Stdio::null()).output().expect("the program runs");
        assert_eq!(code(&output), 8);
        let text = err(&output);
        assert!(text.contains("`ADMIN`") && text.contains(said) && !text.contains("hush"), "{text}");
    }
}
