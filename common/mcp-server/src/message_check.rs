//! Checks messages before the library reads them: it takes parameters that it cannot read for an unknown method.

use serde_json::{Map, Value, json};

/// The JSON is not valid.
const PARSE_ERROR: i32 = -32700;
/// The JSON is no message.
const INVALID_REQUEST: i32 = -32600;
/// The parameters do not fit the method.
const INVALID_PARAMS: i32 = -32602;

/// What to do with a message.
#[derive(Debug, PartialEq)]
pub(crate) enum CheckedMessage {
    /// It is passed on as it is.
    Same,
    /// Another spelling of it is passed on.
    Changed(Vec<u8>),
    /// It is answered with this error, a JSON-RPC message.
    Refused(Vec<u8>),
}

/// Checks one message.
///
/// Arguments that are a text with an object are read as that object: clients pass on what models write.
pub(crate) fn check_message(body: &[u8]) -> CheckedMessage {
    let message: Value = match serde_json::from_slice(body) {
        Ok(message) => message,
        Err(error) => return refuse(&Value::Null, PARSE_ERROR, &format!("the message is not JSON: {error}")),
    };
    match message {
        Value::Object(fields) => check_fields(fields),
        Value::Array(_) => {
            refuse(&Value::Null, INVALID_REQUEST, "batches are not supported: send one message per request")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            refuse(&Value::Null, INVALID_REQUEST, "a message must be a JSON object")
        }
    }
}

fn check_fields(mut message: Map<String, Value>) -> CheckedMessage {
    // Answers and notifications have nothing to answer.
    let Some(id) = message.get("id").filter(|_| message.contains_key("method")).cloned() else {
        return CheckedMessage::Same;
    };
    if !(id.is_string() || id.is_number()) {
        return refuse(&Value::Null, INVALID_REQUEST, "`id` must be a text or a number");
    }
    let Some(method) = message.get("method").and_then(Value::as_str).map(str::to_owned) else {
        return refuse(&id, INVALID_REQUEST, "`method` must be a text");
    };
    let params = match message.get_mut("params") {
        None => None,
        Some(Value::Object(params)) => Some(params),
        Some(_) => return refuse(&id, INVALID_PARAMS, "`params` must be an object"),
    };
    let checked = match method.as_str() {
        "tools/call" => check_text(params.as_deref(), "name").and_then(|()| unwrap_arguments(params)),
        "resources/read" => check_text(params.as_deref(), "uri").map(|()| false),
        _ => Ok(false),
    };
    match checked {
        Ok(false) => CheckedMessage::Same,
        Ok(true) => CheckedMessage::Changed(Value::Object(message).to_string().into_bytes()),
        Err(reason) => refuse(&id, INVALID_PARAMS, &reason),
    }
}

fn check_text(params: Option<&Map<String, Value>>, name: &str) -> Result<(), String> {
    match params.and_then(|params| params.get(name)) {
        Some(Value::String(_)) => Ok(()),
        Some(_) => Err(format!("`{name}` must be a text")),
        None => Err(format!("`{name}` is missing")),
    }
}

/// Returns whether the arguments were a text and are an object from here on.
fn unwrap_arguments(params: Option<&mut Map<String, Value>>) -> Result<bool, String> {
    let Some(arguments) = params.and_then(|params| params.get_mut("arguments")) else { return Ok(false) };
    match arguments {
        Value::Null | Value::Object(_) => return Ok(false),
        Value::String(text) => {
            if let Ok(Value::Object(fields)) = serde_json::from_str::<Value>(text) {
                *arguments = Value::Object(fields);
                return Ok(true);
            }
        }
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => {}
    }
    Err("arguments must be an object".into())
}

fn refuse(id: &Value, code: i32, message: &str) -> CheckedMessage {
    let answer = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}});
    CheckedMessage::Refused(answer.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(message: &str) -> (Value, i64, String) {
        let CheckedMessage::Refused(answer) = check_message(message.as_bytes()) else { panic!("{message} passes") };
        let answer: Value = serde_json::from_slice(&answer).expect("an answer is JSON");
        let text = answer["error"]["message"].as_str().unwrap_or_default().to_owned();
        (answer["id"].clone(), answer["error"]["code"].as_i64().unwrap_or_default(), text)
    }

    #[test]
    fn arguments_that_are_sent_as_text_are_read_as_an_object() {
        let message = r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"plan_status","arguments":"{\"plan_id\":\"p0-x\"}"}}"#;
        let CheckedMessage::Changed(changed) = check_message(message.as_bytes()) else { panic!("it is not changed") };
        let changed: Value = serde_json::from_slice(&changed).expect("it is JSON");
        assert_eq!(changed["params"]["arguments"], json!({"plan_id": "p0-x"}));
        for arguments in [r#""x""#, "[1]", "7", r#""[1]""#] {
            let message = message.replace(r#""{\"plan_id\":\"p0-x\"}""#, arguments);
            assert_eq!(refused(&message), (json!(3), -32602, "arguments must be an object".into()), "{arguments}");
        }
    }

    #[test]
    fn a_message_that_cannot_be_read_is_told_why() {
        for (message, code, part) in [
            ("{", -32700, "not JSON"),
            ("[]", -32600, "batches"),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600, "batches"),
            ("7", -32600, "object"),
            (r#"{"id":1,"method":7}"#, -32600, "`method`"),
            (r#"{"id":{},"method":"ping"}"#, -32600, "`id`"),
            (r#"{"id":1,"method":"ping","params":[1]}"#, -32602, "`params`"),
            (r#"{"id":1,"method":"tools/call","params":{"name":7}}"#, -32602, "`name`"),
            (r#"{"id":1,"method":"tools/call"}"#, -32602, "`name`"),
            (r#"{"id":1,"method":"resources/read","params":{}}"#, -32602, "`uri`"),
        ] {
            let (_, found, text) = refused(message);
            assert!(found == code && text.contains(part), "{message}: {found} {text}");
        }
    }

    #[test]
    fn other_messages_pass_as_they_are() {
        for message in [
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"route","arguments":{"task":"x"}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_agents","arguments":null}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"no/such","params":{}}"#,
        ] {
            assert_eq!(check_message(message.as_bytes()), CheckedMessage::Same, "{message}");
        }
    }
}
