//! `plan fork`: starts a new plan from a step of another.

use goalmill_client::Client;
use goalmill_common::random::Random;
use serde_json::json;

use super::{checked_id, edit_request, submit};
use crate::args::ForkArgs;
use crate::context::CommandContext;
use crate::exit::{CommandResult, Exit, Failed};
use crate::watch::Source;

pub async fn run(context: &CommandContext, args: &ForkArgs) -> CommandResult {
    if args.wait.redis.is_some() {
        return Err(Failed::new(Exit::Usage, "`plan fork` needs the API and cannot use `--redis`")
            .help("omit --redis, and name the scheduler by --server URL"));
    }
    let client: &Client = &context.client;
    let plan = client.resolve(&args.what.plan).await?;
    let mut body = json!({ "reason": args.what.reason });
    let given = [("step", &args.step), ("planner", &args.planner), ("model", &args.model)];
    for (name, value) in given.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
        body[name] = value.as_str().into();
    }
    if args.only {
        body["only"] = true.into();
    }
    if let Some(revision) = args.revision {
        body["revision"] = revision.into();
    }
    if !args.input.is_empty() {
        let document = match args.revision {
            Some(revision) => client.graph_at(&plan, revision).await?,
            None => client.graph(&plan).await?,
        };
        body["inputs"] = edit_request::inputs(&args.input, &document)?.into();
    }
    let key = match &args.wait.idempotency_key {
        Some(key) => {
            checked_id("idempotency key", key)?;
            key.clone()
        }
        None => format!("cli-{}", Random::system().token()),
    };
    let accepted = client.fork(&plan, body, &key).await?;
    context.screen.note(format!("forked from {plan}; compare: goalmill plan diff {plan} {}", accepted.plan_id));
    submit::follow(context, &args.wait, &accepted, Source::Api(client.clone())).await
}
