//! Exit codes, and errors with cause and hint.

use std::fmt;

use goalmill_broker::BrokerError;
use goalmill_client::ClientError;
use goalmill_common::problem::{ErrorCode, Problem};
use goalmill_common::status::PlanStatus;

use crate::planning_trace;

/// The exit code of a command; scripts rely on the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Done,
    /// Also for a check that found a problem.
    Other,
    Usage,
    /// The plan has ended without being completed, or a share is below the required one.
    NotCompleted,
    NotPermitted,
    NotFound,
    /// `--timeout` expired; the plan continues.
    Timeout,
    AwaitingApproval,
    InvalidInput,
    /// Server or Redis.
    Unreachable,
    /// A role works no more: one of its loops ended.
    Internal,
    Interrupted,
}

impl Exit {
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Other => 1,
            Self::Usage => 2,
            Self::NotCompleted => 3,
            Self::NotPermitted => 4,
            Self::NotFound => 5,
            Self::Timeout => 6,
            Self::AwaitingApproval => 7,
            Self::InvalidInput => 8,
            Self::Unreachable => 69,
            Self::Internal => 70,
            Self::Interrupted => 130,
        }
    }

    /// For a command that waited for a plan.
    pub fn of_plan(status: PlanStatus) -> Self {
        match status {
            PlanStatus::Completed => Self::Done,
            PlanStatus::AwaitingApproval => Self::AwaitingApproval,
            PlanStatus::Partial | PlanStatus::Failed | PlanStatus::Cancelled | PlanStatus::Rejected => {
                Self::NotCompleted
            }
            PlanStatus::Planning | PlanStatus::Running | PlanStatus::Replanning | PlanStatus::Paused => Self::Other,
        }
    }

    /// For an error response of the API.
    pub fn of_status(http: u16, code: Option<ErrorCode>) -> Self {
        let down = [
            ErrorCode::StoreUnavailable,
            ErrorCode::StoreRefused,
            ErrorCode::DataLost,
            ErrorCode::UnsafeStore,
            ErrorCode::NotReady,
        ];
        match http {
            401 | 403 => Self::NotPermitted,
            404 | 410 => Self::NotFound,
            400 | 413 | 415 | 422 => Self::InvalidInput,
            502 | 504 => Self::Unreachable,
            503 if code.is_none_or(|code| down.contains(&code)) => Self::Unreachable,
            _ => Self::Other,
        }
    }
}

/// Why a command failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    pub exit: Exit,
    /// The error and its cause.
    pub message: String,
    /// A hint; may be empty.
    pub help: String,
    /// The server's problem object, if any.
    pub problem: Option<Box<Problem>>,
    /// Source lines of the problem.
    pub places: Vec<String>,
}

/// Result of a command.
pub type CommandResult = Result<Exit, Failed>;

impl Failed {
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), help: String::new(), problem: None, places: Vec::new() }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Exit::InvalidInput, message)
    }

    pub fn other(message: impl fmt::Display) -> Self {
        Self::new(Exit::Other, message.to_string())
    }

    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = help.into();
        self
    }

    /// The error as a problem object with the exit code.
    pub fn to_json(&self) -> serde_json::Value {
        let mut value = match &self.problem {
            Some(problem) => serde_json::to_value(problem).expect("a problem always has a JSON form"),
            None => serde_json::json!({ "title": self.message, "detail": self.message }),
        };
        value["exit_code"] = self.exit.code().into();
        if !self.help.is_empty() {
            value["help"] = self.help.clone().into();
        }
        value
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.problem {
            Some(problem) => write!(f, "{problem}")?,
            None => f.write_str(&self.message)?,
        }
        for place in &self.places {
            write!(f, "\n  ┌ {place}")?;
        }
        let trace = self.problem.as_ref().and_then(|problem| problem.planning_trace.as_ref());
        for line in trace.map(planning_trace::lines).unwrap_or_default() {
            write!(f, "\n  {line}")?;
        }
        if self.help.is_empty() { Ok(()) } else { write!(f, "\n  help: {}", self.help) }
    }
}

impl std::error::Error for Failed {}

impl From<Problem> for Failed {
    fn from(problem: Problem) -> Self {
        let help = if problem.code == ErrorCode::Unauthenticated {
            "give a valid token by GOALMILL_TOKEN or `--token`; see: docs/access.md"
        } else if problem.code == ErrorCode::Forbidden {
            "use a token that has the role; an administrator creates it: goalmill token create"
        } else {
            ""
        };
        Self {
            exit: Exit::of_status(problem.status, Some(problem.code)),
            message: problem.detail.clone(),
            help: help.into(),
            problem: Some(Box::new(problem)),
            places: Vec::new(),
        }
    }
}

impl From<ClientError> for Failed {
    fn from(error: ClientError) -> Self {
        const LIST: &str = "list the plans: goalmill plan list";
        const TOKEN: &str = "give the whole text of a token by GOALMILL_TOKEN or `--token`";
        let (exit, help) = match error {
            ClientError::Problem(problem) => return (*problem).into(),
            ClientError::InvalidAddress { .. } => (Exit::Usage, ""),
            ClientError::InvalidNamespace(_) => (Exit::Usage, "names are ids: letters, digits, `.`, `_`, `:`, `-`"),
            ClientError::InvalidToken => (Exit::Usage, TOKEN),
            ClientError::InvalidCaFile { .. } => {
                (Exit::Usage, "name a file with certificates of authorities by GOALMILL_CA_FILE or `--ca-file`")
            }
            ClientError::UntrustedCertificate { .. } => (
                Exit::Unreachable,
                "if it is your server, name the file with the certificate of its authority by GOALMILL_CA_FILE or `--ca-file`",
            ),
            ClientError::Unreachable { .. } => (
                Exit::Unreachable,
                "start one (`goalmill dev`), or name another with `--server URL` or GOALMILL_SERVER",
            ),
            ClientError::TimedOut { .. } => (
                Exit::Unreachable,
                "the server has the request and may still carry it out; see what it does: goalmill health, goalmill plan list",
            ),
            ClientError::NoCertificates { .. } | ClientError::InvalidEvent { .. } => (Exit::Other, ""),
            ClientError::Status { status, .. } => (Exit::of_status(status.as_u16(), None), ""),
            ClientError::InvalidAnswer { .. } => (Exit::Other, "client and server may be of different versions"),
            ClientError::InvalidSelector(_) => (Exit::Usage, LIST),
            ClientError::AmbiguousSelector { .. } => (Exit::Usage, "give more of the id, or its end"),
            ClientError::UnknownPlan(_) | ClientError::NoFailedPlan => (Exit::NotFound, LIST),
            ClientError::NoPlans => (Exit::NotFound, "submit one: goalmill submit 'YOUR GOAL'"),
        };
        Self::new(exit, error.to_string()).help(help)
    }
}

impl From<BrokerError> for Failed {
    fn from(error: BrokerError) -> Self {
        let (exit, help) = match &error {
            BrokerError::Unavailable(_) => (Exit::Unreachable, "check the address, or start one with: redis-server"),
            // Its text says what to do.
            BrokerError::Refused { .. } => (Exit::Unreachable, ""),
            BrokerError::OutOfMemory => (Exit::Other, "raise `maxmemory`, or wait for running plans to end"),
            BrokerError::DataLost(_) => (Exit::Other, "check that this is the right Redis; see: goalmill doctor"),
            BrokerError::Unsafe(_) => {
                (Exit::Other, "set `maxmemory-policy noeviction`, or `redis.allow_unsafe = true` for a trial")
            }
            BrokerError::InvalidAddress(_) => {
                (Exit::InvalidInput, "see the address in use, and where it is set: goalmill config redis")
            }
            BrokerError::Unsupported(_) => {
                (Exit::Other, "name another in `redis.url`; see: goalmill explain REDIS_UNSAFE")
            }
            BrokerError::WrongType(_) => (
                Exit::Other,
                "find the program that wrote the key, then rename the key; types of keys: docs/redis.md#keys",
            ),
            BrokerError::Archive(_) => (Exit::Unreachable, "check the database of `archive`: docs/archive.md"),
            BrokerError::Corrupt(_) => (Exit::Other, "check that nothing else writes to the `goalmill:` keys"),
        };
        Self::new(exit, error.to_string()).help(help)
    }
}

impl From<std::io::Error> for Failed {
    fn from(error: std::io::Error) -> Self {
        Self::other(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_the_api_have_exit_codes() {
        let code = |http, code| Exit::of_status(http, code).code();
        assert_eq!(code(404, Some(ErrorCode::PlanNotFound)), 5);
        assert_eq!(code(401, None), 4);
        assert_eq!(code(403, None), 4);
        assert_eq!(code(422, Some(ErrorCode::InvalidPlan)), 8);
        assert_eq!(code(400, Some(ErrorCode::InvalidRequest)), 8);
        assert_eq!(code(409, Some(ErrorCode::PlanFinal)), 1);
        assert_eq!(code(503, Some(ErrorCode::StoreUnavailable)), 69);
        assert_eq!(code(503, Some(ErrorCode::MemoryPressure)), 1);
        assert_eq!(code(500, Some(ErrorCode::Internal)), 1);
    }

    #[test]
    fn only_a_completed_plan_is_done() {
        for status in PlanStatus::ALL {
            let exit = Exit::of_plan(*status);
            assert_eq!(exit == Exit::Done, *status == PlanStatus::Completed, "{status}");
            if status.is_final() && *status != PlanStatus::Completed {
                assert_eq!(exit.code(), 3, "{status}");
            }
        }
        assert_eq!(Exit::of_plan(PlanStatus::AwaitingApproval).code(), 7);
    }

    #[test]
    fn an_unreachable_redis_is_69_and_an_address_that_is_none_is_8() {
        assert_eq!(Failed::from(BrokerError::InvalidAddress("it has no scheme".into())).exit.code(), 8);
        assert_eq!(Failed::from(BrokerError::Unavailable("refused".into())).exit.code(), 69);
    }

    #[test]
    fn a_failure_is_a_problem_object_for_programs() {
        let failed = Failed::from(Problem::new(ErrorCode::PlanNotFound, "there is no plan `p0-x`")).help("list them");
        let value = failed.to_json();
        assert_eq!(value["code"], "PLAN_NOT_FOUND");
        assert_eq!(value["exit_code"], 5);
        assert_eq!(value["help"], "list them");
    }
}
