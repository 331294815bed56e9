//! Sign-in and roles: every route with every role and without credentials, and attacks with their answers.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use goalmill_broker::embedded;
use goalmill_common::access::Role;
use goalmill_common::clock::Clock;
use goalmill_common::config::Authentication;
use goalmill_tests::installation::{Installation, settings, step};
use goalmill_tests::wait::{SOON, until};
use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const ABSENT: &str = "p0-0000000000000000";
const ROUTES_MIN: usize = 60;

/// An installation that requires tokens, with one token for each role.
struct Guarded {
    it: Installation,
    tokens: BTreeMap<Role, String>,
}

impl Guarded {
    /// The tokens are created before authentication is required.
    async fn start(failures_per_minute: u32) -> Result<Self> {
        let broker = embedded::open(None, Clock::system())?;
        let mut it = Installation::start(broker, settings()).await?;
        let mut tokens = BTreeMap::new();
        for role in Role::ALL {
            tokens.insert(
                *role,
                create(&it, json!({"actor": format!("{role}-1"), "roles": [role], "namespace": "*"})).await?.0,
            );
        }
        let open = it.schedulers.remove(0);
        it.settings.api.authentication = Authentication::Required;
        it.settings.api.failures_per_minute = failures_per_minute;
        it.add_scheduler().await?;
        open.stop().await;
        Ok(Self { it, tokens })
    }

    fn request(&self, method: &str, path: &str) -> RequestBuilder {
        let method = Method::from_bytes(method.to_ascii_uppercase().as_bytes()).expect("it is a method");
        self.it.http.request(method, self.it.url(path))
    }

    fn as_role(&self, role: Role, method: &str, path: &str) -> RequestBuilder {
        self.request(method, path).bearer_auth(&self.tokens[&role])
    }

    /// Signs in at the web page: the cookie and the CSRF token.
    async fn sign_in(&self, role: Role) -> Result<(String, String)> {
        let answer = self.request("POST", "/v1/session").json(&json!({"token": self.tokens[&role]})).send().await?;
        assert_eq!(answer.status(), StatusCode::OK);
        let cookie = answer.headers()["set-cookie"].to_str()?.to_owned();
        let view: Value = answer.json().await?;
        assert_eq!(view["authentication"], "session");
        let pair = cookie.split(';').next().context("a cookie has a name and a value")?.to_owned();
        Ok((pair, view["csrf"].as_str().context("it has a CSRF token")?.to_owned()))
    }
}

/// Creates a token over an API without authentication: its text and its id.
async fn create(it: &Installation, new: Value) -> Result<(String, String)> {
    let (status, created) = it.post("/v1/tokens", &new).await?;
    assert_eq!(status, 201, "{created:#}");
    let text = |name: &str| created[name].as_str().map(str::to_owned).context("it is a text");
    Ok((text("token")?, text("id")?))
}

async fn code(request: RequestBuilder) -> Result<(u16, String)> {
    let answer = request.send().await?;
    let status = answer.status().as_u16();
    Ok((status, code_of(answer).await?))
}

async fn code_of(answer: Response) -> Result<String> {
    let body: Value = serde_json::from_str(&answer.text().await?).unwrap_or_default();
    Ok(body["code"].as_str().unwrap_or_default().to_owned())
}

/// The address with something in the place of each parameter.
fn filled(path: &str) -> String {
    let name = path.replace("{name}", "plan").replace("{agent_type}", "nobody").replace("{entry}", "1-0");
    let name = name.replace("{stored}", "trip@1");
    name.replace("{id}", ABSENT).replace("{step}", "a").replace("{question}", "a")
}

/// Every operation: method, path, and the roles that may call it; `None` for everybody.
async fn operations(it: &Installation) -> Result<Vec<(String, String, Option<BTreeSet<Role>>)>> {
    let document = it.get("/openapi.json").await?;
    let mut all = Vec::new();
    for (path, methods) in document["paths"].as_object().context("it has paths")? {
        for (method, operation) in methods.as_object().context("a path has methods")? {
            all.push((method.clone(), path.clone(), serde_json::from_value(operation["x-roles"].clone())?));
        }
    }
    Ok(all)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_answers_every_role_as_the_table_says() -> Result<()> {
    let guarded = Guarded::start(1_000).await?;
    let operations = operations(&guarded.it).await?;
    assert!(operations.len() > ROUTES_MIN, "{}", operations.len());
    let mut cells = 0;
    for (method, path, roles) in &operations {
        let place = format!("{method} {path}");
        let address = filled(path);
        let (status, why) = code(guarded.request(method, &address)).await?;
        assert_eq!(roles.is_some(), why == "UNAUTHENTICATED", "{place}: {status} {why}");
        cells += 1;
        for role in Role::ALL {
            let (status, why) = code(guarded.as_role(*role, method, &address)).await?;
            let may = *role == Role::Admin || roles.as_ref().is_none_or(|roles| roles.contains(role));
            assert_eq!((status, why.as_str()) == (403, "FORBIDDEN"), !may, "{place} as {role}: {status} {why}");
            assert_ne!(status, 401, "{place} as {role}");
            cells += 1;
        }
    }
    assert_eq!(cells, operations.len() * (Role::ALL.len() + 1));
    guarded.it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_table_does_not_have_is_refused() -> Result<()> {
    let guarded = Guarded::start(1_000).await?;
    let plan = format!("/v1/plans/{ABSENT}");
    // Another spelling of a verb, or of a path, is never the route of another role.
    for (method, path, admin) in [
        ("POST", format!("{plan}:Cancel"), 404),
        ("POST", format!("{plan}:CANCEL"), 404),
        ("POST", format!("{plan}:"), 404),
        ("POST", plan.clone(), 405),
        ("POST", format!("{plan}:cancel:pause"), 404),
        ("POST", format!("{plan}%3acancel"), 404),
        ("POST", format!("{plan}%3Acancel"), 404),
        ("POST", format!("{plan}:%63ancel"), 404),
        ("POST", format!("{plan}:cancel%00"), 404),
        ("POST", format!("{plan}:cancel%2f"), 404),
        ("PUT", plan.clone(), 405),
        ("PATCH", plan.clone(), 405),
        ("DELETE", plan.clone(), 405),
        ("OPTIONS", plan.clone(), 405),
        ("POST", "/livez".into(), 405),
        ("DELETE", "/".into(), 405),
    ] {
        let (status, why) = code(guarded.request(method, &path)).await?;
        assert_eq!((status, why.as_str()), (401, "UNAUTHENTICATED"), "{method} {path}");
        let (status, why) = code(guarded.as_role(Role::Viewer, method, &path)).await?;
        assert_eq!((status, why.as_str()), (403, "FORBIDDEN"), "{method} {path}");
        let (status, why) = code(guarded.as_role(Role::Admin, method, &path)).await?;
        assert_eq!(status, admin, "{method} {path}: {why}");
    }
    // No route at all: credentials first, then 404 for everybody.
    for path in [
        "//v1/plans", "/v1//plans", "/v1/plans/", "/V1/plans", "/v1/plans;x", "/v1/%70lans", "/v1/./plans%2f",
        "/v2/plans",
    ] {
        let (status, _) = raw(&guarded.it, &format!("GET {path} HTTP/1.1"), &[]).await?;
        assert_eq!(status, 401, "{path}");
        let token = format!("Authorization: Bearer {}", guarded.tokens[&Role::Scaler]);
        let (status, _) = raw(&guarded.it, &format!("GET {path} HTTP/1.1"), &[&token]).await?;
        assert!(matches!(status, 403 | 404), "{path}: {status}");
    }
    guarded.it.stop().await;
    Ok(())
}

/// Sends a request as it is written: the status and the text of the answer.
async fn raw(it: &Installation, line: &str, headers: &[&str]) -> Result<(u16, String)> {
    let api = it.schedulers[0].api().context("the settings name an address")?;
    let mut stream = TcpStream::connect(api).await?;
    let mut request = format!("{line}\r\nHost: {api}\r\nConnection: close\r\n");
    headers.iter().for_each(|header| request.push_str(&format!("{header}\r\n")));
    stream.write_all(format!("{request}\r\n").as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).context("it has a status")?;
    Ok((status, text))
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_expired_and_revoked_tokens_are_refused() -> Result<()> {
    let guarded = Guarded::start(1_000).await?;
    let viewer = &guarded.tokens[&Role::Viewer];
    let parts: Vec<&str> = viewer.split('_').collect();
    let other: Vec<&str> = guarded.tokens[&Role::Admin].split('_').collect();
    assert_eq!((parts.len(), parts[0]), (3, "gm"));
    assert!(parts[2].len() >= 52, "the secret has 256 bits");
    let changed = if viewer.ends_with('0') { "1" } else { "0" };
    let forged = [
        "admin:admin".to_owned(),
        "gm__".to_owned(),
        format!("gm_{}_{}", other[1], parts[2]),
        format!("{}{changed}", &viewer[..viewer.len() - 1]),
        format!("{viewer}0"),
        viewer.to_ascii_uppercase(),
        format!("gm_{}_{}", parts[1], "0".repeat(5_000)),
        // Nobody signs with a key here: a JWT without a signature is a text like any other.
        "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiIsInJvbGVzIjpbImFkbWluIl19.".to_owned(),
    ];
    for token in forged {
        let answer = guarded.request("GET", "/v1/plans").bearer_auth(&token).send().await?;
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{token}");
        assert_eq!(answer.headers()["www-authenticate"], "Bearer realm=\"goalmill\"");
        let text = answer.text().await?;
        assert!(!text.contains(&token), "{text}");
    }
    // A token is taken from no other place.
    for path in [format!("/v1/plans?access_token={viewer}"), format!("/v1/plans?token={viewer}")] {
        assert_eq!(code(guarded.request("GET", &path)).await?.1, "UNAUTHENTICATED", "{path}");
    }
    for (name, value) in [
        ("x-api-key", viewer.clone()),
        ("authorization", format!("Basic {viewer}")),
        ("authorization", viewer.clone()),
        ("cookie", format!("__Host-goalmill={viewer}")),
        ("cookie", format!("goalmill={viewer}")),
        ("proxy-authorization", format!("Bearer {viewer}")),
    ] {
        assert_eq!(code(guarded.request("GET", "/v1/plans").header(name, &value)).await?.0, 401, "{name}: {value}");
    }
    let mut twice = HeaderMap::new();
    twice.append("authorization", HeaderValue::from_str(&format!("Bearer {viewer}"))?);
    twice.append("authorization", HeaderValue::from_str(&format!("Bearer {viewer}"))?);
    assert_eq!(code(guarded.request("GET", "/v1/plans").headers(twice)).await?.0, 401);

    let new = json!({"actor": "short", "roles": ["viewer"], "ttl_ms": 1});
    let short: Value = guarded.as_role(Role::Admin, "POST", "/v1/tokens").json(&new).send().await?.json().await?;
    let short = short["token"].as_str().context("it is created")?;
    let expired = async || {
        code(guarded.request("GET", "/v1/plans").bearer_auth(short)).await.is_ok_and(|(status, _)| status == 401)
    };
    until(SOON, expired).await;

    assert_eq!(guarded.as_role(Role::Viewer, "GET", "/v1/plans").send().await?.status(), StatusCode::OK);
    let (cookie, _) = guarded.sign_in(Role::Viewer).await?;
    let in_session = async || code(guarded.request("GET", "/v1/plans").header("cookie", &cookie)).await;
    assert_eq!(in_session().await?.0, 200);
    let (status, _) = code(guarded.as_role(Role::Admin, "DELETE", &format!("/v1/tokens/{}", parts[1]))).await?;
    assert_eq!(status, 200);
    assert_eq!(guarded.as_role(Role::Viewer, "GET", "/v1/plans").send().await?.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(in_session().await?.0, 401, "a session ends with its token");
    guarded.it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_created_listed_and_revoked_by_an_administrator() -> Result<()> {
    let guarded = Guarded::start(1_000).await?;
    for (new, pointer) in [
        (json!({"actor": "a b", "roles": ["viewer"]}), "/actor"),
        (json!({"actor": "oidc:ann", "roles": ["viewer"]}), "/actor"),
        (json!({"actor": "OIDC:ann", "roles": ["viewer"]}), "/actor"),
        (json!({"actor": "hook:guard", "roles": ["viewer"]}), "/actor"),
        (json!({"actor": "engine", "roles": ["viewer"]}), "/actor"),
        (json!({"actor": "ann", "roles": []}), "/roles"),
        (json!({"actor": "ann", "roles": ["viewer"], "ttl_ms": 0}), "/ttl_ms"),
        (json!({"actor": "ann", "roles": ["viewer"], "namespace": "a/b"}), "/namespace"),
    ] {
        let refusal: Value = guarded.as_role(Role::Admin, "POST", "/v1/tokens").json(&new).send().await?.json().await?;
        assert_eq!(refusal["errors"][0]["pointer"], pointer, "{refusal:#}");
    }
    let listed: Value = guarded.as_role(Role::Admin, "GET", "/v1/tokens").send().await?.json().await?;
    let items = listed["items"].as_array().context("it is a list")?;
    assert_eq!(items.len(), Role::ALL.len());
    for (role, token) in &guarded.tokens {
        let item = items.iter().find(|item| item["roles"] == json!([role])).context("every role has one")?;
        assert_eq!(item["actor"], format!("{role}-1"));
        assert_eq!(item["last_used_at"].is_string(), *role == Role::Admin, "{item:#}");
        let secret = token.rsplit('_').next().context("it has a secret")?;
        assert!(!listed.to_string().contains(secret), "{listed:#}");
    }
    assert_eq!(code(guarded.as_role(Role::Admin, "DELETE", "/v1/tokens/none")).await?, (404, "TOKEN_NOT_FOUND".into()));
    guarded.it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_a_cookie_that_writes_only_with_its_csrf_token() -> Result<()> {
    let guarded = Guarded::start(1_000).await?;
    let answer =
        guarded.request("POST", "/v1/session").json(&json!({"token": guarded.tokens[&Role::Operator]})).send().await?;
    let set = answer.headers()["set-cookie"].to_str()?.to_owned();
    assert_eq!(answer.headers()["cache-control"], "no-store");
    for attribute in ["__Host-goalmill=", "; Path=/;", "; Secure", "; HttpOnly", "; SameSite=Strict", "; Max-Age="] {
        assert!(set.contains(attribute), "{set}");
    }
    assert!(!set.contains("Domain"), "{set}");
    assert!(!answer.text().await?.contains(set.split(['=', ';']).nth(1).context("it has a value")?));

    let (cookie, csrf) = guarded.sign_in(Role::Operator).await?;
    let (_, other_csrf) = guarded.sign_in(Role::Operator).await?;
    let view: Value = guarded.request("GET", "/v1/session").header("cookie", &cookie).send().await?.json().await?;
    assert_eq!(
        (&view["actor"], &view["csrf"], &view["roles"]),
        (&json!("operator-1"), &json!(csrf), &json!(["operator"]))
    );
    let pause = || guarded.request("POST", "/v1/queues/nobody:pause").header("cookie", &cookie);
    for (name, value) in
        [("x-other", csrf.as_str()), ("x-csrf-token", ""), ("x-csrf-token", "x"), ("x-csrf-token", &other_csrf)]
    {
        assert_eq!(code(pause().header(name, value)).await?, (403, "FORBIDDEN".into()), "{name}: {value}");
    }
    assert_eq!(code(pause().header("x-csrf-token", &csrf)).await?, (404, "QUEUE_NOT_FOUND".into()));
    let foreign = pause().header("x-csrf-token", &csrf).header("origin", "https://evil.example");
    assert_eq!(code(foreign).await?, (403, "FOREIGN_ORIGIN".into()));
    // Another page cannot sign somebody in either.
    let sign_in = guarded.request("POST", "/v1/session").json(&json!({"token": guarded.tokens[&Role::Viewer]}));
    assert_eq!(code(sign_in.header("origin", "https://evil.example")).await?, (403, "FOREIGN_ORIGIN".into()));
    let elsewhere = guarded.as_role(Role::Admin, "GET", "/v1/plans").header("host", "evil.example");
    assert_eq!(code(elsewhere).await?, (421, "MISDIRECTED_REQUEST".into()));

    assert_eq!(code(guarded.request("DELETE", "/v1/session").header("cookie", &cookie)).await?.0, 403);
    let out =
        guarded.request("DELETE", "/v1/session").header("cookie", &cookie).header("x-csrf-token", &csrf).send().await?;
    assert_eq!(out.status(), StatusCode::NO_CONTENT);
    assert!(out.headers()["set-cookie"].to_str()?.contains("Max-Age=0"));
    assert_eq!(code(guarded.request("GET", "/v1/session").header("cookie", &cookie)).await?.0, 401);
    guarded.it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_with_too_many_failures_waits() -> Result<()> {
    let guarded = Guarded::start(3).await?;
    let valid = || guarded.as_role(Role::Viewer, "GET", "/v1/plans");
    for _ in 0..10 {
        assert_eq!(code(guarded.request("GET", "/v1/plans")).await?.0, 401, "no credentials are no failure");
    }
    assert_eq!(code(guarded.request("GET", "/v1/plans").bearer_auth("x")).await?.0, 401);
    assert_eq!(code(guarded.request("GET", "/v1/plans").header("cookie", "__Host-goalmill=x")).await?.0, 401);
    assert_eq!(code(valid()).await?.0, 200);
    let sign_in = || guarded.request("POST", "/v1/session").json(&json!({"token": "x"}));
    assert_eq!(code(sign_in()).await?.0, 401);
    for request in [guarded.request("GET", "/v1/plans").bearer_auth("x"), sign_in(), valid()] {
        let answer = request.send().await?;
        assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
        let wait: u64 = answer.headers()["retry-after"].to_str()?.parse()?;
        assert!((1..=60).contains(&wait), "{wait}");
        assert_eq!(code_of(answer).await?, "TOO_MANY_FAILURES");
    }
    assert_eq!(code(guarded.request("GET", "/livez")).await?.0, 200);
    guarded.it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_tokens_of_callbacks_shut_an_address_out_of_callbacks_only() -> Result<()> {
    let guarded = Guarded::start(3).await?;
    let path = format!("/v1/callbacks/{ABSENT}/a/1");
    let report = || guarded.request("POST", &path).header("goalmill-callback-token", "x").json(&json!({"outputs": 1}));
    for _ in 0..3 {
        assert_eq!(code(report()).await?.0, 404);
    }
    assert_eq!(code(report()).await?, (429, "TOO_MANY_FAILURES".into()));
    assert_eq!(code(guarded.as_role(Role::Viewer, "GET", "/v1/plans")).await?.0, 200);
    guarded.sign_in(Role::Viewer).await?;
    guarded.it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_body_of_a_caller_without_credentials_is_small_and_checked_first() -> Result<()> {
    let guarded = Guarded::start(1_000).await?;
    let callback = format!("POST /v1/callbacks/{ABSENT}/a/1 HTTP/1.1");
    // Nothing of the body is sent: whoever waits for it gets 408.
    let large = "Content-Length: 1000000";
    assert_eq!(raw(&guarded.it, "POST /v1/session HTTP/1.1", &[large]).await?.0, 413);
    assert_eq!(raw(&guarded.it, &callback, &[large]).await?.0, 413);
    assert_eq!(raw(&guarded.it, &callback, &[large, "Goalmill-Callback-Token: x"]).await?.0, 404);
    guarded.it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_actor_of_an_event_is_the_caller_whatever_the_body_says() -> Result<()> {
    let guarded = Guarded::start(1_000).await?;
    let plan = json!({"steps": [step("a", "nobody", &[], json!({}))]});
    let accepted: Value =
        guarded.as_role(Role::Submitter, "POST", "/v1/plans").json(&plan).send().await?.json().await?;
    let id = accepted["plan_id"].as_str().context("it is accepted")?.into();
    let cancel = guarded.as_role(Role::Operator, "POST", &format!("/v1/plans/{id}:cancel"));
    assert_eq!(code(cancel.json(&json!({"actor": "mallory", "reason": "r"}))).await?.0, 200);
    let log = format!("{:?}", guarded.it.log(&id).await?);
    assert!(log.contains("operator-1") && !log.contains("mallory"), "{log}");
    guarded.it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn executing_a_plan_that_waits_needs_the_role_to_approve_it() -> Result<()> {
    let guarded = Guarded::start(1_000).await?;
    let goal = json!({"description": "Plan a 3-day trip to Paris", "planning": {"require_approval": true}});
    let execute =
        |token: &str, body: &Value| guarded.request("POST", "/v1/actions/execute").bearer_auth(token).json(body);
    let token = async |roles: Value| -> Result<String> {
        let new = json!({"actor": "ann", "roles": roles});
        let made: Value = guarded.as_role(Role::Admin, "POST", "/v1/tokens").json(&new).send().await?.json().await?;
        Ok(made["token"].as_str().context("it is created")?.to_owned())
    };
    let (submitter, both) = (token(json!(["submitter"])).await?, token(json!(["submitter", "approver"])).await?);
    let made = guarded.request("POST", "/v1/goals").bearer_auth(&submitter).json(&goal).send().await?;
    let made: Value = made.json().await?;
    let path = format!("/v1/plans/{}", made["plan_id"].as_str().context("it is accepted")?);
    let awaits = async || {
        let Ok(answer) = guarded.request("GET", &path).bearer_auth(&submitter).send().await else { return false };
        answer.json::<Value>().await.is_ok_and(|plan| plan["status"] == "awaiting_approval")
    };
    until(SOON, awaits).await;
    let body = json!({"plan": made["plan_id"], "wait_seconds": 60});
    let refusal: Value = execute(&submitter, &body).send().await?.json().await?;
    assert_eq!(refusal["code"], "FORBIDDEN");
    assert!(refusal["detail"].as_str().is_some_and(|detail| detail.contains("approver")), "{refusal:#}");
    assert_eq!(code(execute(&both, &body)).await?.0, 200);
    guarded.it.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_api_says_so() -> Result<()> {
    let it = Installation::embedded().await?;
    let view = it.get("/v1/session").await?;
    assert_eq!((&view["authentication"], &view["actor"]), (&json!("none"), &json!("api")));
    assert!(view["roles"].as_array().is_some_and(|roles| roles.contains(&json!("admin"))));
    let answer = it.http.post(it.url("/v1/session")).json(&json!({"token": "x"})).send().await?;
    assert!(answer.status().is_success() && !answer.headers().contains_key("set-cookie"));
    it.stop().await;
    Ok(())
}
