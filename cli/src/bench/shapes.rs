//! Shapes of the measured plans: graphs of no-op steps.

use clap::ValueEnum;
use goalmill_common::json::Json;
use goalmill_common::number::to_u32;
use goalmill_common::plan::{ForEach, OnItemFailure, Plan, Step, StepKind, StepWait};

/// Steps of one plan of independent steps: large enough that plans weigh little, small enough for several shards.
const INDEPENDENT_PER_PLAN: usize = 1_000;
/// Steps of a layer.
const LAYER: usize = 100;
/// Steps of a small plan.
const SMALL: usize = 5;

/// Shape of the plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shape {
    /// W1: steps without dependencies, 1,000 a plan.
    Independent,
    /// W2: one chain.
    Chain,
    /// W3: one step, then all the others, then one.
    Fan,
    /// W4: layers of 100, each step on three of the layer before.
    Layers,
    /// W5: plans of five steps: a → b, c → d → e.
    Small,
    /// One map over a list: a step for each item.
    Map,
    /// Plans of one step that waits for 6 hours: their memory, and the time of a takeover.
    Parked,
    /// W1 to W5, one after the other.
    All,
}

impl Shape {
    pub fn name(self) -> &'static str {
        match self {
            Self::Independent => "independent",
            Self::Chain => "chain",
            Self::Fan => "fan",
            Self::Layers => "layers",
            Self::Small => "small",
            Self::Map => "map",
            Self::Parked => "parked",
            Self::All => "all",
        }
    }

    /// The single shapes that it stands for.
    pub fn expand(self) -> Vec<Self> {
        match self {
            Self::All => vec![Self::Independent, Self::Chain, Self::Fan, Self::Layers, Self::Small],
            Self::Independent | Self::Chain | Self::Fan | Self::Layers | Self::Small | Self::Map | Self::Parked => {
                vec![self]
            }
        }
    }

    /// Default number of steps: the workloads of the published comparison.
    pub fn steps(self) -> usize {
        match self {
            Self::Independent | Self::All => 20_000,
            Self::Chain => 500,
            Self::Fan => 2_002,
            Self::Layers => 1_000,
            Self::Small | Self::Map => 10_000,
            Self::Parked => 100_000,
        }
    }

    /// A plan that waits for so many milliseconds.
    pub fn waiting(for_ms: u64) -> Plan {
        let mut step = Step::new("wait", "");
        (step.kind, step.wait) =
            (StepKind::Wait, Some(Box::new(StepWait { for_ms: Some(for_ms), ..StepWait::default() })));
        bench_plan([step])
    }

    /// The plans, with `steps` steps in all (rounded up to whole plans).
    pub fn plans(self, steps: usize) -> Vec<Plan> {
        match self {
            Self::Independent | Self::All => {
                let whole = steps / INDEPENDENT_PER_PLAN;
                let rest = steps % INDEPENDENT_PER_PLAN;
                let sizes = std::iter::repeat_n(INDEPENDENT_PER_PLAN, whole).chain((rest > 0).then_some(rest));
                sizes.map(|size| bench_plan((0..size).map(|n| step(n, &[])))).collect()
            }
            Self::Chain => vec![bench_plan((0..steps).map(|n| if n == 0 { step(n, &[]) } else { step(n, &[n - 1]) }))],
            Self::Fan => {
                let last = steps.max(3) - 1;
                let all: Vec<usize> = (1..last).collect();
                let wide = all.iter().map(|n| step(*n, &[0]));
                vec![bench_plan(std::iter::once(step(0, &[])).chain(wide).chain([step(last, &all)]))]
            }
            Self::Layers => vec![bench_plan((0..steps).map(|n| {
                let (layer, place) = (n / LAYER, n % LAYER);
                if layer == 0 {
                    return step(n, &[]);
                }
                let before = (layer - 1) * LAYER;
                step(n, &[before + place, before + (place + 1) % LAYER, before + (place + 7) % LAYER])
            }))],
            Self::Map => vec![bench_plan([map(steps)])],
            Self::Parked => (0..steps).map(|_| Self::waiting(6 * 3_600_000)).collect(),
            Self::Small => (0..steps.div_ceil(SMALL))
                .map(|_| bench_plan([step(0, &[]), step(1, &[0]), step(2, &[0]), step(3, &[1, 2]), step(4, &[3])]))
                .collect(),
        }
    }
}

fn bench_plan(steps: impl IntoIterator<Item = Step>) -> Plan {
    Plan { name: "bench".into(), steps: steps.into_iter().collect(), ..Plan::default() }
}

/// A map over so many items.
fn map(items: usize) -> Step {
    let for_each = ForEach {
        items: Json::from_value(&(0..items).collect::<Vec<usize>>()),
        name: None,
        batch: None,
        max_parallel: None,
        items_max: Some(to_u32(items)),
        on_item_failure: OnItemFailure::Fail,
    };
    Step { for_each: Some(Box::new(for_each)), ..step(0, &[]) }
}

/// Steps of a plan, those of the items of its maps included.
pub fn size(plan: &Plan) -> usize {
    let items = |step: &Step| step.for_each.as_ref().and_then(|map| map.items.value().as_array().map(Vec::len));
    plan.steps.iter().map(|step| items(step).unwrap_or(1)).sum()
}

/// A no-op step that reports its time.
fn step(n: usize, dependencies: &[usize]) -> Step {
    let mut step = Step::new(format!("s{n}"), "stamp");
    step.dependencies = dependencies.iter().map(|d| format!("s{d}").into()).collect();
    step.inputs = Json::empty_object();
    step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_has_the_steps_it_is_asked_for() {
        for shape in Shape::All.expand().into_iter().chain([Shape::Map, Shape::Parked]) {
            let total: usize = shape.plans(shape.steps()).iter().map(size).sum();
            assert_eq!(total, shape.steps(), "{}", shape.name());
        }
    }

    #[test]
    fn a_fan_opens_and_closes() {
        let plans = Shape::Fan.plans(12);
        let steps = &plans[0].steps;
        assert_eq!(
            (steps[0].dependencies.len(), steps[5].dependencies.len(), steps[11].dependencies.len()),
            (0, 1, 10)
        );
    }
}
