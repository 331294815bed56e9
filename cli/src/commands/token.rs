//! `token`: creates, lists and revokes tokens for the API.

use goalmill_common::access::{NewToken, TokenView};
use goalmill_common::number::milliseconds;
use goalmill_common::view::Page;

use crate::args::{TimeFormat, TokenCommand};
use crate::context::CommandContext;
use crate::exit::{CommandResult, Exit};
use crate::output::{Table, time};

pub async fn run(context: &CommandContext, command: TokenCommand) -> CommandResult {
    match command {
        TokenCommand::Create { actor, role, scope, ttl } => {
            let ttl_ms = ttl.map(milliseconds);
            let roles = role.into_iter().collect();
            create(context, &NewToken { actor, roles, namespace: scope, ttl_ms }).await
        }
        TokenCommand::List => list(context).await,
        TokenCommand::Revoke { id } => revoke(context, &id).await,
    }
}

async fn create(context: &CommandContext, new: &NewToken) -> CommandResult {
    let created = context.client.create_token(new).await?;
    if context.screen.is_for_people() {
        let id = &created.view.id;
        context.screen.note(format!("token {id} of {}; its text is shown this once", created.view.actor));
    }
    context.screen.show(&created, &created.token, |_| format!("{}\n", created.token))?;
    Ok(Exit::Done)
}

async fn list(context: &CommandContext) -> CommandResult {
    let page = context.client.tokens().await?;
    context.screen.list(&page, &page.items, |token| token.id.clone(), |_| people(&page, context))?;
    Ok(Exit::Done)
}

async fn revoke(context: &CommandContext, id: &str) -> CommandResult {
    let revoked = context.client.revoke_token(id).await?;
    context.screen.show(&revoked, id, |_| format!("token {id} of {} is revoked\n", revoked.actor))?;
    Ok(Exit::Done)
}

fn people(page: &Page<TokenView>, context: &CommandContext) -> String {
    let form = context.screen.times(TimeFormat::Relative);
    let at = |text: &Option<String>, none: &str| match text {
        Some(text) => time(text, form, &context.clock),
        None => none.to_owned(),
    };
    let mut table = Table::new(&["ID", "ACTOR", "ROLES", "NAMESPACE", "CREATED", "EXPIRES", "LAST USED"]);
    for token in &page.items {
        let roles: Vec<&str> = token.roles.iter().map(|role| role.as_str()).collect();
        table.row([
            token.id.clone(),
            token.actor.clone(),
            roles.join(","),
            token.namespace.clone(),
            time(&token.created_at, form, &context.clock),
            token.expires_at.clone().unwrap_or_else(|| "never".into()),
            at(&token.last_used_at, "never"),
        ]);
    }
    table.render(context.screen.palette, "no tokens; create one: goalmill token create NAME --role viewer")
}
