//! The driver of real processes on Redis: runs cases whose outcome no time changes, while processes are killed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use goalmill_common::clock::Clock;
use goalmill_common::view::PlanView;
use goalmill_spec::{
    Confluent, Incomparable, Outcome, Run, Verdict, add_withdrawn, check_engine, confluent, hurry, shrink, step_ends,
};
use rand::Rng;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::agent::{Agent, serve};
use crate::installation::{Installation, SCHEDULERS};

/// Workers of the installation, each with one place.
const WORKERS: usize = 24;
/// Plans that run at the same time.
const PLANS: usize = 40;
/// A plan that has not ended by then does not end.
const END_LIMIT: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(500);

/// What many cases gave.
#[derive(Debug, Default)]
pub struct Tally {
    pub ran: u32,
    pub left_out: BTreeMap<Incomparable, u32>,
    /// In words, with the cases.
    pub findings: Vec<String>,
}

/// A running installation and its agent.
pub struct Driver {
    pub agent: Arc<Agent>,
    pub installation: Arc<Installation>,
    _tasks: JoinSet<Result<()>>,
    _dir: TempDir,
}

impl Driver {
    /// Starts everything; schedulers are killed at random moments from now on.
    pub async fn start() -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("goalmill-spec-").tempdir()?;
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let agent = Arc::new(Agent::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, agent.clone()));
        let installation = Arc::new(Installation::start(dir.path(), port, WORKERS).await?);
        agent.installation.set(installation.clone()).ok().context("it is set once")?;
        tasks.spawn(kill_schedulers(installation.clone()));
        Ok(Self { agent, installation, _tasks: tasks, _dir: dir })
    }

    /// Runs a case, and says in what it differs from the laws.
    pub async fn check(&self, confluent: &Confluent, prefix: &str) -> Result<Option<String>> {
        self.agent.add(prefix, confluent.case.script.clone());
        let ended = self.run(confluent, prefix).await;
        let asks = self.agent.remove(prefix);
        let (plan, run) = match ended {
            Ok((plan, run)) => (plan, Run { asks, ..run }),
            Err(error) => return Ok(Some(format!("{error:#}\n{}\nasked {asks:?}", spell(confluent)))),
        };
        let mut seen = Outcome::of(&run, prefix);
        add_withdrawn(&mut seen, confluent, prefix);
        let Some(difference) = confluent.expected.difference(&seen) else { return Ok(None) };
        let log = self.log(&plan).await?;
        Ok(Some(format!("{difference}\n{}\nseen {seen:?}\nasked {:?}\nlog {log}", spell(confluent), run.asks)))
    }

    /// The log of a plan, and those of the plans inside it.
    async fn log(&self, plan: &str) -> Result<String> {
        let (_, log) = self.installation.call(&format!("/v1/plans/{plan}/events?limit=1000"), None, "").await?;
        let (_, view) = self.installation.call(&format!("/v1/plans/{plan}"), None, "").await?;
        let mut text = log.to_string();
        for inside in view["steps"].as_array().into_iter().flatten().filter_map(|step| step["sub_plan"].as_str()) {
            text.push_str(&format!("\ninside {inside} {}", Box::pin(self.log(inside)).await?));
        }
        Ok(text)
    }

    /// Submits a plan, sends its events and its cancellation, and waits until it has ended.
    async fn run(&self, Confluent { case, .. }: &Confluent, prefix: &str) -> Result<(String, Run)> {
        let begun = Instant::now();
        let mut document = case.document.clone();
        if let Some(deadline_ms) = case.script.deadline_ms {
            document["goal"] = json!({"description": prefix, "deadline_ms": Clock::system().now_ms() + deadline_ms});
        }
        let plan = match self.installation.call("/v1/plans", Some(&document), prefix).await? {
            (202, answer) => answer["plan_id"].as_str().context("a plan has an id")?.to_owned(),
            refused => bail!("the plan is refused: {refused:?}"),
        };
        for (n, event) in case.script.events.iter().enumerate() {
            tokio::time::sleep_until(begun + Duration::from_millis(event.at_ms)).await;
            let id = format!("{prefix}{n}");
            let body = json!({"id": id, "name": event.name, "key": event.key, "data": event.data});
            let (status, answer) = self.installation.call("/v1/events", Some(&body), &id).await?;
            ensure!(status == 200, "an event is refused: {answer}");
        }
        if let Some(cancel_ms) = case.script.cancel_ms() {
            tokio::time::sleep_until(begun + Duration::from_millis(cancel_ms)).await;
            // A plan that has ended refuses it.
            self.installation.call(&format!("/v1/plans/{plan}:cancel"), Some(&json!({})), prefix).await?;
        }
        let path = format!("/v1/plans/{plan}");
        loop {
            let (_, answer) = self.installation.call(&path, None, "").await?;
            let view: PlanView = serde_json::from_value(answer).context("a plan is served")?;
            if view.summary.status.is_final() {
                let (_, results) = self.installation.call(&format!("{path}/results"), None, "").await?;
                return Ok((plan, shown(view, &results["results"])));
            }
            if begun.elapsed() > END_LIMIT {
                bail!("the plan does not end\nlog {}", self.log(&plan).await?);
            }
            sleep(PAUSE).await;
        }
    }
}

/// What is served of a plan that has ended.
fn shown(view: PlanView, results: &Value) -> Run {
    // A 5xx and a cut connection are the same to the laws.
    let code = view.failure.map(|failure| failure.code.replace("HTTP_UNREACHABLE", "HTTP_503"));
    Run {
        status: view.summary.status,
        code,
        steps: step_ends(view.steps, |id| results.get(id).cloned()),
        asks: Vec::new(),
        ended_ms: 0,
        tokens: view.summary.usage.tokens,
        forked: None,
        laws: Default::default(),
    }
}

/// The case, made small if the engine alone shows the same, and what the laws say.
fn spell(Confluent { case, expected }: &Confluent) -> String {
    let small = match check_engine(case) {
        Verdict::Found(finding) => Some(shrink(case.clone(), &|other| other.kind == finding.kind)),
        Verdict::Invalid(_) | Verdict::Undecided(_) | Verdict::Kept(_) => None,
    };
    let case = serde_json::to_string(case).expect("a case is plain data");
    format!("case {case}\nthe engine alone {small:?}\nby the laws {expected:?}")
}

/// Checks the comparable cases among those of some seeds, at most so many.
pub async fn check_seeds(driver: &Arc<Driver>, seeds: impl Iterator<Item = u64>, most: u32) -> Result<Tally> {
    let (mut tally, mut running) = (Tally::default(), JoinSet::new());
    for seed in seeds {
        if tally.ran == most {
            break;
        }
        let prefix = format!("c{seed}-");
        match confluent(&hurry(seed, &prefix, 1), &prefix, 1) {
            Ok(confluent) => {
                tally.ran += 1;
                let driver = driver.clone();
                running.spawn(async move { (seed, driver.check(&confluent, &prefix).await) });
            }
            Err(why) => *tally.left_out.entry(why).or_default() += 1,
        }
        if running.len() == PLANS {
            tally.take(running.join_next().await.context("plans run")??)?;
        }
    }
    while let Some(ended) = running.join_next().await {
        tally.take(ended?)?;
    }
    Ok(tally)
}

impl Tally {
    fn take(&mut self, (seed, found): (u64, Result<Option<String>>)) -> Result<()> {
        self.findings.extend(found?.map(|text| format!("seed {seed}: {text}")));
        Ok(())
    }

    /// The counts in words.
    pub fn summary(&self, installation: &Installation) -> String {
        format!(
            "{} plans ran, {} differ, {:?} not comparable; {} workers and {} schedulers killed",
            self.ran,
            self.findings.len(),
            self.left_out,
            installation.kills_of_workers.load(Ordering::Relaxed),
            installation.kills_of_schedulers.load(Ordering::Relaxed)
        )
    }
}

/// Kills a scheduler now and then, for ever.
async fn kill_schedulers(installation: Arc<Installation>) -> Result<()> {
    loop {
        let (until, pause, n) = {
            let mut random = rand::rng();
            (random.random_range(500..5_000), random.random_range(0..1_500), random.random_range(0..SCHEDULERS))
        };
        sleep(Duration::from_millis(until)).await;
        installation.restart_scheduler(n, Duration::from_millis(pause)).await?;
    }
}
