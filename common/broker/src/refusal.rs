//! Reasons of refusals of Redis. A server that refuses is not one that is silent: what an operator
//! does about it differs.

/// The reasons that have a name of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedisRefusal {
    /// `NOREPLICAS`.
    NoReplicas,
    /// `MISCONF`.
    Disk,
    /// `READONLY`.
    ReadOnly,
    /// `LOADING`.
    Loading,
    /// `BUSY`.
    Busy,
    /// `NOAUTH`, `WRONGPASS`.
    Password,
    /// `NOPERM`.
    Permission,
    /// `MASTERDOWN`.
    PrimaryDown,
    /// `CLUSTERDOWN`, `MOVED`, `ASK`, `TRYAGAIN`, `CROSSSLOT`.
    Cluster,
    /// Any other error.
    Other,
}

impl RedisRefusal {
    pub const ALL: [Self; 10] = [
        Self::NoReplicas,
        Self::Disk,
        Self::ReadOnly,
        Self::Loading,
        Self::Busy,
        Self::Password,
        Self::Permission,
        Self::PrimaryDown,
        Self::Cluster,
        Self::Other,
    ];

    /// The reason for an error with this code, the first word of what Redis says.
    pub fn of_code(code: &str) -> Self {
        match code {
            "NOREPLICAS" => Self::NoReplicas,
            "MISCONF" => Self::Disk,
            "READONLY" => Self::ReadOnly,
            "LOADING" => Self::Loading,
            "BUSY" => Self::Busy,
            "NOAUTH" | "WRONGPASS" => Self::Password,
            "NOPERM" => Self::Permission,
            "MASTERDOWN" => Self::PrimaryDown,
            "CLUSTERDOWN" | "MOVED" | "ASK" | "TRYAGAIN" | "CROSSSLOT" => Self::Cluster,
            _ => Self::Other,
        }
    }

    /// The label of metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoReplicas => "no_replicas",
            Self::Disk => "disk",
            Self::ReadOnly => "read_only",
            Self::Loading => "loading",
            Self::Busy => "busy",
            Self::Password => "password",
            Self::Permission => "permission",
            Self::PrimaryDown => "primary_down",
            Self::Cluster => "cluster",
            Self::Other => "other",
        }
    }

    /// What an operator does about it.
    pub fn advice(self) -> &'static str {
        match self {
            Self::NoReplicas => {
                "`min-replicas-to-write` asks for more replicas than follow the primary: start a replica, or lower it"
            }
            Self::Disk => "Redis cannot write to its disk: look at the disk and at the log of Redis",
            Self::ReadOnly => "put the primary into `redis.url`, or use `redis+sentinel://`",
            Self::Loading => "Redis reads its data from disk: wait",
            Self::Busy => "a script runs for too long: end it with SCRIPT KILL or FUNCTION KILL",
            Self::Password => "put user and password into `redis.url`: redis://USER:PASSWORD@HOST",
            Self::Permission => "give the user the rights of its role: deploy/redis/users.acl",
            Self::PrimaryDown => "this replica has lost its primary: start the primary, or connect to it",
            Self::Cluster => "use one primary with replicas: Goalmill does not run on a Redis Cluster",
            Self::Other => "look at the log of Redis",
        }
    }
}
