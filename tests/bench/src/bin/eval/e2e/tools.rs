//! The workplace tools of WorkBench that change something, over its tables.
//!
//! What they check and answer follows its tools (`src/tools/*.py`, olly-styles/WorkBench, MIT): a refusal is an
//! answer in words, not a failure. Two places differ, where upstream depends on how pandas numbers rows: a new row
//! goes to the end, and an identifier always has eight digits.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use serde_json::Value;

use super::call::Call;
use super::csv::Table;

/// When everything happens, in the data set's own time.
const NOW: &str = "2023-11-30 00:00:00";
const STATUSES: &[&str] = &["Qualified", "Won", "Lost", "Lead", "Proposal"];
const INTERESTS: &[&str] = &["Software", "Hardware", "Services", "Consulting", "Training"];
const LISTS: &[&str] = &["Backlog", "In Progress", "In Review", "Completed"];
const BOARDS: &[&str] = &["Back end", "Front end", "Design"];
const PLOTS: &[&str] = &["bar", "line", "scatter", "histogram"];
const METRICS: &[&str] = &[
    "total_visits",
    "session_duration_seconds",
    "user_engaged",
    "visits_direct",
    "visits_referral",
    "visits_search_engine",
    "visits_social_media",
];

/// The table that an agent type works on, and its file.
const TABLES: &[(&str, &str)] = &[
    ("analytics", "analytics_data.csv"),
    ("calendar", "calendar_events.csv"),
    ("customer_relationship_manager", "customer_relationship_manager_data.csv"),
    ("email", "emails.csv"),
    ("project_management", "project_tasks.csv"),
];
/// What `analytics` writes to; upstream keeps it apart from what it reads.
const PLOTTED: &str = "plots";

/// Each tool and its parameters, in the order in which they may be given without names.
const TOOLS: &[(&str, &[&str])] = &[
    ("analytics.create_plot", &["time_min", "time_max", "value_to_plot", "plot_type"]),
    ("calendar.create_event", &["event_name", "participant_email", "event_start", "duration"]),
    ("calendar.delete_event", &["event_id"]),
    ("calendar.update_event", &["event_id", "field", "new_value"]),
    (
        "customer_relationship_manager.add_customer",
        &[
            "customer_name", "assigned_to_email", "status", "customer_email", "customer_phone", "last_contact_date",
            "product_interest", "notes", "follow_up_by",
        ],
    ),
    ("customer_relationship_manager.delete_customer", &["customer_id"]),
    ("customer_relationship_manager.update_customer", &["customer_id", "field", "new_value"]),
    ("email.delete_email", &["email_id"]),
    ("email.forward_email", &["email_id", "recipient"]),
    ("email.reply_email", &["email_id", "body"]),
    ("email.send_email", &["recipient", "subject", "body"]),
    ("project_management.create_task", &["task_name", "assigned_to_email", "list_name", "due_date", "board"]),
    ("project_management.delete_task", &["task_id"]),
    ("project_management.update_task", &["task_id", "field", "new_value"]),
];

/// Arguments by name.
pub type Arguments = BTreeMap<String, String>;

/// The agent types that serve the tools.
pub fn agent_types() -> impl Iterator<Item = &'static str> {
    TABLES.iter().map(|(agent_type, _)| *agent_type)
}

/// Gives arguments without a name theirs; the error says what does not fit.
pub fn arguments(call: &Call) -> Result<Arguments, String> {
    let tool = TOOLS.iter().find(|(name, _)| *name == call.tool);
    let Some((_, parameters)) = tool else { return Err(format!("there is no tool `{}`", call.tool)) };
    if call.positional.len() > parameters.len() {
        return Err(format!("`{}` takes {} arguments, not {}", call.tool, parameters.len(), call.positional.len()));
    }
    let given = parameters.iter().map(|name| (*name).to_owned()).zip(call.positional.iter().cloned());
    let arguments: Arguments = given.chain(call.named.iter().cloned()).collect();
    match arguments.keys().find(|name| !parameters.contains(&name.as_str())) {
        Some(name) => Err(format!("`{}` has no parameter `{name}`", call.tool)),
        None => Ok(arguments),
    }
}

/// All tables of one person's workplace; copies share what neither has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Desk {
    tables: BTreeMap<&'static str, Arc<Table>>,
}

impl Desk {
    /// Reads the tables from a directory of CSV files.
    pub fn read(dir: &Path) -> Result<Self> {
        let mut tables = BTreeMap::from([(PLOTTED, Arc::new(Table::new(&["file_path"])))]);
        for (agent_type, file) in TABLES {
            let path = dir.join(file);
            let text =
                std::fs::read_to_string(&path).with_context(|| format!("`{}` cannot be read", path.display()))?;
            let table = Table::read(&text).with_context(|| path.display().to_string())?;
            tables.insert(agent_type, Arc::new(table));
        }
        Ok(Self { tables })
    }

    /// What became of `before`, by table; tables that are the same are left out.
    pub fn changes_since(&self, before: &Self) -> BTreeMap<&'static str, Value> {
        let differs = |name: &&'static str| before.tables.get(*name) != self.tables.get(*name);
        let changes = |name: &'static str| (name, self.tables[name].changes_since(&before.tables[name]));
        self.tables.keys().copied().filter(differs).map(changes).collect()
    }

    /// Does what a tool does and returns its answer; the error says why there is no such tool.
    pub fn call(&mut self, tool: &str, arguments: &Arguments) -> Result<String, String> {
        let given = Given(arguments);
        Ok(match tool {
            "analytics.create_plot" => self.create_plot(&given),
            "calendar.create_event" => self.create_event(&given),
            "calendar.delete_event" => self.delete("calendar", "event_id", "Event", &given),
            "calendar.update_event" => self.update_event(&given),
            "customer_relationship_manager.add_customer" => self.add_customer(&given),
            "customer_relationship_manager.delete_customer" => {
                self.delete("customer_relationship_manager", "customer_id", "Customer", &given)
            }
            "customer_relationship_manager.update_customer" => self.update_customer(&given),
            "email.delete_email" => self.delete("email", "email_id", "Email", &given),
            "email.forward_email" => self.forward_email(&given),
            "email.reply_email" => self.reply_email(&given),
            "email.send_email" => self.send_email(given.of("recipient"), given.of("subject"), given.of("body")),
            "project_management.create_task" => self.create_task(&given),
            "project_management.delete_task" => self.delete("project_management", "task_id", "Task", &given),
            "project_management.update_task" => self.update_task(&given),
            _ => return Err(format!("there is no tool `{tool}`")),
        })
    }

    fn table(&mut self, name: &'static str) -> &mut Table {
        Arc::make_mut(self.tables.get_mut(name).expect("every table is read at the start"))
    }

    /// One more than the highest identifier.
    fn next_id(&mut self, name: &'static str, column: &str) -> String {
        let table = self.table(name);
        let at = table.column(column);
        let ids = table.rows.iter().filter_map(|row| row[at?].parse::<u64>().ok());
        format!("{:08}", ids.max().map_or(0, |highest| highest + 1))
    }

    fn delete(&mut self, name: &'static str, column: &str, noun: &str, given: &Given<'_>) -> String {
        let id = given.of(column);
        if id.is_empty() {
            return format!("{noun} ID not provided.");
        }
        let table = self.table(name);
        let Some(at) = table.column(column) else { return format!("{noun} not found.") };
        let before = table.rows.len();
        table.rows.retain(|row| row[at] != id);
        let verdict = if table.rows.len() < before { "deleted successfully" } else { "not found" };
        format!("{noun} {verdict}.")
    }

    /// Changes one cell of the row with an identifier.
    fn update(&mut self, name: &'static str, key: &str, noun: &str, given: &Given<'_>, value: &str) -> String {
        let table = self.table(name);
        let Some(row) = table.find(key, given.of(key)) else { return format!("{noun} not found.") };
        let Some(column) = table.column(given.of("field")) else { return "Field not valid.".into() };
        value.clone_into(&mut table.rows[row][column]);
        format!("{noun} updated successfully.")
    }

    fn create_plot(&mut self, given: &Given<'_>) -> String {
        let [from, to, metric, kind] =
            ["time_min", "time_max", "value_to_plot", "plot_type"].map(|name| given.of(name));
        if from.is_empty() {
            return "Start date not provided.".into();
        }
        if to.is_empty() {
            return "End date not provided.".into();
        }
        if !METRICS.contains(&metric) {
            return format!("Value to plot must be one of {}.", METRICS.join(", "));
        }
        if !PLOTS.contains(&kind) {
            return format!("Plot type must be one of {}.", PLOTS.join(", "));
        }
        let path = format!("plots/{from}_{to}_{metric}_{kind}.png");
        self.table(PLOTTED).append(&[("file_path", &path)]);
        path
    }

    fn create_event(&mut self, given: &Given<'_>) -> String {
        let fields = ["event_name", "participant_email", "event_start", "duration"];
        let [name, email, start, duration] = fields.map(|name| given.of(name));
        if let Some(missing) = fields.iter().find(|field| given.of(field).is_empty()) {
            return format!("`{missing}` not provided.");
        }
        let email = email.to_lowercase();
        let id = self.next_id("calendar", "event_id");
        self.table("calendar").append(&[
            ("event_id", &id),
            ("event_name", name),
            ("participant_email", &email),
            ("event_start", start),
            ("duration", duration),
        ]);
        id
    }

    fn update_event(&mut self, given: &Given<'_>) -> String {
        if given.lacks(&["event_id", "field", "new_value"]) {
            return "Event ID, field, or new value not provided.".into();
        }
        let value = given.lowered_if("participant_email");
        self.update("calendar", "event_id", "Event", given, &value)
    }

    fn add_customer(&mut self, given: &Given<'_>) -> String {
        if given.lacks(&["customer_name", "assigned_to_email", "status"]) {
            return "Please provide all required fields: customer_name, assigned_to_email, status.".into();
        }
        let id = self.next_id("customer_relationship_manager", "customer_id");
        let assigned = given.of("assigned_to_email").to_lowercase();
        let email = given.of("customer_email").to_lowercase();
        self.table("customer_relationship_manager").append(&[
            ("customer_id", &id),
            ("customer_name", given.of("customer_name")),
            ("customer_email", &email),
            ("customer_phone", given.of("customer_phone")),
            ("last_contact_date", given.of("last_contact_date")),
            ("product_interest", given.of("product_interest")),
            ("status", given.of("status")),
            ("assigned_to_email", &assigned),
            ("notes", given.of("notes")),
            ("follow_up_by", given.of("follow_up_by")),
        ]);
        id
    }

    fn update_customer(&mut self, given: &Given<'_>) -> String {
        if given.lacks(&["customer_id", "field", "new_value"]) {
            return "Customer ID, field, or new value not provided.".into();
        }
        let (field, value) = (given.of("field"), given.of("new_value"));
        if field == "status" && !STATUSES.contains(&value) {
            return format!("Status not valid. Please choose from: {}.", STATUSES.join(", "));
        }
        if field == "product_interest" && !INTERESTS.contains(&value) {
            return format!("Product interest not valid. Please choose from: {}.", INTERESTS.join(", "));
        }
        let value = given.lowered_if("email");
        self.update("customer_relationship_manager", "customer_id", "Customer", given, &value)
    }

    fn create_task(&mut self, given: &Given<'_>) -> String {
        let fields = ["task_name", "assigned_to_email", "list_name", "due_date", "board"];
        if given.lacks(&fields) {
            return "Missing task details.".into();
        }
        let [name, assigned, list, due, board] = fields.map(|field| given.of(field));
        if !LISTS.contains(&list) {
            return format!("List not valid. Please choose from: {}.", LISTS.join(", "));
        }
        if !BOARDS.contains(&board) {
            return format!("Board not valid. Please choose from: {}.", BOARDS.join(", "));
        }
        let assigned = assigned.to_lowercase();
        let id = self.next_id("project_management", "task_id");
        self.table("project_management").append(&[
            ("task_id", &id),
            ("task_name", name),
            ("assigned_to_email", &assigned),
            ("list_name", list),
            ("due_date", due),
            ("board", board),
        ]);
        id
    }

    fn update_task(&mut self, given: &Given<'_>) -> String {
        if given.lacks(&["task_id", "field", "new_value"]) {
            return "Task ID, field, or new value not provided.".into();
        }
        let value = given.lowered_if("assigned_to_email");
        self.update("project_management", "task_id", "Task", given, &value)
    }

    fn send_email(&mut self, recipient: &str, subject: &str, body: &str) -> String {
        if recipient.is_empty() || subject.is_empty() || body.is_empty() {
            return "Recipient, subject, or body not provided.".into();
        }
        if !is_address(recipient) {
            return "Invalid recipient email address.".into();
        }
        let recipient = recipient.to_lowercase();
        let id = self.next_id("email", "email_id");
        self.table("email").append(&[
            ("email_id", &id),
            ("inbox/outbox", "outbox"),
            ("sender/recipient", &recipient),
            ("subject", subject),
            ("sent_datetime", NOW),
            ("body", body),
        ]);
        "Email sent successfully.".into()
    }

    fn forward_email(&mut self, given: &Given<'_>) -> String {
        let (id, recipient) = (given.of("email_id"), given.of("recipient"));
        if id.is_empty() || recipient.is_empty() {
            return "Email ID or recipient not provided.".into();
        }
        let Some([_, subject, body]) = self.mail(id) else { return "Email not found.".into() };
        if !is_address(recipient) {
            return "Invalid recipient email address.".into();
        }
        let answer = self.send_email(recipient, &format!("FW: {subject}"), &body);
        if answer == "Email sent successfully." { "Email forwarded successfully.".into() } else { answer }
    }

    fn reply_email(&mut self, given: &Given<'_>) -> String {
        let (id, body) = (given.of("email_id"), given.of("body"));
        if id.is_empty() || body.is_empty() {
            return "Email ID or body not provided.".into();
        }
        let Some([sender, subject, _]) = self.mail(id) else { return "Email not found.".into() };
        let answer = self.send_email(&sender, &subject, body);
        if answer == "Email sent successfully." { "Email replied successfully.".into() } else { answer }
    }

    /// Sender, subject and body.
    fn mail(&mut self, id: &str) -> Option<[String; 3]> {
        let table = self.table("email");
        let row = table.find("email_id", id)?;
        let cell = |name: &str| table.column(name).map(|at| table.rows[row][at].clone());
        Some([cell("sender/recipient")?, cell("subject")?, cell("body")?])
    }
}

fn is_address(text: &str) -> bool {
    text.contains('@') && text.contains('.')
}

struct Given<'a>(&'a Arguments);

impl Given<'_> {
    fn of(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    fn lacks(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.of(name).is_empty())
    }

    /// The new value, in lower case for a field of addresses.
    fn lowered_if(&self, ending: &str) -> String {
        let value = self.of("new_value");
        if self.of("field").ends_with(ending) { value.to_lowercase() } else { value.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::call::read_call;
    use super::*;

    fn desk() -> Desk {
        let table = |text: &str| Arc::new(Table::read(text).unwrap());
        let mails = "email_id,inbox/outbox,sender/recipient,subject,sent_datetime,body\n\
                     00000009,inbox,ann@example.com,Hello,2023-11-01 09:00:00,How are you?\n";
        let tables = [
            (PLOTTED, table("file_path\n")),
            ("email", table(mails)),
            (
                "calendar",
                table("event_id,event_name,participant_email,event_start,duration\n00000004,walk,a@b.c,x,30\n"),
            ),
        ];
        Desk { tables: BTreeMap::from(tables) }
    }

    fn call(desk: &mut Desk, text: &str) -> String {
        let call = read_call(text).unwrap();
        desk.call(&call.tool, &arguments(&call).unwrap()).unwrap()
    }

    #[test]
    fn a_reply_goes_to_the_sender_with_the_next_identifier() {
        let mut desk = desk();
        assert_eq!(call(&mut desk, "email.reply_email('00000009', body='Fine')"), "Email replied successfully.");
        let last = desk.table("email").rows.pop().unwrap();
        assert_eq!(last, ["00000010", "outbox", "ann@example.com", "Hello", NOW, "Fine"]);
    }

    #[test]
    fn a_refusal_is_an_answer_and_changes_nothing() {
        let mut changed = desk();
        assert_eq!(call(&mut changed, "email.forward_email(email_id='1', recipient='a@b.c')"), "Email not found.");
        assert_eq!(call(&mut changed, "email.send_email('nobody', 's', 'b')"), "Invalid recipient email address.");
        assert_eq!(call(&mut changed, "calendar.update_event('00000004', 'colour', 'red')"), "Field not valid.");
        assert_eq!(changed, desk());
    }

    #[test]
    fn what_was_done_shows_as_changes() {
        let (mut done, before) = (desk(), desk());
        call(&mut done, "calendar.delete_event(event_id='00000004')");
        call(&mut done, "analytics.create_plot('a', 'b', 'total_visits', 'bar')");
        let changes = done.changes_since(&before);
        assert_eq!(changes.keys().copied().collect::<Vec<_>>(), ["calendar", "plots"]);
        assert_eq!(changes["calendar"]["removed"], serde_json::json!(["00000004"]));
    }

    #[test]
    fn unknown_tools_and_parameters_are_named() {
        assert!(arguments(&read_call("email.burn()").unwrap()).unwrap_err().contains("`email.burn`"));
        let misnamed = arguments(&read_call("email.delete_email(id='1')").unwrap()).unwrap_err();
        assert!(misnamed.contains("`email.delete_email`") && misnamed.contains("`id`"), "{misnamed}");
        assert!(desk().call("email.burn", &Arguments::new()).is_err());
    }
}
