//! Injected failures of demo agents.

use goalmill_common::failure::{Failure, FailureClass};
use serde_json::Value;

use super::{is_set, permanent, text};

/// The district is fully booked; other districts are not.
const FULLY_BOOKED: &str = "fully_booked";
/// The agent is away: nothing is done.
const UNAVAILABLE: &str = "unavailable";

/// Fails when the inputs inject a failure of `agent`.
///
/// `demo_fault` names the agent: `{"flight_agent": "unavailable"}` is sent with a step to every agent, and only the named one
/// fails. `fault` applies to any agent.
pub(super) fn refuse(agent: &str, inputs: &Value) -> Result<(), Failure> {
    let Some(fault) = text(&inputs["demo_fault"], &[agent]).or_else(|| text(inputs, &["fault"])) else {
        return Ok(());
    };
    match fault {
        FULLY_BOOKED if looks_nearby(inputs) || !wanted_area(inputs).is_empty() => Ok(()),
        FULLY_BOOKED => Err(permanent("FULLY_BOOKED", "Hotel fully booked")),
        UNAVAILABLE => {
            let message = format!("{} unavailable", agent.replace('_', " "));
            Err(Failure::new(FailureClass::Transient, "UNAVAILABLE", message).without_effect())
        }
        "timeout" => Err(Failure::new(FailureClass::Timeout, "DEMO_TIMEOUT", "it did not answer in time")),
        "declined" => Err(permanent("DECLINED", "the task is declined")),
        "too_complex" => Err(permanent("TOO_COMPLEX", "the task is too complex for one step")),
        fault => Err(permanent("DEMO_FAULT", format!("it failed as it was told to: {fault}"))),
    }
}

/// Whether the search includes the neighbouring districts.
pub(super) fn looks_nearby(inputs: &Value) -> bool {
    is_set(inputs, "nearby") || wanted_area(inputs).contains("nearby")
}

/// The requested district in lower case; empty when there is none.
pub(super) fn wanted_area(inputs: &Value) -> String {
    text(inputs, &["area", "neighborhood", "neighbourhood"]).unwrap_or_default().to_lowercase()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_agent_that_is_named_fails() {
        let inputs = json!({"demo_fault": {"flight_agent": "unavailable", "hotel_agent": "lazy"}});
        let failure = refuse("flight_agent", &inputs).expect_err("it is named");
        assert_eq!((failure.class, failure.code.as_str()), (FailureClass::Transient, "UNAVAILABLE"));
        assert_eq!(refuse("backup_flight_agent", &inputs), Ok(()));
        assert_eq!(refuse("hotel_agent", &inputs).expect_err("it is named").code, "DEMO_FAULT");
        assert!(refuse("writer_agent", &json!({"fault": "x"})).is_err());
        assert_eq!(refuse("writer_agent", &json!({"demo_fault": {}, "fault": null})), Ok(()));
    }

    #[test]
    fn a_district_that_is_fully_booked_has_neighbours() {
        let booked = json!({"demo_fault": {"hotel_agent": "fully_booked"}});
        let failure = refuse("hotel_agent", &booked).expect_err("it is fully booked");
        assert_eq!((failure.class, failure.code.as_str()), (FailureClass::Permanent, "FULLY_BOOKED"));
        for (name, value) in [("nearby", json!(true)), ("area", json!("11e"))] {
            let mut elsewhere = booked.clone();
            elsewhere[name] = value;
            assert_eq!(refuse("hotel_agent", &elsewhere), Ok(()), "{name}");
        }
    }
}
