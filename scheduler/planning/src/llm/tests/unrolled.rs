//! Drafts that write one step many times.

use super::*;

/// Books a room in each of many cities.
fn bookings(count: usize) -> Value {
    let step = |n: usize| {
        json!({"id": format!("room{n}"), "description": format!("Book room {n}"), "agent_type": "rooms",
               "action": "book_room", "inputs": {"city": format!("City {n}"), "day": "2026-05-01"}, "dependencies": []})
    };
    json!({"steps": (0..count).map(step).collect::<Vec<_>>()})
}

/// The same as one map.
fn map(count: usize) -> Value {
    let cities: Vec<String> = (0..count).map(|n| format!("City {n}")).collect();
    let step = json!({"id": "s1_each_rooms_book_room", "description": "Book the rooms", "for_each": cities,
                      "agent_type": "rooms", "action": "book_room", "inputs": {"city": "{{ item }}", "day": "2026-05-01"},
                      "dependencies": []});
    let remove: Vec<String> = (0..count).map(|n| format!("room{n}")).collect();
    json!({"steps": [step], "remove": remove})
}

#[tokio::test]
async fn a_model_that_unrolls_a_map_is_told_and_corrects_it() {
    // Thirty steps are too many, twelve are a valid plan: both are told of maps.
    for (count, told) in [(12, "write one step with `for_each`"), (30, "as one step with `for_each`")] {
        let world = world(LlmSettings::default(), vec![vec![says(&bookings(count)), says(&map(count))]]).await;
        let planned = world.llm.plan(&request()).await.expect("the correction is valid").planned;
        assert_eq!(ids(&planned), ["s1_each_rooms_book_room"]);
        let items = planned.plan.steps[0].for_each.as_ref().map(|map| map.items.value());
        assert_eq!(items.and_then(|items| items.as_array().map(Vec::len)), Some(count));
        assert!(prompt_of(&world, 1).contains(told), "{}", prompt_of(&world, 1));
        let schema = &world.servers[0].seen()[1].body["response_format"]["json_schema"]["schema"];
        let schema = jsonschema::validator_for(schema).expect("it is a schema");
        assert!(schema.is_valid(&map(count)), "the form of the answer has room for the map");
    }
}

#[tokio::test]
async fn a_plan_that_stays_unrolled_is_taken_as_it_is() {
    let again = || says(&bookings(12));
    let world = world(LlmSettings::default(), vec![vec![again(), again()]]).await;
    let planned = world.llm.plan(&request()).await.expect("the first answer is valid").planned;
    assert_eq!((planned.plan.steps.len(), world.servers[0].calls(), planned.confidence), (12, 2, 0.75));
}
