//! Bounds of schedules: the critical path, the list schedule that the engine follows, and the best for few slots.
//!
//! A list schedule never leaves a slot idle while a step is ready, and takes the step with the longest remaining path
//! first (R. L. Graham, "Bounds on Multiprocessing Timing Anomalies", 1969; T. C. Hu, "Parallel Sequencing and
//! Assembly Line Problems", 1961). Nothing here costs time between a step's end and the next one's start.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Branches of [`Graph::best`] after which the best schedule found so far is taken.
const BRANCHES_MAX: u32 = 200_000;

/// Steps with durations.
#[derive(Clone, Debug)]
pub struct Graph {
    seconds: Vec<f64>,
    parents: Vec<usize>,
    children: Vec<Vec<usize>>,
    /// Seconds from a step's start to the end of the longest path that begins with it.
    ranks: Vec<f64>,
}

impl Graph {
    /// - `parents`: of each step, by place. Refuses cycles.
    pub fn new(seconds: Vec<f64>, parents: &[Vec<usize>]) -> Result<Self> {
        ensure!(seconds.len() == parents.len(), "{} durations for {} steps", seconds.len(), parents.len());
        let mut children = vec![Vec::new(); seconds.len()];
        for (step, before) in parents.iter().enumerate() {
            for parent in before {
                children.get_mut(*parent).context("a dependency is not a step")?.push(step);
            }
        }
        let mut open: Vec<usize> = children.iter().map(Vec::len).collect();
        let mut leaves: Vec<usize> = (0..open.len()).filter(|step| open[*step] == 0).collect();
        let mut ranks = seconds.clone();
        let mut ranked = 0;
        while let Some(step) = leaves.pop() {
            ranked += 1;
            ranks[step] += children[step].iter().map(|child| ranks[*child]).fold(0.0, f64::max);
            for parent in &parents[step] {
                open[*parent] -= 1;
                if open[*parent] == 0 {
                    leaves.push(*parent);
                }
            }
        }
        ensure!(ranked == seconds.len(), "the plan has a cycle");
        let parents = parents.iter().map(Vec::len).collect();
        Ok(Self { seconds, parents, children, ranks })
    }

    /// A plan document whose steps have `inputs.seconds`.
    pub fn of_plan(plan: &Value) -> Result<Self> {
        let steps = plan["steps"].as_array().context("a plan has steps")?;
        let id = |step: &Value| step["id"].as_str().unwrap_or_default().to_owned();
        let places: BTreeMap<String, usize> = steps.iter().enumerate().map(|(n, step)| (id(step), n)).collect();
        let parents = |step: &Value| -> Result<Vec<usize>> {
            let named = step["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default();
            let place = |name: &Value| places.get(name.as_str().unwrap_or_default()).copied();
            named.iter().map(|name| place(name).with_context(|| format!("{name} is not a step"))).collect()
        };
        let seconds = steps.iter().map(|step| step["inputs"]["seconds"].as_f64().unwrap_or(0.0)).collect();
        Self::new(seconds, &steps.iter().map(parents).collect::<Result<Vec<_>>>()?)
    }

    pub fn steps(&self) -> usize {
        self.seconds.len()
    }

    /// Seconds of the longest path: the shortest time with free slots.
    pub fn critical_path(&self) -> f64 {
        self.ranks.iter().copied().fold(0.0, f64::max)
    }

    /// Seconds of all steps together.
    pub fn work(&self) -> f64 {
        self.seconds.iter().sum()
    }

    /// What no schedule on so many slots can beat: the longest path, or the work shared out evenly.
    pub fn bound(&self, slots: usize) -> f64 {
        self.critical_path().max(self.work() / slots as f64)
    }

    /// Seconds on so many slots: longest remaining path first, then who became ready first.
    pub fn list_schedule(&self, slots: usize) -> f64 {
        let mut state = State::start(self);
        while !state.is_done() {
            state.ready.sort_by(|a, b| self.ranks[b.0].total_cmp(&self.ranks[a.0]).then(a.1.cmp(&b.1)));
            while state.running.len() < slots && !state.ready.is_empty() {
                let (step, _) = state.ready.remove(0);
                state.running.push((state.now + self.seconds[step], step));
            }
            state.advance(self);
        }
        state.now
    }

    /// Seconds of the best schedule on so many slots, by branch and bound; of the best one found when the plan is too
    /// large to look at all of them.
    pub fn best(&self, slots: usize) -> f64 {
        let mut search = Search { graph: self, slots, best: self.list_schedule(slots), branches: 0 };
        if search.best > self.bound(slots) * (1.0 + 1e-9) {
            search.branch(State::start(self));
        }
        search.best
    }
}

/// A schedule under way.
#[derive(Clone)]
struct State {
    now: f64,
    /// Steps with the number of the moment at which they became ready, and their place.
    ready: Vec<(usize, usize)>,
    /// Steps with their ends.
    running: Vec<(f64, usize)>,
    open: Vec<usize>,
    moment: usize,
}

impl State {
    fn start(graph: &Graph) -> Self {
        let ready = (0..graph.steps()).filter(|step| graph.parents[*step] == 0).map(|step| (step, 0)).collect();
        Self { now: 0.0, ready, running: Vec::new(), open: graph.parents.clone(), moment: 0 }
    }

    fn is_done(&self) -> bool {
        self.ready.is_empty() && self.running.is_empty()
    }

    /// To the next end of a step.
    fn advance(&mut self, graph: &Graph) {
        self.now = self.running.iter().map(|(end, _)| *end).fold(f64::INFINITY, f64::min);
        self.moment += 1;
        let now = self.now;
        let (ended, running): (Vec<_>, Vec<_>) = self.running.drain(..).partition(|(end, _)| *end <= now);
        self.running = running;
        for child in ended.iter().flat_map(|(_, step)| &graph.children[*step]) {
            self.open[*child] -= 1;
            if self.open[*child] == 0 {
                self.ready.push((*child, self.moment));
            }
        }
    }

    /// What this schedule takes at the least.
    fn least(&self, graph: &Graph) -> f64 {
        let waiting = self.ready.iter().map(|(step, _)| self.now + graph.ranks[*step]);
        let running = self.running.iter().map(|(end, step)| end + graph.ranks[*step] - graph.seconds[*step]);
        waiting.chain(running).fold(self.now, f64::max)
    }
}

struct Search<'a> {
    graph: &'a Graph,
    slots: usize,
    best: f64,
    branches: u32,
}

impl Search<'_> {
    fn branch(&mut self, state: State) {
        self.branches += 1;
        if self.branches > BRANCHES_MAX || state.least(self.graph).total_cmp(&self.best) != Ordering::Less {
            return;
        }
        if state.is_done() {
            self.best = state.now;
            return;
        }
        if state.running.len() < self.slots {
            for place in 0..state.ready.len() {
                let mut next = state.clone();
                let (step, _) = next.ready.remove(place);
                next.running.push((next.now + self.graph.seconds[step], step));
                self.branch(next);
            }
        }
        if !state.running.is_empty() {
            let mut next = state;
            next.advance(self.graph);
            self.branch(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_remaining_path_goes_first() {
        // Three short steps and a chain: whoever starts the chain last takes 5 seconds.
        let graph = Graph::new(vec![1.0, 1.0, 1.0, 2.0], &[vec![], vec![], vec![], vec![2]]).unwrap();
        assert_eq!(graph.list_schedule(2), 3.0);
        assert_eq!((graph.critical_path(), graph.work(), graph.bound(2)), (3.0, 5.0, 3.0));
    }

    #[test]
    fn the_best_schedule_may_beat_the_list() {
        // Graham's anomaly: the list starts 3, 3 and ends the 2s unevenly.
        let graph = Graph::new(vec![3.0, 3.0, 2.0, 2.0, 2.0], &vec![vec![]; 5]).unwrap();
        assert_eq!(graph.list_schedule(2), 7.0);
        assert_eq!(graph.best(2), 6.0);
    }

    #[test]
    fn with_slots_for_all_the_list_takes_the_critical_path() {
        let parents = [vec![], vec![0], vec![0], vec![1, 2], vec![]];
        let graph = Graph::new(vec![1.0, 2.5, 1.5, 0.5, 3.0], &parents).unwrap();
        assert_eq!(graph.list_schedule(5), graph.critical_path());
    }

    #[test]
    fn cycles_and_unknown_dependencies_are_refused() {
        assert!(Graph::new(vec![1.0, 1.0], &[vec![1], vec![0]]).unwrap_err().to_string().contains("cycle"));
        assert!(Graph::new(vec![1.0], &[vec![7]]).is_err());
    }
}
