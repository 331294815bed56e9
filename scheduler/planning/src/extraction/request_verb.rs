//! The verbs with which people ask for things.

/// Whether people ask for things with this verb.
pub(super) fn is_request_verb(word: &str) -> bool {
    IMPERATIVES.contains(&word)
}

/// Verbs with which people ask for things.
const IMPERATIVES: &[&str] = &[
    "accelerate", "acquire", "add", "advertise", "aggregate", "agree", "analyse", "analyze", "annotate", "announce",
    "anonymise", "anonymize", "answer", "apologise", "apologize", "append", "apply", "approve", "archive", "arrange",
    "ask", "assemble", "assess", "assign", "attach", "auction", "audit", "automate", "back", "backup", "bake",
    "benchmark", "book", "boost", "brainstorm", "bring", "build", "buy", "calculate", "call", "cancel", "carry",
    "catalog", "catalogue", "categorise", "categorize", "cater", "celebrate", "check", "choose", "cite", "classify",
    "clean", "cleanse", "clear", "close", "coach", "collect", "combine", "come", "compare", "compile", "compose",
    "compress", "compute", "condense", "conduct", "configure", "confirm", "congratulate", "connect", "consolidate",
    "contact", "convert", "cook", "coordinate", "copy", "count", "cover", "create", "critique", "cut", "debug",
    "decide", "declutter", "decommission", "decorate", "decrease", "dedupe", "deduplicate", "define", "delete",
    "deliver", "deploy", "describe", "design", "develop", "diagnose", "digitise", "digitize", "disable", "discuss",
    "distribute", "do", "document", "donate", "double", "download", "draft", "draw", "drop", "edit", "eliminate",
    "email", "employ", "enable", "encrypt", "ensure", "establish", "estimate", "evaluate", "examine", "expand",
    "explain", "explore", "export", "extract", "feed", "fetch", "figure", "fill", "film", "filter", "finalise",
    "finalize", "find", "finish", "fix", "forecast", "forward", "fundraise", "gather", "generate", "get", "give",
    "grow", "halve", "handle", "hang", "headhunt", "highlight", "hire", "hold", "host", "identify", "illustrate",
    "implement", "import", "improve", "include", "increase", "inform", "inspect", "install", "instruct", "insulate",
    "integrate", "interview", "introduce", "invent", "investigate", "invite", "invoice", "issue", "join", "keep",
    "label", "launch", "learn", "let", "list", "load", "localise", "localize", "locate", "look", "lower", "make",
    "manage", "maximise", "maximize", "measure", "merge", "migrate", "minimise", "minimize", "mitigate", "modernise",
    "modernize", "monitor", "mount", "move", "mow", "name", "negotiate", "normalise", "normalize", "notify", "obtain",
    "onboard", "open", "optimise", "optimize", "order", "organise", "organize", "outline", "pack", "paint",
    "paraphrase", "patch", "pay", "perform", "pick", "plan", "plant", "plot", "point", "poll", "practice", "practise",
    "prep", "prepare", "present", "print", "prioritise", "prioritize", "process", "procure", "produce", "promote",
    "proofread", "propose", "provide", "provision", "prune", "publish", "purchase", "put", "raise", "rank", "read",
    "recap", "recommend", "reconcile", "record", "recover", "recycle", "recruit", "redact", "redecorate", "redo",
    "redesign", "reduce", "refactor", "reformat", "refresh", "refurbish", "register", "reinstall", "release",
    "relocate", "remind", "remodel", "remove", "rename", "renew", "renovate", "rent", "reorganise", "reorganize",
    "repaint", "repair", "rephrase", "replace", "reply", "report", "reproduce", "request", "research", "reserve",
    "reset", "resolve", "respond", "restore", "retest", "retrieve", "review", "revoke", "rewrite", "rotate", "run",
    "save", "scale", "scan", "schedule", "scrape", "search", "secure", "segment", "select", "sell", "send", "set",
    "share", "ship", "shorten", "shortlist", "show", "sign", "simplify", "simulate", "sketch", "sort", "speed",
    "split", "staff", "standardise", "standardize", "start", "streamline", "study", "submit", "subtitle", "suggest",
    "summarise", "summarize", "survey", "synchronise", "synchronize", "take", "teach", "tell", "terminate", "test",
    "thank", "throw", "tidy", "track", "train", "transcribe", "transfer", "transform", "translate", "trim",
    "troubleshoot", "turn", "unclog", "unsubscribe", "update", "upgrade", "upload", "use", "vacuum", "validate",
    "verify", "visualise", "visualize", "wash", "watch", "water", "weigh", "work", "wrap", "write",
];

/// Whether a word that is more often a noun is a verb here: `offer a refund`, `post your comments`.
///
/// - `next`: the word behind it.
pub(super) fn is_verb_by_object(word: &str, next: &str) -> bool {
    let is_verb =
        ["offer", "post", "change", "flag", "tag", "mail", "link", "map", "query", "refund", "return", "group"]
            .contains(&word);
    is_verb && ["a", "an", "the", "our", "your", "my", "all", "each", "every", "it", "them", "this"].contains(&next)
}
